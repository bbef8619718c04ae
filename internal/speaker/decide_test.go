package speaker

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/election"
	"github.com/lanyard-dev/lanyard/internal/ipam"
	"github.com/lanyard-dev/lanyard/internal/membership"
	"github.com/lanyard-dev/lanyard/internal/responder"
)

var compareValues = cmp.Options{
	cmp.AllowUnexported(verdict{}, service{}, node{}),
	cmpopts.IgnoreFields(verdict{}, "candidates"), // which only say afterwards why an address moved
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
}

func addrs(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// on is a segment.
func on(iface, prefix string) membership.Segment {
	return membership.Segment{Interface: iface, Prefix: netip.MustParsePrefix(prefix)}
}

// pool is a pool of one range.
func pool(name, first, last string) ipam.Pool {
	return ipam.Pool{Name: name, Ranges: []ipam.Range{{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)}}}
}

// labelled selects the nodes with a label.
func labelled(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// rack is the tutorial's cluster as the worker w1 sees it: a control plane and two workers on one LAN, one pool, one Service. Its address
// is one that w1 has the highest score for.
func rack() snapshot {
	lan := []membership.Segment{on("eth0", "192.168.1.0/24")}
	return snapshot{
		self:           "w1",
		pools:          []ipam.Pool{pool("lan-pool", "192.168.1.200", "192.168.1.210")},
		advertisements: []v1alpha1.L2Advertisement{{Name: "lan-l2", IPPools: []string{"lan-pool"}}},
		services:       []service{{name: "traefik/traefik", addrs: addrs("192.168.1.204")}},
		nodes: []node{
			{name: "cp", labels: map[string]string{v1alpha1.ExcludeLabel: ""}},
			{name: "w1", labels: map[string]string{"rack": "1"}},
			{name: "w2", labels: map[string]string{"rack": "2"}},
		},
		members: map[string]membership.Member{"cp": {Segments: lan}, "w1": {Segments: lan}, "w2": {Segments: lan}},
	}
}

// elected is an address that another node announces, or this one begins to take over, on the interface.
func elected(addr, node, iface string) verdict {
	v := verdict{addr: netip.MustParseAddr(addr), decision: election.Decision{Node: node, Reason: election.Elected}, iface: iface}
	if iface != "" {
		v.decision.Claim = election.Claim{Epoch: 1, Stage: election.Taking}
	}
	return v
}

// held is an address that this node answers for on the interface.
func held(addr, node, iface string) verdict {
	v := elected(addr, node, iface)
	v.decision.Claim.Stage = election.Held
	return v
}

// nobody is an address that no node announces.
func nobody(addr string, reason election.Reason, message string) verdict {
	return verdict{addr: netip.MustParseAddr(addr), decision: election.Decision{Reason: reason, Message: message}}
}

func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*snapshot)
		want   []verdict
	}{
		"the tutorial's Service is announced by a worker": {
			change: func(*snapshot) {},
			want:   []verdict{elected("192.168.1.204", "w1", "eth0")},
		},
		"what another node announces needs no interface here": {
			change: func(s *snapshot) { s.self = "w2" },
			want:   []verdict{elected("192.168.1.204", "w1", "")},
		},
		"the addresses are decided in their order, those of no pool not at all": {
			change: func(s *snapshot) {
				s.services = []service{{name: "a/a", addrs: addrs("192.168.1.208", "10.9.9.9")}, {name: "b/b", addrs: addrs("192.168.1.204")}}
			},
			want: []verdict{elected("192.168.1.204", "w1", "eth0"), elected("192.168.1.208", "w2", "")}, // each has one
		},
		"two Services with one address have one announcer": {
			change: func(s *snapshot) {
				s.services = append(s.services, service{name: "z/z", addrs: addrs("192.168.1.204")})
			},
			want: []verdict{elected("192.168.1.204", "w1", "eth0")},
		},
		"a node whose speaker is silent announces nothing": {
			change: func(s *snapshot) { delete(s.members, "w1") },
			want:   []verdict{elected("192.168.1.204", "w2", "")},
		},
		"an excluded node stands in when the workers are silent": {
			change: func(s *snapshot) { delete(s.members, "w1"); delete(s.members, "w2"); s.self = "cp" },
			want: []verdict{{addr: netip.MustParseAddr("192.168.1.204"), iface: "eth0", decision: election.Decision{
				Node: "cp", Reason: election.ElectedExcluded, Message: "every node that can announce it carries the label " +
					"node.kubernetes.io/exclude-from-external-load-balancers; cp announces it all the same",
				Claim: election.Claim{Epoch: 1, Stage: election.Taking}}}},
		},
		"a speaker on a node that the API server does not know announces nothing": {
			change: func(s *snapshot) { s.nodes = s.nodes[2:] },
			want:   []verdict{elected("192.168.1.204", "w2", "")},
		},
		"a node without pod network is left out": {
			change: func(s *snapshot) { s.nodes[1].networkUnavailable = true },
			want:   []verdict{elected("192.168.1.204", "w2", "")},
		},
		"the advertisement selects nodes": {
			change: func(s *snapshot) { s.advertisements[0].NodeSelector = labelled("rack", "2") },
			want:   []verdict{elected("192.168.1.204", "w2", "")},
		},
		"an advertisement that selects no nodes leaves the address unannounced, and the obstacles are named": {
			change: func(s *snapshot) {
				s.advertisements[0].NodeSelector = labelled("rack", "3")
				delete(s.members, "w2")
			},
			want: []verdict{nobody("192.168.1.204", election.NoCandidate, "no node can announce it: 1 without a speaker that is heard (w2); "+
				"2 not selected by the advertisement's nodeSelector (cp, w1)")},
		},
		"a selector that cannot be read selects nothing": {
			change: func(s *snapshot) {
				s.advertisements[0].NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "rack", Operator: "Like"}}}
			},
			want: []verdict{nobody("192.168.1.204", election.NoCandidate,
				"no node can announce it: 3 not selected by the advertisement's nodeSelector (cp, w1, w2)")},
		},
		"one advertisement that allows a node is enough, and says on which interface": {
			change: func(s *snapshot) {
				s.members["w1"] = membership.Member{Segments: []membership.Segment{on("eth0", "192.168.1.0/24"), on("eth1", "192.168.1.0/24")}}
				s.advertisements = []v1alpha1.L2Advertisement{
					{Name: "rack-2", NodeSelector: labelled("rack", "2"), Interfaces: []string{"eth0"}},
					{Name: "rack-1", NodeSelector: labelled("rack", "1"), Interfaces: []string{"eth1"}},
				}
			},
			want: []verdict{elected("192.168.1.204", "w1", "eth1")},
		},
		"a node that lost carrier, and so tells no segment, is left out": {
			change: func(s *snapshot) { s.members["w1"] = membership.Member{} },
			want:   []verdict{elected("192.168.1.204", "w2", "")},
		},
		"an address in nobody's subnet is not announced": {
			change: func(s *snapshot) {
				s.pools[0] = pool("lan-pool", "10.9.9.1", "10.9.9.9")
				s.services[0].addrs = addrs("10.9.9.9")
			},
			want: []verdict{nobody("10.9.9.9", election.NoCandidate,
				"no node can announce it: 3 without an interface with carrier in the address's subnet (cp, w1, w2)")},
		},
		"the advertisement allows interfaces by name and by glob": {
			change: func(s *snapshot) {
				s.advertisements[0].Interfaces = []string{"bond*", "ens3"}
				s.members["w1"] = membership.Member{Segments: append(s.members["w1"].Segments, on("bond0.7", "192.168.1.0/24"))}
			},
			want: []verdict{elected("192.168.1.204", "w1", "bond0.7")},
		},
		"policy Local: only a node with an endpoint": {
			change: func(s *snapshot) { s.services[0].local, s.services[0].endpoints = true, map[string]bool{"w2": true} },
			want:   []verdict{elected("192.168.1.204", "w2", "")},
		},
		"policy Local without any endpoint is announced by nobody": {
			change: func(s *snapshot) { s.services[0].local = true },
			want: []verdict{nobody("192.168.1.204", election.NoCandidate,
				"no node can announce it: 3 without a ready endpoint, which externalTrafficPolicy Local needs (cp, w1, w2)")},
		},
		"policy Cluster without any endpoint is announced: refused at once is better than no answer": {
			change: func(s *snapshot) { s.services[0].endpoints = map[string]bool{} },
			want:   []verdict{elected("192.168.1.204", "w1", "eth0")},
		},
		"a pool that no advertisement names": {
			change: func(s *snapshot) { s.advertisements[0].IPPools = []string{"other"} },
			want: []verdict{nobody("192.168.1.204", notAdvertised,
				"no entry of spec.l2Advertisements names its pool lan-pool: add the pool to one")},
		},
		"no advertisement at all": {
			change: func(s *snapshot) { s.advertisements = nil },
			want:   []verdict{nobody("192.168.1.204", notAdvertised, "spec.l2Advertisements has no entry: add one")},
		},
		"an advertisement without pools announces every pool": {
			change: func(s *snapshot) { s.advertisements[0].IPPools = nil },
			want:   []verdict{elected("192.168.1.204", "w1", "eth0")},
		},
		"an address that we gave goes on being announced when its pool is gone, by whatever advertisement there is": {
			change: func(s *snapshot) {
				s.pools = []ipam.Pool{pool("new", "192.168.1.100", "192.168.1.110")}
				s.advertisements[0].IPPools = []string{"new"}
				s.services[0].draining = map[netip.Addr]string{netip.MustParseAddr("192.168.1.204"): "lan-pool"}
			},
			want: []verdict{elected("192.168.1.204", "w1", "eth0")},
		},
		"an address that we gave goes on being announced when its pool is unknown": {
			change: func(s *snapshot) {
				s.pools = nil
				s.services[0].draining = map[netip.Addr]string{netip.MustParseAddr("192.168.1.204"): ""}
			},
			want: []verdict{elected("192.168.1.204", "w1", "eth0")},
		},
		"an address outside of a pool that shrank follows its pool's advertisement": {
			change: func(s *snapshot) {
				s.pools[0] = pool("lan-pool", "192.168.1.205", "192.168.1.210")
				s.services[0].draining = map[netip.Addr]string{netip.MustParseAddr("192.168.1.204"): "lan-pool"}
				s.advertisements = append(s.advertisements, v1alpha1.L2Advertisement{Name: "z", IPPools: []string{"z"}})
				s.advertisements[0].NodeSelector = labelled("rack", "2")
			},
			want: []verdict{elected("192.168.1.204", "w2", "")},
		},
		"an address of no pool that another wrote is not ours": {
			change: func(s *snapshot) { s.pools = nil },
			want:   []verdict{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := rack()
			tc.change(&s)
			if diff := cmp.Diff(tc.want, decide(s), compareValues); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestServing(t *testing.T) {
	for name, tc := range map[string]struct {
		segments []membership.Segment
		globs    []string
		want     string
	}{
		"no interface": {},
		"no interface in the subnet": {
			segments: []membership.Segment{on("eth0", "10.0.0.0/8")}},
		"the longest prefix, in whatever order": {
			segments: []membership.Segment{on("eth0", "192.168.0.0/16"), on("eth2", "192.168.1.0/24"), on("eth1", "192.168.0.0/20")}, want: "eth2"},
		"of equal ones the first by name: two on one LAN would both answer": {
			segments: []membership.Segment{on("eth2", "192.168.1.0/24"), on("eth1", "192.168.1.0/24"), on("eth3", "192.168.1.0/24")}, want: "eth1"},
		"a longer prefix that is not allowed does not count": {
			segments: []membership.Segment{on("eth0", "192.168.0.0/16"), on("lab0", "192.168.1.0/24")}, globs: []string{"eth*"}, want: "eth0"},
		"none is allowed": {
			segments: []membership.Segment{on("eth0", "192.168.1.0/24")}, globs: []string{"eth", "bond?"}},
		"a glob that cannot be read allows nothing": {
			segments: []membership.Segment{on("eth0", "192.168.1.0/24")}, globs: []string{"eth[0"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := serving(tc.segments, netip.MustParseAddr("192.168.1.200"), tc.globs)
			if got.Interface != tc.want || ok != (tc.want != "") {
				t.Errorf("on %q, found %v; want %q", got.Interface, ok, tc.want)
			}
		})
	}
}

// TestListened: the pools as they are, so that an address that moves here needs no new filter, and what no pool holds any more.
func TestListened(t *testing.T) {
	got := listened(snapshot{
		pools: []ipam.Pool{pool("lan-pool", "192.168.1.200", "192.168.1.210"), pool("six", "fd00::", "fd00::ff")},
		services: []service{
			{name: "a/a", addrs: addrs("192.168.1.200", "10.7.7.7")}, // the second is not ours
			{name: "b/b", addrs: addrs("10.9.9.9"), draining: map[netip.Addr]string{netip.MustParseAddr("10.9.9.9"): "old-pool"}},
		},
	})
	want := []responder.Range{
		{First: netip.MustParseAddr("192.168.1.200"), Last: netip.MustParseAddr("192.168.1.210")},
		{First: netip.MustParseAddr("fd00::"), Last: netip.MustParseAddr("fd00::ff")},
		{First: netip.MustParseAddr("10.9.9.9"), Last: netip.MustParseAddr("10.9.9.9")},
	}
	if diff := cmp.Diff(want, got, compareValues); diff != "" {
		t.Errorf("ranges (-want +got):\n%s", diff)
	}
}
