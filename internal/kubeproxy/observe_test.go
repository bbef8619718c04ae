package kubeproxy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

func TestObserve(t *testing.T) {
	for name, tc := range map[string]struct {
		answers map[string]string // what /proxyMode of each node says
		summary string
		modes   []v1alpha1.ObservedMode
	}{
		"one mode everywhere needs no count": {
			answers: map[string]string{"b": "nftables", "a": "nftables"},
			summary: "nftables",
			modes:   []v1alpha1.ObservedMode{{Mode: "nftables", Nodes: []string{"a", "b"}}},
		},
		"in a roll, the commonest comes first": {
			answers: map[string]string{"a": "nftables", "b": "iptables", "c": "iptables"},
			summary: "iptables (2), nftables (1)",
			modes: []v1alpha1.ObservedMode{{Mode: "iptables", Nodes: []string{"b", "c"}},
				{Mode: "nftables", Nodes: []string{"a"}}},
		},
		"of equally many, the first by name": {
			answers: map[string]string{"a": "nftables", "b": "ipvs"},
			summary: "ipvs (1), nftables (1)",
			modes:   []v1alpha1.ObservedMode{{Mode: "ipvs", Nodes: []string{"b"}}, {Mode: "nftables", Nodes: []string{"a"}}},
		},
		"a kube-proxy that does not answer is counted, not guessed": {
			answers: map[string]string{"a": "", "b": "iptables", "c": "iptables"},
			summary: "iptables (2), unknown (1)",
			modes:   []v1alpha1.ObservedMode{{Mode: "iptables", Nodes: []string{"b", "c"}}, {Mode: "unknown", Nodes: []string{"a"}}},
		},
		"a mode that Lanyard does not know is passed on": {
			answers: map[string]string{"a": "kernelspace"},
			summary: "kernelspace",
			modes:   []v1alpha1.ObservedMode{{Mode: "kernelspace", Nodes: []string{"a"}}},
		},
		"no nodes": {},
	} {
		t.Run(name, func(t *testing.T) {
			var nodes []Node
			for node, mode := range tc.answers {
				nodes = append(nodes, Node{Name: node, Mode: mode})
			}
			summary, modes := Observe(nodes)
			if summary != tc.summary {
				t.Errorf("summary is %q, want %q", summary, tc.summary)
			}
			if diff := cmp.Diff(tc.modes, modes); diff != "" {
				t.Errorf("modes (-want +got):\n%s", diff)
			}
		})
	}
}
