package speaker

import (
	"maps"
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
	// iface is the interface on which this node answers, or asks whether anybody does; empty when the address is not its own.
	iface string
	// offered means that another node offers the address.
	offered bool
	// candidates are the nodes that were considered.
	candidates []election.Candidate
}

// answers says whether this node answers for the address.
func (v verdict) answers() bool { return v.decision.Claim.Stage.Answers() && v.iface != "" }

// seeks says whether this node asks the wire whether anybody answers for the address, before it does.
func (v verdict) seeks() bool { return v.decision.Claim.Stage == election.Taking && v.iface != "" }

// notAdvertised is the reason of an address whose pool no advertisement names.
const notAdvertised election.Reason = "NotAdvertised"

// decide says who announces each address, in the order of addresses. An address that two Services show is decided once: they share its
// announcer.
func decide(s snapshot) []verdict {
	all := make([]verdict, 0, len(s.services))
	view := election.View{Self: s.self, Quorum: s.quorum(), Departing: s.departing, Addresses: make([]election.Address, 0, len(s.services))}
	decided := make(map[netip.Addr]bool, len(s.services))
	strangers := s.unlisted()
	for _, svc := range s.services {
		for _, addr := range svc.addrs {
			pool, ours := s.poolOf(svc, addr)
			if !ours || decided[addr] {
				continue
			}
			decided[addr] = true
			ads := s.advertising(pool)
			if len(ads) == 0 {
				all = append(all, verdict{addr: addr, decision: election.Decision{Reason: notAdvertised, Message: s.howToAdvertise(pool)}})
				continue
			}
			v := verdict{addr: addr}
			var address election.Address
			address, v.iface = s.address(svc, addr, ads, strangers)
			all, view.Addresses = append(all, v), append(view.Addresses, address)
		}
	}
	slices.SortFunc(all, func(a, b verdict) int { return a.addr.Compare(b.addr) })
	slices.SortFunc(view.Addresses, func(a, b election.Address) int { return a.Addr.Compare(b.Addr) })
	decisions := election.Decide(view)
	for i := range all {
		if all[i].decision.Reason == notAdvertised {
			continue
		}
		all[i].offered, all[i].candidates, view.Addresses = view.Addresses[0].Offered(), view.Addresses[0].Candidates, view.Addresses[1:]
		all[i].decision, decisions = decisions[0], decisions[1:]
		if all[i].decision.Claim.Stage == election.None {
			all[i].iface = ""
		}
	}
	return all
}

// quorum says how much of the group is heard. A node that is gone from the cluster is not missed, nor one that the API server has lost too.
func (s snapshot) quorum() election.Quorum {
	q := election.Quorum{Heard: len(s.members), Known: len(s.members), Wire: s.wire}
	for _, n := range s.nodes {
		if slices.Contains(s.lost, n.name) && !n.unreachable {
			q.Known++
		}
	}
	return q
}

// lists says whether the cluster has a node of this name.
func (s snapshot) lists(name string) bool {
	return slices.ContainsFunc(s.nodes, func(n node) bool { return n.name == name })
}

// poolOf returns the pool that an address belongs, or belonged, to, and whether it is ours to announce.
func (s snapshot) poolOf(svc service, addr netip.Addr) (name string, ours bool) {
	if name, ours = ipam.PoolOf(s.pools, addr); ours {
		return name, true
	}
	name, ours = svc.draining[addr]
	return name, ours
}

// unlisted are the members that are no nodes of the cluster, or not any more, sorted.
func (s snapshot) unlisted() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.members)), s.lists)
}

// address returns what the election needs to know of an address, and the interface on which this node could answer for it.
func (s snapshot) address(
	svc service, addr netip.Addr, ads []v1alpha1.L2Advertisement, strangers []string,
) (address election.Address, iface string) {
	address = election.Address{Addr: addr, Epoch: s.epochs[addr], Candidates: make([]election.Candidate, 0, len(s.nodes))}
	for _, n := range s.nodes {
		_, excluded := n.labels[v1alpha1.ExcludeLabel]
		segment, obstacle := s.reach(n, svc, addr, ads)
		address.Candidates = append(address.Candidates, election.Candidate{Node: n.name, Obstacle: obstacle, Excluded: excluded,
			Away: s.away[n.name], Claim: s.claim(n.name, addr)})
		if n.name == s.self {
			iface = segment.Interface
		}
	}
	for _, name := range strangers {
		if claim := s.claim(name, addr); claim.Stage != election.None {
			address.Candidates = append(address.Candidates, election.Candidate{Node: name, Obstacle: election.Unlisted, Claim: claim})
		}
	}
	if s.ask != nil {
		address.Fence, address.Occupant = s.ask(addr, address.Offered())
	}
	return address, iface
}

// claim returns what a living node claims of an address.
func (s snapshot) claim(node string, addr netip.Addr) election.Claim {
	claim := s.members[node].Claims[addr]
	return election.Claim{Epoch: claim.Epoch, Stage: stages[claim.Stage]}
}

// contested says whether another speaker is heard to answer for an address as well.
func (s snapshot) contested(addr netip.Addr) bool {
	for name := range s.members {
		if name != s.self && s.claim(name, addr).Stage.Answers() {
			return true
		}
	}
	return false
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
	member, alive := s.members[n.name]
	if !alive {
		return membership.Segment{}, election.Silent
	}
	var segment membership.Segment
	selected, found := false, false
	for _, ad := range ads {
		if !found && selects(ad.NodeSelector, n.labels) {
			selected = true
			segment, found = serving(member.Segments, addr, ad.Interfaces)
		}
	}
	switch {
	case !selected:
		segment, _ = serving(member.Segments, addr, nil) // where it may answer until another has taken over
		return segment, election.NotSelected
	case !found:
		return segment, election.NoInterface
	case n.networkUnavailable:
		return segment, election.NetworkUnavailable
	case svc.local && !svc.endpoints[n.name]:
		return segment, election.NoEndpoint
	}
	return segment, election.Able
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
