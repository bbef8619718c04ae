package election

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnnouncer(t *testing.T) {
	addr := netip.MustParseAddr("192.168.1.200")
	for name, tc := range map[string]struct {
		candidates []Candidate
		want       Decision
	}{
		"the only node that can": {
			candidates: []Candidate{{Node: "a", Obstacle: Silent}, {Node: "b"}},
			want:       Decision{Node: "b", Reason: Elected},
		},
		"an excluded node is left out while another can": {
			candidates: []Candidate{{Node: "cp", Excluded: true}, {Node: "w"}},
			want:       Decision{Node: "w", Reason: Elected},
		},
		"on a cluster of one excluded node, it announces all the same and says so": {
			candidates: []Candidate{{Node: "cp", Excluded: true}},
			want: Decision{Node: "cp", Reason: ElectedExcluded, Message: "every node that can announce it carries the label " +
				"node.kubernetes.io/exclude-from-external-load-balancers; cp announces it all the same"},
		},
		"an excluded node stands in when the others cannot": {
			candidates: []Candidate{{Node: "cp", Excluded: true}, {Node: "w", Obstacle: NoInterface}},
			want: Decision{Node: "cp", Reason: ElectedExcluded, Message: "every node that can announce it carries the label " +
				"node.kubernetes.io/exclude-from-external-load-balancers; cp announces it all the same"},
		},
		"nobody can, and each node's obstacle is named": {
			candidates: []Candidate{{Node: "c", Obstacle: NoInterface}, {Node: "a", Obstacle: NoInterface}, {Node: "b", Obstacle: NotSelected},
				{Node: "d", Obstacle: Silent}, {Node: "e", Obstacle: NoEndpoint}, {Node: "f", Obstacle: NetworkUnavailable}},
			want: Decision{Reason: NoCandidate, Message: "no node can announce it: 1 without a speaker that is heard (d); " +
				"1 not selected by the advertisement's nodeSelector (b); 1 with the condition NetworkUnavailable (f); " +
				"2 without an interface with carrier in the address's subnet (a, c); " +
				"1 without a ready endpoint, which externalTrafficPolicy Local needs (e)"},
		},
		"no nodes at all": {
			want: Decision{Reason: NoCandidate, Message: "no node can announce it: there are no nodes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Announcer(addr, tc.candidates)); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

func nodes(n int) []Candidate {
	var all []Candidate
	for i := range n {
		all = append(all, Candidate{Node: fmt.Sprintf("node-%02d", i)})
	}
	return all
}

// TestOnlyTheDeadNodesAddressesMove takes nodes away at random and gives them back. An address moves only off a node that went, or back
// to one that returned; the order in which nodes are listed does not matter.
func TestOnlyTheDeadNodesAddressesMove(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 7))
		candidates := nodes(2 + rng.IntN(8))
		before := place(candidates)
		for range 10 {
			gone := rng.IntN(len(candidates))
			candidates[gone].Obstacle = Silent
			rng.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
			after := place(candidates)
			for addr, node := range before {
				silent := candidates[indexOf(candidates, node)].Obstacle == Silent
				if after[addr] != node && !silent {
					t.Fatalf("seed %d: %s moved from %s, which lives, to %s", seed, addr, node, after[addr])
				}
				if silent && after[addr] == node {
					t.Fatalf("seed %d: %s stayed on %s, which is gone", seed, addr, node)
				}
			}
			for i := range candidates {
				candidates[i].Obstacle = None
			}
		}
		if diff := cmp.Diff(before, place(candidates)); diff != "" {
			t.Fatalf("seed %d: with all nodes back, addresses lie elsewhere (-before +after):\n%s", seed, diff)
		}
	}
}

func indexOf(candidates []Candidate, node string) int {
	for i, c := range candidates {
		if c.Node == node {
			return i
		}
	}
	return -1
}

// place elects for 50 addresses.
func place(candidates []Candidate) map[string]string {
	placed := map[string]string{}
	for i := range 50 {
		addr := netip.AddrFrom4([4]byte{192, 168, 1, byte(i)})
		placed[addr.String()] = Announcer(addr, candidates).Node
	}
	return placed
}

// TestAddressesSpread elects for 10,000 addresses among 5 nodes: a fair hash gives each 2,000, with a standard deviation of 40.
func TestAddressesSpread(t *testing.T) {
	count := map[string]int{}
	for i := range 10000 {
		addr := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		count[Announcer(addr, nodes(5)).Node]++
	}
	for node, n := range count {
		if n < 1800 || n > 2200 {
			t.Errorf("%s has %d of 10,000 addresses, want about 2,000", node, n)
		}
	}
}
