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

// snapshot is all that the speaker decides from.
type snapshot struct {
	// self is this node.
	self           string
	pools          []ipam.Pool
	advertisements []v1alpha1.L2Advertisement
	services       []service
	nodes          []node
	// members are the nodes whose speakers are alive, this one included, with the segments that each can serve.
	members map[string][]membership.Segment
}

// service is a Service of ours with addresses.
type service struct {
	name string
	// addrs are the addresses in its status.
	addrs []netip.Addr
	// draining are those of its addresses that no pool holds and that we gave it: they go on being announced.
	draining map[netip.Addr]string // with the pool that each came from, as far as is known
	// local means externalTrafficPolicy Local: only nodes with an endpoint serve it.
	local bool
	// endpoints are the nodes with a ready endpoint, or one that still serves while it ends when none is ready.
	endpoints map[string]bool
}

// node is a node of the cluster.
type node struct {
	name               string
	labels             map[string]string
	networkUnavailable bool
}

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
		return verdict{addr: addr, decision: election.Decision{Reason: notAdvertised,
			Message: "no entry of spec.l2Advertisements names its pool " + pool + ": add the pool to one"}}
	}
	candidates := make([]election.Candidate, 0, len(s.nodes))
	for _, n := range s.nodes {
		_, excluded := n.labels[v1alpha1.ExcludeLabel]
		candidates = append(candidates, election.Candidate{Node: n.name, Obstacle: s.obstacle(n, svc, addr, ads), Excluded: excluded})
	}
	v := verdict{addr: addr, decision: election.Announcer(addr, candidates)}
	if v.decision.Node == s.self {
		for _, ad := range ads {
			if segment, ok := serving(s.members[s.self], addr, ad.Interfaces); ok && v.iface == "" {
				v.iface = segment.Interface
			}
		}
	}
	return v
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

// obstacle returns what keeps a node from announcing an address. One advertisement that allows it is enough.
func (s snapshot) obstacle(n node, svc service, addr netip.Addr, ads []v1alpha1.L2Advertisement) election.Obstacle {
	segments, heard := s.members[n.name]
	if !heard {
		return election.Silent
	}
	worst := election.NotSelected
	for _, ad := range ads {
		if !selects(ad.NodeSelector, n.labels) {
			continue
		}
		if _, ok := serving(segments, addr, ad.Interfaces); ok {
			worst = election.None
			break
		}
		worst = election.NoInterface
	}
	switch {
	case worst == election.NotSelected:
		return election.NotSelected
	case n.networkUnavailable:
		return election.NetworkUnavailable
	case worst == election.NoInterface:
		return election.NoInterface
	case svc.local && !svc.endpoints[n.name]:
		return election.NoEndpoint
	}
	return election.None
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
