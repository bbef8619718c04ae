package kubeproxy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const image136, image137 = "registry.k8s.io/kube-proxy:v1.36.3", "registry.k8s.io/kube-proxy:v1.37.0"

func TestVersion(t *testing.T) {
	type answer struct {
		Minor int
		OK    bool
	}
	for image, want := range map[string]answer{
		"registry.k8s.io/kube-proxy:v1.36.3":                          {36, true},
		"registry.k8s.io/kube-proxy:v1.36.3@sha256:0123":              {36, true},
		"registry:5000/mirror/kube-proxy:1.40.0":                      {40, true},
		"602401143452.dkr.ecr.amazonaws.com/kube-proxy:v1.35.0-eks.2": {35, true},
		"kube-proxy:v1.37":                  {37, true},
		"kube-proxy:v1.37.0_build-1":        {37, true},
		"registry:5000/mirror/kube-proxy":   {},
		"kube-proxy@sha256:0123":            {},
		"kube-proxy:latest":                 {},
		"kube-proxy:v2.1.0":                 {},
		"kube-proxy:1.99999999999999999999": {},
		"":                                  {},
	} {
		t.Run(image, func(t *testing.T) {
			minor, ok := Version(image)
			if diff := cmp.Diff(want, answer{minor, ok}); diff != "" {
				t.Errorf("minor version (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	declares := func(path Path, value any) Fields { return Fields{{path, value}} }
	for name, tc := range map[string]struct {
		want     Fields
		document string
		image    string
		problems []Problem
	}{
		"what kubeadm writes": {},
		"every setting, as it should be": {want: Fields{
			{PathMode, "ipvs"}, {PathScheduler, "lc"}, {PathStrictARP, true}, {PathExcludeCIDRs, []string{"10.9.0.0/16", "fd00:9::/64"}},
			{PathTCPTimeout, "15m"}, {PathTCPFinTimeout, "2m"}, {PathUDPTimeout, "300s"}, {PathNodePortAddresses, []string{"primary"}},
			{PathTCPBeLiberal, true}, {PathMetricsBindAddress, "0.0.0.0:10249"}, {PathClusterCIDR, "10.244.0.0/16,fd00:10:244::/56"},
		}},
		"a document that cannot be read": {
			document: "kind: [", problems: []Problem{{Message: "config.conf is not YAML (yaml: line 1: did not find expected node content): " +
				"mend it by hand, kube-proxy cannot start with it either"}},
		},
		"a mode that kube-proxy does not have": {
			want: declares(PathMode, "userspace"),
			problems: []Problem{{PathMode, `"userspace"`, `spec.kubeProxy.mode is "userspace": kube-proxy does not start with it: ` +
				`write iptables, ipvs or nftables`}},
		},
		"a mode in the file that kube-proxy does not have": {
			document: head + "mode: IPVS\n",
			problems: []Problem{{PathMode, `"IPVS"`, `config.conf: mode (line 4) is "IPVS": kube-proxy does not start with it: ` +
				`write iptables, ipvs or nftables, or declare it in spec.kubeProxy`}},
		},
		"ipvs while it is deprecated": {want: declares(PathMode, "ipvs"), image: "kube-proxy:v1.39.9"},
		"ipvs when it is behind a gate": {
			want: declares(PathMode, "ipvs"), image: "kube-proxy:v1.40.0",
			problems: []Problem{{PathMode, `"ipvs"`, `spec.kubeProxy.mode is "ipvs": kube-proxy 1.40 does not start with it unless featureGates has ` +
				`KubeProxyIPVS: true, which 1.43 ends: write nftables`}},
		},
		"ipvs when its gate is open": {
			want: declares(PathMode, "ipvs"), image: "kube-proxy:v1.42.0", document: head + "featureGates: {KubeProxyIPVS: true}\n",
		},
		"ipvs when it is gone": {
			want: declares(PathMode, "ipvs"), image: "kube-proxy:v1.43.0", document: head + "featureGates: {KubeProxyIPVS: true}\n",
			problems: []Problem{{PathMode, `"ipvs"`, `spec.kubeProxy.mode is "ipvs": kube-proxy 1.43 does not have it any more: write nftables`}},
		},
		"nftables before it was": {
			want: declares(PathMode, "nftables"), image: "kube-proxy:v1.28.0",
			problems: []Problem{{PathMode, `"nftables"`, `spec.kubeProxy.mode is "nftables": kube-proxy 1.28 does not have it, 1.29 is the first ` +
				`that has: write iptables until the cluster is upgraded`}},
		},
		"nftables while it was behind a gate": {
			want: declares(PathMode, "nftables"), image: "kube-proxy:v1.30.0",
			problems: []Problem{{PathMode, `"nftables"`, `spec.kubeProxy.mode is "nftables": kube-proxy 1.30 does not start with it unless ` +
				`featureGates has NFTablesProxyMode: true: set that in config.conf, or write iptables until the cluster is upgraded`}},
		},
		"a scheduler that Linux does not have, though kube-proxy takes it": {
			want: declares(PathScheduler, "wr"),
			problems: []Problem{{PathScheduler, `"wr"`, `spec.kubeProxy.ipvs.scheduler is "wr": Linux has no such scheduler, and kube-proxy does not ` +
				`start without its module: write one of rr, wrr, lc, wlc, fo, ovf, lblc, lblcr, sh, dh, mh, sed, nq, twos`}},
		},
		"what Lanyard writes is right in a section that is not read, too": {
			want: declares(PathExcludeCIDRs, []string{"10.9.0.0/16", "10.9.0.1"}).With(PathTCPTimeout, "-1s"),
			problems: []Problem{
				{PathExcludeCIDRs, `["10.9.0.0/16","10.9.0.1"]`, `spec.kubeProxy.ipvs.excludeCIDRs is ["10.9.0.0/16","10.9.0.1"]: kube-proxy does not ` +
					`start with it, for "10.9.0.1" is no CIDR: write networks like 10.9.0.0/16`},
				{PathTCPTimeout, `"-1s"`, `spec.kubeProxy.ipvs.tcpTimeout is "-1s": kube-proxy does not start with it: write a time that is not negative`},
			},
		},
		"what the file has in a section is a problem in the mode that reads it": {
			want: declares(PathMode, "ipvs"), document: head + "ipvs:\n  excludeCIDRs: [office]\n",
			problems: []Problem{{PathExcludeCIDRs, `["office"]`, `config.conf: ipvs.excludeCIDRs (line 5) is ["office"]: kube-proxy does not start ` +
				`with it, for "office" is no CIDR: write networks like 10.9.0.0/16, or declare it in spec.kubeProxy`}},
		},
		"and none in another": {want: declares(PathMode, "nftables"), document: head + "ipvs:\n  excludeCIDRs: [office]\n"},
		"primary alone":       {want: declares(PathNodePortAddresses, []string{"primary"})},
		"primary among networks, before 1.37": {
			want: declares(PathNodePortAddresses, []string{"primary", "10.0.0.0/8"}),
			problems: []Problem{{PathNodePortAddresses, `["primary","10.0.0.0/8"]`, `spec.kubeProxy.nodePortAddresses is ["primary","10.0.0.0/8"]: ` +
				`before 1.37, "primary" stands alone, and this is kube-proxy 1.36: write [primary], or networks only`}},
		},
		"keywords among networks, from 1.37 on": {want: declares(PathNodePortAddresses, []string{"primary", "localhost", "10.0.0.0/8"}), image: image137},
		"a keyword that 1.36 does not know": {
			want: declares(PathNodePortAddresses, []string{"all"}),
			problems: []Problem{{PathNodePortAddresses, `["all"]`, `spec.kubeProxy.nodePortAddresses is ["all"]: kube-proxy 1.36 does not know the ` +
				`keyword "all": write networks like 192.168.1.0/24`}},
		},
		"a keyword that 1.30 does not know": {
			want: declares(PathNodePortAddresses, []string{"primary"}), image: "kube-proxy:v1.30.1",
			problems: []Problem{{PathNodePortAddresses, `["primary"]`, `spec.kubeProxy.nodePortAddresses is ["primary"]: kube-proxy 1.30 does not know ` +
				`the keyword "primary": write networks like 192.168.1.0/24`}},
		},
		"the rules of the newest version, said so, where the version is not known": {
			want: declares(PathMode, "ipvs").With(PathNodePortAddresses, []string{"all", "eth0"}), image: "mirror/kube-proxy:stable",
			problems: []Problem{{PathNodePortAddresses, `["all","eth0"]`, `spec.kubeProxy.nodePortAddresses is ["all","eth0"]: kube-proxy does not ` +
				`start with it, for "eth0" is neither a CIDR nor a keyword: write networks like 192.168.1.0/24`}},
		},
		"metrics at a name": {
			document: head + "metricsBindAddress: localhost:10249\n",
			problems: []Problem{{PathMetricsBindAddress, `"localhost:10249"`, `config.conf: metricsBindAddress (line 4) is "localhost:10249": kube-proxy ` +
				`does not start with it: write an IP address and a port from 1 to 65535, like 127.0.0.1:10249, or declare it in spec.kubeProxy`}},
		},
		"metrics without a port, which kube-proxy adds": {document: head + "metricsBindAddress: \"::1\"\n"},
		"metrics at the port of the health check": {
			want: declares(PathMetricsBindAddress, "127.0.0.1:10256"),
			problems: []Problem{{PathMetricsBindAddress, `"127.0.0.1:10256"`, `spec.kubeProxy.metricsBindAddress is "127.0.0.1:10256": kube-proxy ` +
				`serves its health check at port 10256: write another port, its own is 10249`}},
		},
		"two pod networks of one family": {
			want: declares(PathClusterCIDR, "10.0.0.0/16,10.1.0.0/16"),
			problems: []Problem{{PathClusterCIDR, `"10.0.0.0/16,10.1.0.0/16"`, `spec.kubeProxy.clusterCIDR is "10.0.0.0/16,10.1.0.0/16": kube-proxy ` +
				`does not start with it, for it takes one network of each family: write one network, or an IPv4 and an IPv6 one, like ` +
				`10.244.0.0/16,fd00:10:244::/56`}},
		},
		"pod networks that are not read": {document: "kind: KubeProxyConfiguration\nclusterCIDR: none\ndetectLocalMode: NodeCIDR\n"},
		"zeros that kube-proxy reads over": {
			document: "kind: KubeProxyConfiguration\nclusterCIDR: 010.244.0.0/16\nbindAddress: 010.0.0.1\nnodePortAddresses: [10.00.0.0/8]\n",
		},
		"a value of another type": {
			document: head + "ipvs:\n  strictARP: \"true\"\n  tcpTimeout: 900\n",
			problems: []Problem{
				{PathStrictARP, `"true"`, `config.conf: ipvs.strictARP (line 5) is "true": kube-proxy does not start with it: write true or false, ` +
					`without quotes, or declare it in spec.kubeProxy`},
				{PathTCPTimeout, `900`, `config.conf: ipvs.tcpTimeout (line 6) is 900: kube-proxy does not start with it: write a time with its unit, ` +
					`like 30s or 15m, or declare it in spec.kubeProxy`},
			},
		},
		"a value of another type that is about to be edited": {want: declares(PathStrictARP, true), document: head + "ipvs:\n  strictARP: \"true\"\n"},
		"a number out of its range": {
			document: head + "oomScoreAdj: -1001\niptables: {masqueradeBit: 32}\n",
			problems: []Problem{
				{"iptables.masqueradeBit", `32`, `config.conf: iptables.masqueradeBit (line 5) is 32: kube-proxy does not start with it: ` +
					`write a number from 0 to 31`},
				{"oomScoreAdj", `-1001`, `config.conf: oomScoreAdj (line 4) is -1001: kube-proxy does not start with it: write a number from -1000 to 1000`},
			},
		},
		"a field that the cluster is too old for": {
			want: declares(PathTCPBeLiberal, true), image: "kube-proxy:v1.28.0",
			problems: []Problem{{PathTCPBeLiberal, `true`, `spec.kubeProxy.conntrack.tcpBeLiberal is true: kube-proxy 1.28 does not know the field, ` +
				`1.29 is the first that does: leave it out until the cluster is upgraded`}},
		},
		"fields that kube-proxy ignores": {document: head + "strictArp: true\nscheduler: rr\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.document == "" {
				tc.document = documents(t)["kubeadm-v1.36"]
			}
			if tc.image == "" {
				tc.image = image136
			}
			if diff := cmp.Diff(tc.problems, Validate(tc.want, tc.document, tc.image)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDoubts(t *testing.T) {
	for name, tc := range map[string]struct {
		want     Fields
		document string
		image    string
		doubts   []Problem
	}{
		"what kubeadm writes":            {},
		"a document that cannot be read": {document: "kind: ["},
		"a field that is misspelt in its section": {
			document: head + "ipvs:\n  strictArp: true\n",
			doubts: []Problem{{"ipvs.strictArp", "", "config.conf: ipvs.strictArp (line 5) is no field of KubeProxyConfiguration, and kube-proxy ignores " +
				"it: write ipvs.strictARP if that is meant, or remove it"}},
		},
		"fields at the wrong place": {
			document: head + "scheduler: rr\nstrictArp: true\nsyncPeriod: 30s\nipvs: {mode: ipvs}\n",
			doubts: []Problem{
				{"scheduler", "", "config.conf: scheduler (line 4) is no field of KubeProxyConfiguration, and kube-proxy ignores it: " +
					"write ipvs.scheduler if that is meant, or remove it"},
				{"strictArp", "", "config.conf: strictArp (line 5) is no field of KubeProxyConfiguration, and kube-proxy ignores it: " +
					"write ipvs.strictARP if that is meant, or remove it"},
				{"syncPeriod", "", "config.conf: syncPeriod (line 6) is no field of KubeProxyConfiguration, and kube-proxy ignores it: " +
					"write iptables.syncPeriod or ipvs.syncPeriod or nftables.syncPeriod if that is meant, or remove it"},
				{"ipvs.mode", "", "config.conf: ipvs.mode (line 7) is no field of KubeProxyConfiguration, and kube-proxy ignores it: " +
					"write mode if that is meant, or remove it"},
			},
		},
		"a field that is nothing like another": {
			document: head + "resourceContainer: /kube-proxy\n",
			doubts: []Problem{{"resourceContainer", "", "config.conf: resourceContainer (line 4) is no field of KubeProxyConfiguration, and kube-proxy " +
				"ignores it: remove it"}},
		},
		"a short name, two letters of which are no likeness": {
			document: head + "conntrack:\n  max: 0\n",
			doubts: []Problem{{"conntrack.max", "", "config.conf: conntrack.max (line 5) is no field of KubeProxyConfiguration, and kube-proxy ignores " +
				"it: remove it"}},
		},
		"a field that may be newer than this table": {
			document: head + "resourceContainer: /kube-proxy\n", image: "kube-proxy:v1.38.0",
			doubts: []Problem{{"resourceContainer", "", "config.conf: resourceContainer (line 4) is no field of KubeProxyConfiguration, and kube-proxy " +
				"ignores it: remove it, unless it is newer than 1.37"}},
		},
		"a field that the cluster is too old for": {
			document: head + "nftables:\n  syncPeriod: 1s\nconntrack: {tcpBeLiberal: true}\n", image: "kube-proxy:v1.28.0",
			doubts: []Problem{
				{"nftables", "", "config.conf: nftables (line 4) is ignored by kube-proxy 1.28, 1.29 is the first that knows it: remove it, or upgrade " +
					"the cluster"},
				{"conntrack.tcpBeLiberal", "", "config.conf: conntrack.tcpBeLiberal (line 6) is ignored by kube-proxy 1.28, 1.29 is the first that knows " +
					"it: remove it, or upgrade the cluster"},
			},
		},
		"a value that would stop kube-proxy in another mode": {
			document: head + "ipvs: {udpTimeout: -1s}\n",
			doubts: []Problem{{PathUDPTimeout, `"-1s"`, `config.conf: ipvs.udpTimeout (line 4) is "-1s": kube-proxy does not start with it in the mode ` +
				`that reads it: write a time that is not negative, or declare it in spec.kubeProxy`}},
		},
		"such a value in the mode, which is a problem": {want: Fields{{PathMode, "ipvs"}}, document: head + "ipvs: {udpTimeout: -1s}\n"},
		"a merged section": {
			document: head + "future: &it {ipvs: {strictArp: true}}\n<<: *it\n",
			doubts: []Problem{
				{"future", "", "config.conf: future (line 4) is no field of KubeProxyConfiguration, and kube-proxy ignores it: remove it"},
				{"ipvs.strictArp", "", "config.conf: ipvs.strictArp (line 4) is no field of KubeProxyConfiguration, and kube-proxy ignores it: " +
					"write ipvs.strictARP if that is meant, or remove it"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.document == "" {
				tc.document = documents(t)["kubeadm-v1.36"]
			}
			if tc.image == "" {
				tc.image = image136
			}
			if diff := cmp.Diff(tc.doubts, Doubts(tc.want, tc.document, tc.image)); diff != "" {
				t.Errorf("doubts (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzValidate: no document makes it fail, and what it says is one line.
func FuzzValidate(f *testing.F) {
	for _, document := range documents(f) {
		f.Add(document, image137)
	}
	f.Add("kind: KubeProxyConfiguration\n<<: &a {ipvs: *a}\n", "kube-proxy:v1.28.0")
	f.Fuzz(func(t *testing.T, document, image string) {
		for _, problem := range append(Validate(declared[4].fields, document, image), Doubts(nil, document, image)...) {
			if problem.Message == "" || strings.Contains(problem.Message, "\n") {
				t.Errorf("a problem that says nothing, or not on one line: %+v", problem)
			}
		}
	})
}
