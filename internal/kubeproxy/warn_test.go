package kubeproxy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

func TestWarnings(t *testing.T) {
	const (
		leaving = "Leaving mode ipvs ends the TCP connections to Services through each node when its kube-proxy restarts, the long ones too: change to " +
			"nftables when a reconnect is cheap, and set spec.kubeProxy.rollout.state to Paused until then"
		calico = "with the operator set spec.calicoNetwork.linuxDataplane of Installation default, with manifests nftablesMode of " +
			"FelixConfiguration default"
		forgets = "Mode ipvs forgets idle TCP connections after 15 minutes, where connection tracking keeps them for 24 hours: set " +
			"spec.kubeProxy.ipvs.tcpTimeout to what pools of idle connections need"
	)
	nft := Fields{{PathMode, "nftables"}}
	for name, tc := range map[string]struct {
		outlook Outlook
		want    []string
	}{
		"nftables, declared": {outlook: Outlook{Declared: nft, Mode: "nftables", Running: []string{"nftables"}}},
		"a mode left open, whose meaning is to change, is a deprecation": {outlook: Outlook{Mode: "iptables", Running: []string{"iptables"}}},
		"a mode that only the file declares":                             {outlook: Outlook{Document: head + "mode: iptables\n", Mode: "iptables"}},
		"a mode left open where its meaning has changed": {
			outlook: Outlook{Mode: "nftables", Image: "kube-proxy:v1.40.0"},
			want: []string{"config.conf leaves the mode open, and kube-proxy from 1.40 on takes nftables for it: set spec.kubeProxy.mode, so that the " +
				"mode changes only when you say so"},
		},
		"ipvs, which is deprecated": {outlook: Outlook{Document: head + "mode: ipvs\n", Mode: "ipvs", Running: []string{"ipvs"}}},
		"a version that is not known": {
			outlook: Outlook{Declared: nft, Mode: "nftables", Image: "mirror/kube-proxy:stable"},
			want: []string{"The image mirror/kube-proxy:stable of DaemonSet kube-system/kube-proxy does not tell kube-proxy's version: the rules of " +
				"1.37 are applied, so give the image a tag like v1.37.0 if the cluster's is another"},
		},
		"leaving iptables with what it alone does in use": {
			outlook: Outlook{Declared: nft, Mode: "nftables", Running: []string{"nftables", "iptables"},
				Uses: []v1alpha1.KubeProxyUse{v1alpha1.UseInvalidPacketsDropped, v1alpha1.UseLocalhostNodePorts}},
			want: []string{
				"Mode iptables dropped packets that connection tracking calls invalid, and mode nftables does not: their connections may be reset, so set " +
					"spec.kubeProxy.conntrack.tcpBeLiberal to true with the change",
				"NodePorts were reached at 127.0.0.1, which mode nftables does not serve: point who uses them to the node's address first",
			},
		},
		"the same from 1.37 on, where nftables can serve NodePorts on loopback": {
			outlook: Outlook{Declared: nft, Mode: "nftables", Running: []string{"iptables"}, Image: image137,
				Uses: []v1alpha1.KubeProxyUse{v1alpha1.UseLocalhostNodePorts}},
			want: []string{"NodePorts were reached at 127.0.0.1, which mode nftables does not serve: point who uses them to the node's address first, or " +
				"set nodePortAddresses to [primary, localhost] with the feature gate KubeProxyNFTablesLocalhostNodePorts, which serves TCP"},
		},
		"and where it is asked to": {
			outlook: Outlook{Declared: nft.With(PathNodePortAddresses, []string{"primary", "localhost"}), Mode: "nftables", Running: []string{"iptables"},
				Image: image137, Uses: []v1alpha1.KubeProxyUse{v1alpha1.UseLocalhostNodePorts}},
			want: []string{"NodePorts were reached at 127.0.0.1, which mode nftables does not serve: see that featureGates in config.conf has " +
				"KubeProxyNFTablesLocalhostNodePorts: true, which serves TCP, and point who uses UDP to the node's address first"},
		},
		"leaving iptables with connection tracking liberal already": {
			outlook: Outlook{Declared: nft.With(PathTCPBeLiberal, true), Mode: "nftables", Running: []string{"iptables"},
				Uses: []v1alpha1.KubeProxyUse{v1alpha1.UseInvalidPacketsDropped}},
		},
		"staying with iptables": {
			outlook: Outlook{Declared: Fields{{PathMode, "iptables"}}, Mode: "iptables", Running: []string{"iptables"},
				Uses: []v1alpha1.KubeProxyUse{v1alpha1.UseInvalidPacketsDropped, v1alpha1.UseLocalhostNodePorts}},
		},
		"leaving ipvs": {outlook: Outlook{Declared: nft, Mode: "nftables", Running: []string{"ipvs"}}, want: []string{leaving}},
		"going to ipvs": {
			outlook: Outlook{Declared: Fields{{PathMode, "ipvs"}}, Mode: "ipvs", Running: []string{"iptables", UnknownMode}},
			want:    []string{forgets},
		},
		"going to ipvs with a timeout of one's own": {
			outlook: Outlook{Declared: Fields{{PathMode, "ipvs"}, {PathTCPTimeout, "24h"}}, Mode: "ipvs", Running: []string{"iptables"}},
		},
		"strictARP turned off while addresses are announced": {
			outlook: Outlook{Declared: Fields{{PathMode, "ipvs"}, {PathStrictARP, false}}, Mode: "ipvs", Announcing: true},
			want: []string{"ipvs.strictARP is off while addresses are announced: each node answers ARP for every one of them, so remove " +
				"spec.kubeProxy.ipvs.strictARP, and Lanyard turns it on"},
		},
		"Calico with iptables, kube-proxy with nftables": {
			outlook: Outlook{Declared: nft, Mode: "nftables", Calico: CalicoIPTables},
			want: []string{"Calico runs its iptables dataplane, and kube-proxy's mode is nftables: Felix may fail, so change Calico to nftables too, " +
				calico},
		},
		"Calico with nftables, kube-proxy with iptables": {
			outlook: Outlook{Document: head + "mode: iptables\n", Mode: "iptables", Calico: CalicoNFTables},
			want:    []string{"Calico runs its nftables dataplane, and kube-proxy's mode is iptables: change both to the same, " + calico},
		},
		"a Calico that cannot be told": {
			outlook: Outlook{Declared: nft, Mode: "nftables", Calico: CalicoUnknown},
			want: []string{"Calico has to run its nftables dataplane with kube-proxy's mode nftables, and which one it runs could not be told: " +
				"see that it does, " + calico},
		},
		"Calico that follows kube-proxy": {outlook: Outlook{Declared: nft, Mode: "nftables", Calico: CalicoAuto}},
		"settings of ipvs for another mode": {
			outlook: Outlook{Declared: nft.With(PathScheduler, "lc"), Mode: "nftables"},
			want:    []string{"spec.kubeProxy.ipvs.scheduler has no effect in mode nftables: it is written, and read as soon as the mode is ipvs"},
		},
		"a document that cannot be read has a condition of its own": {outlook: Outlook{Declared: nft, Document: "kind: [", Mode: "nftables"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Warnings(tc.outlook.on136(t))); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
