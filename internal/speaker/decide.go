package speaker

import (
	"net/netip"
	"path"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/election"
	"github.com/lanyard-dev/lanyard/internal/ipam"
	"github.com/lanyard-dev/lanyard/internal/membership"
)

// verdict is who announces an address, and how.
type verdict struct {
	addr     netip.Addr
	decision election.Decision
	// iface is the interface on which this node answers; empty when another node does.
	iface string
}

// notAdvertised is the reason of an address whose pool no advertisement names.
const notAdvertised election.Reason = "NotAdvertised"

// decide says who announces each address, in the order of addresses. An address that two Services show is decided once: they share its
// announcer.
func decide(s snapshot) []verdict {
	var all []verdict
	seen := map[netip.Addr]bool{}
	for _, svc := range s.services {
		for _, addr := range svc.addrs {
			pool, ours := s.poolOf(svc, addr)
			if !ours || seen[addr] {
				continue
			}
			seen[addr] = true
			all = append(all, s.verdict(svc, addr, pool))
		}
	}
	slices.SortFunc(all, func(a, b verdict) int { return a.addr.Compare(b.addr) })
	return all
}

// poolOf returns the pool that an address belongs, or belonged, to, and whether it is ours to announce.
func (s snapshot) poolOf(svc service, addr netip.Addr) (name string, ours bool) {
	for _, p := range s.pools {
		if p.Contains(addr) {
			return p.Name, true
		}
	}
	name, ours = svc.draining[addr]
	return name, ours
}

func (s snapshot) verdict(svc service, addr netip.Addr, pool string) verdict {
	ads := s.advertising(pool)
	if len(ads) == 0 {
		return verdict{addr: addr, decision: election.Decision{Reason: notAdvertised, Message: s.howToAdvertise(pool)}}
	}
	v := verdict{addr: addr}
	candidates := make([]election.Candidate, 0, len(s.nodes))
	for _, n := range s.nodes {
		_, excluded := n.labels[v1alpha1.ExcludeLabel]
		segment, obstacle := s.reach(n, svc, addr, ads)
		candidates = append(candidates, election.Candidate{Node: n.name, Obstacle: obstacle, Excluded: excluded, Away: s.away[n.name]})
		if n.name == s.self {
			v.iface = segment.Interface
		}
	}
	v.decision = election.Announcer(addr, candidates)
	if v.decision.Node != s.self {
		v.iface = ""
	}
	return v
}

// howToAdvertise says what to write so that a pool's addresses are announced.
func (s snapshot) howToAdvertise(pool string) string {
	if len(s.advertisements) == 0 {
		return "spec.l2Advertisements has no entry: add one"
	}
	return "no entry of spec.l2Advertisements names its pool " + pool + ": add the pool to one"
}

// advertising returns the advertisements of a pool. An address whose pool is gone is announced by whatever there is, so that editing a
// pool takes nothing off the air.
func (s snapshot) advertising(pool string) []v1alpha1.L2Advertisement {
	var ads []v1alpha1.L2Advertisement
	for _, ad := range s.advertisements {
		if len(ad.IPPools) == 0 || slices.Contains(ad.IPPools, pool) {
			ads = append(ads, ad)
		}
	}
	known := slices.ContainsFunc(s.pools, func(p ipam.Pool) bool { return p.Name == pool })
	if len(ads) == 0 && !known {
		return s.advertisements
	}
	return ads
}

// reach returns the segment on which a node can announce an address, or what keeps it from doing so. The first advertisement that allows it
// says where.
func (s snapshot) reach(n node, svc service, addr netip.Addr, ads []v1alpha1.L2Advertisement) (membership.Segment, election.Obstacle) {
	segments, alive := s.members[n.name]
	if !alive {
		return membership.Segment{}, election.Silent
	}
	var segment membership.Segment
	selected, found := false, false
	for _, ad := range ads {
		if !found && selects(ad.NodeSelector, n.labels) {
			selected = true
			segment, found = serving(segments, addr, ad.Interfaces)
		}
	}
	switch {
	case !selected:
		return membership.Segment{}, election.NotSelected
	case n.networkUnavailable:
		return membership.Segment{}, election.NetworkUnavailable
	case !found:
		return membership.Segment{}, election.NoInterface
	case svc.local && !svc.endpoints[n.name]:
		return membership.Segment{}, election.NoEndpoint
	}
	return segment, election.None
}

// selects says whether a selector matches. One that cannot be read, which the manager does not let through, matches nothing.
func selects(selector *metav1.LabelSelector, has map[string]string) bool {
	if selector == nil {
		return true
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(labels.Set(has))
}

// serving returns the segment on which an address is announced: that of the longest prefix that holds it, the first by name of equal ones.
// One interface only: two that lie on one LAN would both answer.
func serving(segments []membership.Segment, addr netip.Addr, globs []string) (membership.Segment, bool) {
	var best membership.Segment
	found := false
	for _, s := range segments {
		if !s.Prefix.Contains(addr) || !allowed(s.Interface, globs) {
			continue
		}
		longer := !found || s.Prefix.Bits() > best.Prefix.Bits()
		if longer || s.Prefix.Bits() == best.Prefix.Bits() && s.Interface < best.Interface {
			best, found = s, true
		}
	}
	return best, found
}

// allowed says whether an interface is named by one of the globs; without globs every one is.
func allowed(iface string, globs []string) bool {
	return len(globs) == 0 || slices.ContainsFunc(globs, func(glob string) bool {
		match, err := path.Match(glob, iface)
		return err == nil && match
	})
}
