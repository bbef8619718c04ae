package speaker

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/lanyard-dev/lanyard/internal/ipam"
	"github.com/lanyard-dev/lanyard/internal/responder"
)

// How the LAN is asked whether anybody has an address that may be given out next: RFC 5227, section 2.1.1, with shorter times, which section 2.2
// allows on a wired LAN. An address that was silent is asked for again later, and so is a foreign host whether it is still there.
const (
	lookQuestions  = 3
	lookQuestionIn = 100 * time.Millisecond
	lookSilence    = 300 * time.Millisecond // after the last question
	lookAgainIn    = time.Minute
	// quarantineFor is how long an address counts as somebody else's after it was seen there last.
	quarantineFor = 10 * time.Minute
	// foreignersKept bounds what a host that claims everything can cost.
	foreignersKept = 1024
)

// lookout asks the LAN about the addresses that are given out next, and notes who else has addresses of the pools.
//
//	addresses given out next ──▶ three questions ──▶ silence: free ──▶ report ──▶ the manager gives it out
//	everything that is heard ──▶ a stranger has it: foreign ────────▶ report ──▶ the manager leaves it out
type lookout struct {
	// wake is woken when there is something new to report.
	wake chan<- struct{}

	mu    sync.Mutex
	pools []ipam.Pool
	// familiar are the hardware addresses of this node and of the speakers that are heard.
	familiar map[responder.MAC]bool
	ask      func(host)
	asked    map[host]*inquiry
	foreign  map[netip.Addr]foreigner
}

// inquiry is how far the LAN was asked about an address.
type inquiry struct {
	questions int
	next      time.Time
	// free says that it was asked and nobody answered.
	free bool
}

// foreigner is a host that has an address of a pool, and is no speaker that is heard.
type foreigner struct {
	mac   responder.MAC
	iface string
	// since is when it was seen first, last when it was seen last; asked is when it was asked last whether it is still there.
	since, last, asked time.Time
}

func newLookout(wake chan<- struct{}) *lookout {
	return &lookout{wake: wake, ask: func(host) {}, asked: map[host]*inquiry{}, foreign: map[netip.Addr]foreigner{}}
}

// watch sets whose addresses are to be looked after, who is no foreigner, and which addresses are to be asked for.
func (l *lookout) watch(pools []ipam.Pool, around neighbours, next []host, ask func(host)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pools, l.ask = pools, ask
	l.familiar = map[responder.MAC]bool{}
	for _, mac := range around.own {
		l.familiar[mac] = true
	}
	for mac := range around.peers {
		l.familiar[mac] = true
	}
	for addr, f := range l.foreign {
		if l.familiar[f.mac] || !inPools(pools, addr) {
			delete(l.foreign, addr)
		}
	}
	before := l.asked
	l.asked = make(map[host]*inquiry, len(next))
	for _, h := range next {
		if l.asked[h] = before[h]; l.asked[h] == nil {
			l.asked[h] = &inquiry{}
		}
	}
}

func inPools(pools []ipam.Pool, addr netip.Addr) bool {
	_, pooled := ipam.PoolOf(pools, addr)
	return pooled
}

// heard takes in what somebody says on an interface. It is called for every packet about the pools, and does not block.
func (l *lookout) heard(iface string, s responder.Sighting, now time.Time) {
	if s.Kind != responder.Claimed {
		return // who asks has nothing yet
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.familiar[s.MAC] || !inPools(l.pools, s.Addr) {
		return
	}
	f, known := l.foreign[s.Addr]
	if !known && len(l.foreign) >= foreignersKept {
		return
	}
	if news := !known || f.mac != s.MAC || f.iface != iface; news {
		f = foreigner{mac: s.MAC, iface: iface, since: now, asked: now}
		wake(l.wake)
	}
	f.last = now
	l.foreign[s.Addr] = f
	delete(l.asked, host{iface: iface, addr: s.Addr})
}

// due says who is to be asked now, and in what time to look again.
func (l *lookout) due(now time.Time) (questions []host, again time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	again = time.Second
	for h, q := range l.asked {
		switch {
		case now.Before(q.next):
		case q.questions < lookQuestions:
			questions, q.questions, q.next = append(questions, h), q.questions+1, now.Add(lookQuestionIn)
			if q.questions == lookQuestions {
				q.next = now.Add(lookSilence)
			}
		default: // what was free stays so while it is asked again
			if !q.free {
				wake(l.wake)
			}
			*q = inquiry{free: true, next: now.Add(lookAgainIn)}
		}
		again = min(again, max(0, q.next.Sub(now)))
	}
	for addr, f := range l.foreign {
		switch {
		case now.Sub(f.last) >= quarantineFor:
			delete(l.foreign, addr)
			wake(l.wake)
		case now.Sub(f.asked) >= lookAgainIn:
			f.asked = now
			l.foreign[addr] = f
			questions = append(questions, host{iface: f.iface, addr: addr})
		}
	}
	slices.SortFunc(questions, host.compare)
	return questions, again
}

// run asks until the context ends.
func (l *lookout) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-timer.C:
			questions, again := l.due(now)
			l.mu.Lock()
			ask := l.ask
			l.mu.Unlock()
			for _, h := range questions {
				ask(h)
			}
			timer.Reset(again)
		}
	}
}

// found is what the LAN says of the pools: who has which address, and which ones nobody has.
func (l *lookout) found() (foreign map[netip.Addr]foreigner, free []netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	foreign = make(map[netip.Addr]foreigner, len(l.foreign))
	for addr, f := range l.foreign {
		foreign[addr] = f
	}
	for h, q := range l.asked {
		if q.free {
			free = append(free, h.addr)
		}
	}
	slices.SortFunc(free, netip.Addr.Compare)
	return foreign, slices.Compact(free)
}

// lookAhead is how many free addresses of each pool and family are asked for ahead of time.
const lookAhead = 16

// ahead returns which addresses this node asks for: of each pool those that are given out next, lowest first, and next to them those that are
// reserved and lie among them. Of the nodes on an address's segment, the first by name asks.
func ahead(s snapshot, foreign map[netip.Addr]foreigner) (next []host) {
	used := map[netip.Addr]bool{}
	for _, svc := range s.services {
		for _, addr := range svc.addrs {
			used[addr] = true
		}
	}
	for _, n := range s.nodes {
		for _, addr := range n.addrs {
			used[addr] = true
		}
	}
	for _, pool := range s.pools {
		left := map[bool]int{true: lookAhead, false: lookAhead} // of IPv4, and of IPv6
		for _, r := range pool.Gives() {
			for addr := r.First; left[addr.Is4()] > 0 && addr.IsValid() && r.Contains(addr); addr = addr.Next() {
				if _, is := foreign[addr]; is || used[addr] {
					continue
				}
				if !slices.ContainsFunc(pool.Reservations, func(r ipam.Reservation) bool { return r.Addr == addr }) {
					left[addr.Is4()]--
				}
				if iface, asks := s.asks(addr); asks {
					next = append(next, host{iface: iface, addr: addr})
				}
			}
		}
	}
	return next
}

// asks says whether this node is the one that asks the LAN about an address that nobody announces, and on which interface.
func (s snapshot) asks(addr netip.Addr) (iface string, asks bool) {
	own, serves := serving(s.members[s.self].Segments, addr, nil)
	if !serves {
		return "", false
	}
	for name, member := range s.members {
		if _, other := serving(member.Segments, addr, nil); other && name < s.self {
			return "", false
		}
	}
	return own.Interface, true
}
