package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/conditions"
)

// TestCheck reads the problems as a person does: the field, its value, and what to write instead.
func TestCheck(t *testing.T) {
	type spec = v1alpha1.ClusterNetworkingSpec
	for name, tc := range map[string]struct {
		spoil func(*spec)
		want  []conditions.Problem
	}{
		"the tutorial's spec is good": {spoil: func(*spec) {}},
		"an empty spec is good":       {spoil: func(s *spec) { *s = spec{} }},
		"an advertisement without pools and without selectors is good": {
			spoil: func(s *spec) { s.L2Advertisements[0] = v1alpha1.L2Advertisement{Name: "all"} }},
		"globs, a bond's name and a label selector are good": {
			spoil: func(s *spec) {
				s.L2Advertisements[0].Interfaces = []string{"eth0", "bond*", "en[op]?s*", "eth0.100"}
				s.L2Advertisements[0].NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "1"}}
			}},
		"a reversed range, and one that is in two pools": {
			spoil: func(s *spec) {
				s.IPPools = []v1alpha1.IPPool{
					{Name: "lan-pool", Addresses: []v1alpha1.AddressRange{"10.0.0.9-10.0.0.1", "192.168.1.200-192.168.1.210"}},
					{Name: "other", Addresses: []v1alpha1.AddressRange{"192.168.1.208/28"}},
				}
			},
			want: []conditions.Problem{
				{Field: "spec.ipPools[0].addresses[0]", Message: `"10.0.0.9-10.0.0.1" ends before it begins: write 10.0.0.1-10.0.0.9`},
				{Field: "spec.ipPools[1].addresses[0]", Message: `"192.168.1.208/28" overlaps "192.168.1.200-192.168.1.210" of pool "lan-pool": ` +
					`an address belongs to one pool, so take it out of one of the two`},
			},
		},
		"an advertisement of a pool that does not exist": {
			spoil: func(s *spec) {
				s.IPPools = append(s.IPPools, v1alpha1.IPPool{Name: "dmz", Addresses: []v1alpha1.AddressRange{"10.0.0.0/28"}})
				s.L2Advertisements[0].IPPools = []string{"dmz", "lan-pol"}
			},
			want: []conditions.Problem{{Field: "spec.l2Advertisements[0].ipPools[1]",
				Message: `there is no pool "lan-pol": name one of spec.ipPools (lan-pool, dmz), or leave ipPools empty for every pool`}},
		},
		"an advertisement of a pool where there is none at all": {
			spoil: func(s *spec) { s.IPPools = nil },
			want: []conditions.Problem{{Field: "spec.l2Advertisements[0].ipPools[0]",
				Message: `there is no pool "lan-pool": add it to spec.ipPools, which is empty, or leave ipPools empty for every pool`}},
		},
		"a selector and globs that cannot be read, each in its place": {
			spoil: func(s *spec) {
				s.L2Advertisements = append(s.L2Advertisements, v1alpha1.L2Advertisement{
					Name: "bad", Interfaces: []string{"eth0", "eth[", `bond\`},
					NodeSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "rack", Operator: "Is"}}},
				})
			},
			want: []conditions.Problem{
				{Field: "spec.l2Advertisements[1].nodeSelector", Message: `"Is" is not a valid label selector operator: ` +
					`mend the label or the operator, or leave nodeSelector out for every node`},
				{Field: "spec.l2Advertisements[1].interfaces[1]", Message: `"eth[" is no pattern: write a name (eth0), or a glob with * and ? (bond*)`},
				{Field: "spec.l2Advertisements[1].interfaces[2]", Message: `"bond\\" is no pattern: write a name (eth0), or a glob with * and ? (bond*)`},
			},
		},
		"an operator without the values that it needs": {
			spoil: func(s *spec) {
				s.L2Advertisements[0].NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "rack", Operator: "In"}}}
			},
			want: []conditions.Problem{{Field: "spec.l2Advertisements[0].nodeSelector", Message: "values: Invalid value: null: " +
				`for 'in', 'notin' operators, values set can't be empty: mend the label or the operator, or leave nodeSelector out for every node`}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := tutorial().Spec
			tc.spoil(&s)
			if diff := cmp.Diff(tc.want, check(s)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
