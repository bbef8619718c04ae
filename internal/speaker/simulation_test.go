package speaker

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/ipam"
	"github.com/lanyard-dev/lanyard/internal/membership"
)

// TestOneAnnouncer lets every node of random clusters decide by itself, each with the lists in an order of its own. All agree on the
// announcer of each address; it announces on one interface that it may use, and nobody else does; and there is one whenever a node can.
func TestOneAnnouncer(t *testing.T) {
	announced, unannounced := 0, 0
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := randomCluster(rng)
		first := decide(s)
		announcers := map[netip.Addr]string{}
		for _, n := range s.nodes {
			verdicts := decide(seenBy(rng, s, n.name))
			for i, v := range verdicts {
				first[i].decision.Claim = v.decision.Claim // each has its own
				if diff := cmp.Diff(first[i].decision, v.decision); diff != "" {
					t.Errorf("seed %d: %s decides %s otherwise (-first +%s):\n%s", seed, n.name, v.addr, n.name, diff)
				}
				if v.iface == "" {
					continue
				}
				if other, two := announcers[v.addr]; two {
					t.Errorf("seed %d: %s is announced by %s and by %s", seed, v.addr, other, n.name)
				}
				announcers[v.addr] = n.name
				if !slices.Contains(ways(s, n, v.addr), v.iface) {
					t.Errorf("seed %d: %s announces %s on %s, which it may not use", seed, n.name, v.addr, v.iface)
				}
			}
		}
		for _, addr := range s.services[0].addrs {
			able := slices.ContainsFunc(s.nodes, func(n node) bool { return len(ways(s, n, addr)) > 0 })
			if _, is := announcers[addr]; is != able {
				t.Errorf("seed %d: %s is announced: %v, a node can: %v", seed, addr, is, able)
			}
			if able {
				announced++
			} else {
				unannounced++
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	if announced < 500 || unannounced < 500 {
		t.Errorf("%d addresses with a node that can and %d without: too few of one to show anything", announced, unannounced)
	}
}

// ways are the interfaces on which a node may announce an address, by the rules said in another way than decide says them.
func ways(s snapshot, n node, addr netip.Addr) []string {
	var all []string
	svc := s.services[0]
	for _, ad := range s.advertisements {
		named := ad.IPPools == nil || slices.ContainsFunc(s.pools, func(p ipam.Pool) bool {
			return p.Contains(addr) && slices.Contains(ad.IPPools, p.Name)
		})
		chosen := ad.NodeSelector == nil || n.labels["rack"] == ad.NodeSelector.MatchLabels["rack"]
		if !named || !chosen || n.networkUnavailable || svc.local && !svc.endpoints[n.name] {
			continue
		}
		for _, segment := range s.members[n.name].Segments {
			matches := ad.Interfaces == nil
			for _, glob := range ad.Interfaces {
				match, _ := path.Match(glob, segment.Interface)
				matches = matches || match
			}
			if matches && segment.Prefix.Contains(addr) {
				all = append(all, segment.Interface)
			}
		}
	}
	return all
}

// randomCluster has few nodes and many obstacles.
func randomCluster(rng *rand.Rand) snapshot {
	s := snapshot{
		pools:   []ipam.Pool{pool("one", "10.0.0.200", "10.0.0.203"), pool("two", "10.0.1.200", "10.0.1.203")},
		members: map[string]membership.Member{},
	}
	for i := range 1 + rng.IntN(3) {
		ad := v1alpha1.L2Advertisement{Name: fmt.Sprintf("ad-%d", i)}
		ad.IPPools = [][]string{nil, {"one"}, {"two"}, {"one", "two"}}[rng.IntN(4)]
		ad.Interfaces = [][]string{nil, {"eth*"}, {"eth0", "bond?"}}[rng.IntN(3)]
		if rng.IntN(2) == 0 {
			ad.NodeSelector = labelled("rack", fmt.Sprint(rng.IntN(3)))
		}
		s.advertisements = append(s.advertisements, ad)
	}
	svc := service{name: "ns/svc", local: rng.IntN(2) == 0, endpoints: map[string]bool{}}
	for i := range 4 {
		svc.addrs = append(svc.addrs, netip.AddrFrom4([4]byte{10, 0, byte(i % 2), byte(200 + i)}))
	}
	for i := range 1 + rng.IntN(5) {
		n := node{name: fmt.Sprintf("node-%d", i), labels: map[string]string{"rack": fmt.Sprint(rng.IntN(3))}, networkUnavailable: rng.IntN(5) == 0}
		if rng.IntN(3) == 0 {
			n.labels[v1alpha1.ExcludeLabel] = ""
		}
		s.nodes = append(s.nodes, n)
		svc.endpoints[n.name] = rng.IntN(2) == 0
		if rng.IntN(5) == 0 {
			continue // its speaker is silent
		}
		var segments []membership.Segment
		for _, iface := range []string{"eth0", "eth1", "bond0", "lab0"} {
			if rng.IntN(2) == 0 {
				segments = append(segments, on(iface, []string{"10.0.0.0/24", "10.0.1.0/24", "10.0.0.0/16", "10.9.0.0/16"}[rng.IntN(4)]))
			}
		}
		s.members[n.name] = membership.Member{Segments: segments}
	}
	s.services = []service{svc}
	return s
}

// seenBy is a snapshot as another node has it: informers list in no order.
func seenBy(rng *rand.Rand, s snapshot, self string) snapshot {
	s.self, s.nodes = self, slices.Clone(s.nodes)
	rng.Shuffle(len(s.nodes), func(i, j int) { s.nodes[i], s.nodes[j] = s.nodes[j], s.nodes[i] })
	members := map[string]membership.Member{}
	for name, member := range s.members {
		segments := member.Segments
		segments = slices.Clone(segments)
		rng.Shuffle(len(segments), func(i, j int) { segments[i], segments[j] = segments[j], segments[i] })
		members[name] = membership.Member{Segments: segments, Claims: member.Claims}
	}
	s.members = members
	return s
}
