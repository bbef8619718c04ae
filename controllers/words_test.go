package controllers

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/conditions"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// report is the report of a node whose speaker hears the peers.
func report(node string, peers string, change ...func(*v1alpha1.NodeNetworkingStatus)) v1alpha1.NodeNetworking {
	n := v1alpha1.NodeNetworking{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: v1alpha1.NodeNetworkingStatus{Peers: strings.Fields(peers)}}
	for _, c := range change {
		c(&n.Status)
	}
	return n
}

func announces(ip string, minute int, message ...string) func(*v1alpha1.NodeNetworkingStatus) {
	return func(s *v1alpha1.NodeNetworkingStatus) {
		s.Announced = append(s.Announced, v1alpha1.AnnouncedIP{IP: ip, Interface: "eth0", MAC: "52:54:00:00:00:01", Since: at(minute),
			Message: strings.Join(message, "")})
	}
}

func explains(ip, why string) func(*v1alpha1.NodeNetworkingStatus) {
	return func(s *v1alpha1.NodeNetworkingStatus) {
		s.Unannounced = append(s.Unannounced, v1alpha1.UnannouncedIP{IP: ip, Reason: "NoCandidate", Message: why})
	}
}

// allocated is an address of default/lb that nobody answers for; with a node, one that this node answers for.
func allocated(ip, message string) v1alpha1.AllocatedIP {
	return v1alpha1.AllocatedIP{IP: ip, IPPool: "lan-pool", Services: []string{"default/lb"}, Message: message}
}

func allocatedOn(node, ip string, minute int, message string) v1alpha1.AllocatedIP {
	a := allocated(ip, message)
	since := at(minute)
	a.Node, a.Interface, a.MAC, a.Since = node, "eth0", "52:54:00:00:00:01", &since
	return a
}

func nodeSet(names string) map[string]bool {
	set := map[string]bool{}
	for _, name := range strings.Fields(names) {
		set[name] = true
	}
	return set
}

