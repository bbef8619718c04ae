package speaker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lanyard-dev/lanyard/internal/election"
	"github.com/lanyard-dev/lanyard/internal/links"
	"github.com/lanyard-dev/lanyard/internal/responder"
)

// How the hosts around are asked whether they are there. An interface is deaf when each of at least witnesses hosts that answered before has
// left deafAfter questions unanswered. One host alone may have gone. Each protocol counts for itself: a host that has gone is missed by both, and a
// switch may pass on the one and not the other.
const (
	askHostsEvery = time.Second
	deafAfter     = 3
	witnesses     = 2
	// askedPeers is how many nodes are asked at an outlet: one that is gone must not make it deaf.
	askedPeers = 3
	// askUrgently is how often they are asked while it has to be known whether this node is the one that is cut off.
	askUrgently = 20 * time.Millisecond
	// urgentFor is how long that is: later the question of every second will do.
	urgentFor = 2 * time.Second
)

// host is somebody who should answer on an interface: a router, or another node that is heard.
type host struct {
	iface string
	addr  netip.Addr
	// from is this node's address there, from which it is asked.
	from netip.Addr
}

// outlet is where it should answer.
func (h host) outlet() outlet { return outlet{h.iface, protocolOf(h.addr)} }

// compare orders hosts by interface and address.
func (h host) compare(other host) int {
	return cmp.Or(strings.Compare(h.iface, other.iface), h.addr.Compare(other.addr))
}

// hostsAround returns whom to ask on which interface: the routers, and the nodes with addresses in its subnets that follow this one by name, so
// that each is asked by few. Each node is one witness, whatever number of addresses it has there. Whose speaker was lost is not asked: whether it
// answers says nothing of this node.
func hostsAround(interfaces []links.Interface, gateways []netip.Addr, s snapshot) []host {
	var all []host
	peers := s.peersAround()
	for _, i := range interfaces {
		for _, gateway := range gateways {
			if h, near := neighbour(i, gateway); near && !slices.Contains(all, h) {
				all = append(all, h)
			}
		}
		left := map[protocol]int{byARP: askedPeers, byNDP: askedPeers}
		for _, addrs := range peers {
			asked := map[protocol]bool{}
			for _, addr := range addrs {
				p := protocolOf(addr)
				if h, near := neighbour(i, addr); near && !asked[p] && left[p] > 0 && !slices.Contains(all, h) {
					all, asked[p], left[p] = append(all, h), true, left[p]-1
				}
			}
		}
	}
	return all
}

// neighbour is the host with an address in a subnet of the interface, if that is somebody else.
func neighbour(i links.Interface, addr netip.Addr) (h host, near bool) {
	own := slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return p.Addr() == addr })
	subnet := slices.IndexFunc(i.Addresses, func(p netip.Prefix) bool { return p.Contains(addr) })
	if own || subnet < 0 {
		return host{}, false
	}
	return host{i.Name, addr, i.Addresses[subnet].Addr()}, true
}

// peersAround are the addresses of each node that is heard, by the API server's word and by its speaker's: first of those that follow this node
// by name.
func (s snapshot) peersAround() [][]netip.Addr {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(s.members)), func(name string) bool { return name == s.self })
	next, _ := slices.BinarySearch(names, s.self)
	var peers [][]netip.Addr
	for _, name := range slices.Concat(names[next:], names[:next]) {
		var addrs []netip.Addr
		for _, n := range s.nodes {
			if n.name == name {
				addrs = append(addrs, n.addrs...)
			}
		}
		for _, segment := range s.members[name].Segments {
			addrs = append(addrs, segment.Prefix.Addr())
		}
		peers = append(peers, addrs)
	}
	return peers
}

// vicinity is which of the hosts around answer. A link that has carrier and no way behind it shows in nothing else: a dead port of a switch,
// a VLAN that is not let through.
type vicinity struct {
	// wake is woken when an interface becomes deaf, or hears again.
	wake chan<- struct{}

	mu    sync.Mutex
	hosts []host
	ask   func(host)
	// answered is when a host answered last, unanswered how many questions it has left unanswered since.
	answered   map[host]time.Time
	unanswered map[host]int
	// doubted is since when this node hears exactly half of the speakers; zero while it does not.
	doubted time.Time
}

func newVicinity(wake chan<- struct{}) *vicinity {
	return &vicinity{wake: wake, ask: func(host) {}, answered: map[host]time.Time{}, unanswered: map[host]int{}}
}

// watch sets whom to ask, and how.
func (v *vicinity) watch(hosts []host, ask func(host)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.hosts, v.ask = hosts, ask
	for h := range v.unanswered {
		if !slices.Contains(hosts, h) {
			delete(v.unanswered, h)
			delete(v.answered, h)
		}
	}
}

// heard takes in what a host says of its own address.
func (v *vicinity) heard(s responder.Sighting, now time.Time) {
	if s.Kind != responder.Claimed {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, h := range v.hosts {
		if h.addr != s.Addr {
			continue
		}
		news := v.deafLocked(h.outlet()) || !v.doubted.IsZero() && !v.answered[h].After(v.doubted)
		v.answered[h], v.unanswered[h] = now, 0
		if news {
			wake(v.wake)
		}
	}
}

// run asks all hosts every second until the context ends.
func (v *vicinity) run(ctx context.Context) error {
	tick := time.NewTicker(askHostsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			v.count()
			v.askAll()
		}
	}
}

// count counts the question that follows as unanswered until it is answered.
func (v *vicinity) count() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, h := range v.hosts {
		deaf := v.deafLocked(h.outlet())
		if v.unanswered[h]++; deaf != v.deafLocked(h.outlet()) {
			wake(v.wake)
		}
	}
}

// askAll asks each host once.
func (v *vicinity) askAll() {
	v.mu.Lock()
	hosts, ask := v.hosts, v.ask
	v.mu.Unlock()
	for _, h := range hosts {
		ask(h)
	}
}

// deafLocked says whether an outlet is deaf. The caller holds mu.
func (v *vicinity) deafLocked(at outlet) bool {
	silent := 0
	for _, h := range v.hosts {
		if _, ever := v.answered[h]; h.outlet() != at || !ever {
			continue
		}
		if v.unanswered[h] <= deafAfter {
			return false
		}
		silent++
	}
	return silent >= witnesses
}

// deaf says why an interface with carrier is of no use; empty when it is.
func (v *vicinity) deaf(at outlet) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.deafLocked(at) {
		return ""
	}
	var silent []string
	for _, h := range v.hosts {
		if _, ever := v.answered[h]; h.outlet() == at && ever {
			silent = append(silent, h.addr.String())
		}
	}
	slices.Sort(silent)
	return fmt.Sprintf("it has carrier, but none of %s has answered %s on it for %d seconds, as each did before: look at the switch's port and VLAN",
		strings.Join(silent, ", "), at.protocol, deafAfter)
}

// wire says whether anybody around answers since this node began to hear exactly half of the speakers: if so, it is not the one that is cut
// off. It asks while that is open.
func (v *vicinity) wire(half bool, now time.Time) election.Wire {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !half {
		v.doubted = time.Time{}
		return election.NobodyToAsk
	}
	if v.doubted.IsZero() {
		v.doubted = now
	}
	said := election.NobodyToAsk
	for _, h := range v.hosts {
		answered, ever := v.answered[h]
		switch {
		case ever && answered.After(v.doubted):
			return election.Answered
		case ever:
			said = election.Unanswered
		}
	}
	return said
}

// doubts says whether hosts are to be asked at once.
func (v *vicinity) doubts(now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return !v.doubted.IsZero() && now.Sub(v.doubted) < urgentFor
}
