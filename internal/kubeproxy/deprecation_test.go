package kubeproxy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDeprecationOf(t *testing.T) {
	const ends = "Kubernetes 1.35 (December 2025): kube-proxy of 1.40 (expected in August 2027) does not start in it without the feature gate " +
		"KubeProxyIPVS, and that of 1.43 (expected in August 2028) does not have it any more. Set spec.kubeProxy.mode to nftables before the upgrade to "
	deprecated := Deprecation{"IPVSDeprecated", "Mode ipvs is deprecated since " + ends + "1.40"}
	open := Deprecation{"ModeLeftOpen", "config.conf leaves the mode open: kube-proxy takes iptables for it now and nftables from Kubernetes 1.40 (expected in " +
		"August 2027) on, on all nodes at that upgrade. Set spec.kubeProxy.mode to iptables to keep it, or to nftables to change it node by node before"}
	for name, tc := range map[string]struct {
		outlook Outlook
		want    Deprecation
	}{
		"nftables, declared":                          {outlook: Outlook{Declared: Fields{{PathMode, "nftables"}}, Mode: "nftables"}},
		"iptables, declared, which stays":             {outlook: Outlook{Declared: Fields{{PathMode, "iptables"}}, Mode: "iptables"}},
		"a mode that only the file declares":          {outlook: Outlook{Document: head + "mode: iptables\n", Mode: "iptables"}},
		"a mode left open":                            {outlook: Outlook{Mode: "iptables"}, want: open},
		"where it means nftables already, it stays":   {outlook: Outlook{Mode: "nftables", Image: "kube-proxy:v1.40.0"}},
		"ipvs, declared":                              {outlook: Outlook{Declared: Fields{{PathMode, "ipvs"}}, Mode: "ipvs"}, want: deprecated},
		"ipvs in the file, and kept":                  {outlook: Outlook{Document: head + "mode: ipvs\n", Mode: "ipvs"}, want: deprecated},
		"ipvs that runs still, on its way to another": {outlook: Outlook{Declared: Fields{{PathMode, "nftables"}}, Mode: "nftables", Running: []string{"ipvs"}}},
		"ipvs before it was deprecated": {
			outlook: Outlook{Document: head + "mode: ipvs\n", Mode: "ipvs", Image: "kube-proxy:v1.34.2"},
			want:    Deprecation{"IPVSDeprecated", "Mode ipvs will be deprecated from " + ends + "1.40"}},
		"ipvs behind its feature gate": {
			outlook: Outlook{Document: head + "mode: ipvs\n", Mode: "ipvs", Image: "kube-proxy:v1.41.0"},
			want:    Deprecation{"IPVSDeprecated", "Mode ipvs is deprecated since " + ends + "1.43"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, DeprecationOf(tc.outlook.on136(t))); diff != "" {
				t.Errorf("deprecation (-want +got):\n%s", diff)
			}
		})
	}
}