func TestAllocatedIPs(t *testing.T) {
	const ip, nobodyYet = "192.168.1.200", "no speaker has reported that it announces it yet"
	const split = " answer for it at once, for not all of them hear each other: open TCP and UDP port 7956 between these nodes"
	type reports = []v1alpha1.NodeNetworking
	for name, tc := range map[string]struct {
		addresses   []string // of default/lb; ip alone when none are named
		nodes       reports
		alive       string // nodes whose kubelet says that the speaker is ready
		want        []v1alpha1.AllocatedIP
		wantMissing []conditions.Unannounced
		wantRemarks []string
		wantSplit   []string
	}{
		"the node that announces it": {
			nodes: reports{report("w1", "w2", announces(ip, 1)), report("w2", "w1")},
			want:  []v1alpha1.AllocatedIP{allocatedOn("w1", ip, 1, "")},
		},
		"the only node there is": {
			nodes: reports{report("w1", "", announces(ip, 1))},
			want:  []v1alpha1.AllocatedIP{allocatedOn("w1", ip, 1, "")},
		},
		"no speaker has spoken yet": {
			want:        []v1alpha1.AllocatedIP{allocated(ip, nobodyYet)},
			wantMissing: []conditions.Unannounced{{IP: ip, Message: nobodyYet}},
		},
		"a speaker says why nobody announces it": {
			nodes:       reports{report("w1", "w2", explains(ip, "no carrier")), report("w2", "w1")},
			want:        []v1alpha1.AllocatedIP{allocated(ip, "no carrier")},
			wantMissing: []conditions.Unannounced{{IP: ip, Message: "no carrier", Explained: true}},
		},
		"what is unusual about the announcer is remarked": {
			nodes:       reports{report("cp", "", announces(ip, 1, "only excluded nodes are left"))},
			want:        []v1alpha1.AllocatedIP{allocatedOn("cp", ip, 1, "only excluded nodes are left")},
			wantRemarks: []string{ip + ": only excluded nodes are left"},
		},
		"of two that announce it, the one that began last: the other has not reported its end yet": {
			nodes: reports{report("w1", "w2", announces(ip, 1)), report("w2", "w1", announces(ip, 2))},
			want:  []v1alpha1.AllocatedIP{allocatedOn("w2", ip, 2, "")},
		},
		"of two that began in the same second, always the same one": {
			nodes: reports{report("w1", "w2", announces(ip, 1)), report("w2", "w1", announces(ip, 1))},
			want:  []v1alpha1.AllocatedIP{allocatedOn("w1", ip, 1, "")},
		},
		"two that announce it and hear nobody: a blocked port makes each elect itself": {
			nodes:     reports{report("w1", "", announces(ip, 1)), report("w2", "", announces(ip, 2))},
			want:      []v1alpha1.AllocatedIP{allocatedOn("w2", ip, 2, "w1 and w2"+split)},
			wantSplit: []string{ip + ": w1 and w2" + split},
		},
		"three that hear nobody": {
			nodes:     reports{report("w1", "", announces(ip, 1)), report("w2", "", announces(ip, 2)), report("w3", "", announces(ip, 1))},
			want:      []v1alpha1.AllocatedIP{allocatedOn("w2", ip, 2, "w1, w2 and w3"+split)},
			wantSplit: []string{ip + ": w1, w2 and w3" + split},
		},
		"one that is cut off from the others, and runs": {
			nodes: reports{report("w1", "w2", announces(ip, 1)), report("w2", "w1"), report("w3", "", announces(ip, 2))}, alive: "w1 w2 w3",
			want:      []v1alpha1.AllocatedIP{allocatedOn("w1", ip, 1, "w1 and w3"+split)},
			wantSplit: []string{ip + ": w1 and w3" + split},
		},
		"one that was cut off from the others, and died": {
			nodes: reports{report("w1", "w2", announces(ip, 1)), report("w2", "w1"), report("w3", "", announces(ip, 2))}, alive: "w1 w2",
			want: []v1alpha1.AllocatedIP{allocatedOn("w1", ip, 1, "")},
		},
		"a handover between two of which one has not reported the other yet": {
			nodes: reports{report("w1", "w2", announces(ip, 1)), report("w2", "", announces(ip, 2))}, alive: "w1 w2",
			want: []v1alpha1.AllocatedIP{allocatedOn("w2", ip, 2, "")},
		},
		"a dead node goes on claiming it in the report that it left, even as one that began later": {
			nodes: reports{report("cp", "w1"), report("w1", "cp", announces(ip, 1)), report("w2", "cp w1", announces(ip, 2))},
			want:  []v1alpha1.AllocatedIP{allocatedOn("w1", ip, 1, "")},
		},
		"nobody has taken over from the dead node yet": {
			nodes: reports{report("cp", "w1"), report("w1", "cp"), report("w2", "cp w1", announces(ip, 2))},
			want:  []v1alpha1.AllocatedIP{allocated(ip, "w2 said last that it announces it, but most other speakers do not hear w2")},
			wantMissing: []conditions.Unannounced{
				{IP: ip, Message: "w2 said last that it announces it, but most other speakers do not hear w2"}},
		},
		"nobody can take over from the dead node, and the living say why": {
			nodes:       reports{report("cp", "w1", explains(ip, "only w2 is selected")), report("w1", "cp"), report("w2", "cp w1", announces(ip, 2))},
			want:        []v1alpha1.AllocatedIP{allocated(ip, "only w2 is selected")},
			wantMissing: []conditions.Unannounced{{IP: ip, Message: "only w2 is selected", Explained: true}},
		},
		"what a dead node said before it died explains nothing now": {
			nodes:       reports{report("cp", "w1"), report("w1", "cp"), report("w2", "cp w1", explains(ip, "no pool"))},
			want:        []v1alpha1.AllocatedIP{allocated(ip, nobodyYet)},
			wantMissing: []conditions.Unannounced{{IP: ip, Message: nobodyYet}},
		},
		"in the order of addresses; what is missing for a known reason is named first, for messages name but a few": {
			addresses: []string{"192.168.1.10", "192.168.1.9", "192.168.1.200", "192.168.1.100"},
			nodes: reports{report("w1", "", announces("192.168.1.100", 1, "odd"), announces("192.168.1.9", 1, "odd"),
				explains("192.168.1.200", "no carrier"))},
			want: []v1alpha1.AllocatedIP{allocatedOn("w1", "192.168.1.9", 1, "odd"), allocated("192.168.1.10", nobodyYet),
				allocatedOn("w1", "192.168.1.100", 1, "odd"), allocated("192.168.1.200", "no carrier")},
			wantMissing: []conditions.Unannounced{{IP: "192.168.1.200", Message: "no carrier", Explained: true}, {IP: "192.168.1.10", Message: nobodyYet}},
			wantRemarks: []string{"192.168.1.9: odd", "192.168.1.100: odd"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.addresses == nil {
				tc.addresses = []string{ip}
			}
			for range 2 { // as listed, and the other way round: a cache lists in any order
				got := allocatedIPs([]ipam.Assignment{has("lb", from("lan-pool", tc.addresses...)...)}, wordsOf(tc.nodes, nodeSet(tc.alive)), 7956)
				want := addressPicture{all: tc.want, unannounced: tc.wantMissing, remarks: tc.wantRemarks, split: tc.wantSplit}
				if diff := cmp.Diff(want, got, cmp.AllowUnexported(addressPicture{})); diff != "" {
					t.Errorf("addresses (-want +got):\n%s", diff)
				}
				slices.Reverse(tc.nodes)
			}
		})
	}
}

func TestHeardOf(t *testing.T) {
	type reports = []v1alpha1.NodeNetworking
	for name, tc := range map[string]struct {
		nodes reports
		want  string
	}{
		"a node that is alone":      {nodes: reports{report("w1", "")}, want: "w1"},
		"two that hear each other":  {nodes: reports{report("w1", "w2"), report("w2", "w1")}, want: "w1 w2"},
		"of two, the one that died": {nodes: reports{report("w1", ""), report("w2", "w1")}, want: "w1"},
		"two on either side of a cut, with nobody to tell which is alive": {nodes: reports{report("w1", ""), report("w2", "")}, want: "w1 w2"},
		"one that was cut off":         {nodes: reports{report("a", "b"), report("b", "a"), report("c", "")}, want: "a b"},
		"one whose report lags behind": {nodes: reports{report("a", "b c"), report("b", "a c"), report("c", "")}, want: "a b c"},
		"one that one of two misheard": {nodes: reports{report("a", "b c"), report("b", "a"), report("c", "a b")}, want: "a b c"},
		"one that has left no report":  {nodes: reports{report("a", "b new"), report("b", "a new")}, want: "a b"},
		"a newcomer that the reports of nodes that died before know nothing of": {
			nodes: reports{report("dead-1", "dead-2 dead-3 old"), report("dead-2", "dead-1 dead-3 old"), report("dead-3", "dead-1 dead-2 old"),
				report("old", "new other"), report("other", "new old"), report("new", "old other")},
			want: "new old other"},
	} {
		t.Run(name, func(t *testing.T) {
			heard := heardOf(hearingOf(tc.nodes))
			var got []string
			for _, n := range tc.nodes {
				if heard[n.Name] {
					got = append(got, n.Name)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("heard (-want +got):\n%s", diff)
			}
		})
	}
}
