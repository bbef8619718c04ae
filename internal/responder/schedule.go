package responder

import (
	"hash/fnv"
	"net/netip"
	"slices"
	"time"
)

// schedule is when an address is announced after it was taken over. The first frame does it for most neighbours; the others are for those
// that lost it, or that, like old Linux, ignore changes of an entry within a second of the last.
var schedule = [...]time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 1200 * time.Millisecond, 3 * time.Second}

// After the schedule an address is announced again now and then, for fabrics that forget addresses that are silent.
const (
	refreshEvery = 300 * time.Second
	// refreshAtMost is how many addresses are refreshed in a second.
	refreshAtMost = 50
)

// takeover is an address and when it was taken over: taken over again, it is announced again.
type takeover struct {
	addr  netip.Addr
	since time.Time
}

// idle is when to look again if nothing is due.
const idle = time.Hour

// agenda is how far the announcements of each address are.
type agenda struct {
	progress map[takeover]progress
	// refreshed is when addresses were refreshed last.
	refreshed time.Time
}

// progress is how many announcements of an address were sent, refreshes included, and when the next one is due.
type progress struct {
	sent int
	next time.Time
}

func newAgenda() *agenda { return &agenda{progress: map[takeover]progress{}} }

// timeOf is when the announcement with this number, from 0, is due after the takeover. The refreshes of addresses that were taken over
// together are spread over the whole interval, each address always at the same place.
func timeOf(number int, addr netip.Addr) time.Duration {
	if number < len(schedule) {
		return schedule[number]
	}
	return firstRefresh(addr) + time.Duration(number-len(schedule))*refreshEvery
}

// firstRefresh is when the first one is due after the takeover: between half an interval and one and a half.
func firstRefresh(addr netip.Addr) time.Duration {
	hash := fnv.New64a()
	_, _ = hash.Write(addr.AsSlice()) // a hash takes everything
	return refreshEvery/2 + time.Duration(hash.Sum64()%uint64(refreshEvery))
}

// numberAt is how many announcements are due until a time after the takeover.
func numberAt(elapsed time.Duration, addr netip.Addr) int {
	if first := firstRefresh(addr); elapsed >= first {
		return len(schedule) + 1 + int((elapsed-first)/refreshEvery)
	}
	number := 0
	for number < len(schedule) && elapsed >= schedule[number] {
		number++
	}
	return number
}

// due returns the addresses to be announced after a takeover and those to be refreshed now, counts both as sent, and says when to look
// again. What was missed is made up for by one. Refreshes are sent at most once a second, so many at a time, the one most overdue first.
func (g *agenda) due(now time.Time, owned map[netip.Addr]time.Time) (announced, refreshed []netip.Addr, next time.Duration) {
	for t := range g.progress {
		if since, still := owned[t.addr]; !still || since != t.since {
			delete(g.progress, t)
		}
	}
	next = idle
	var late []takeover
	for a, since := range owned {
		t := takeover{a, since}
		p, begun := g.progress[t]
		switch {
		case begun && now.Before(p.next):
			next = min(next, max(p.next.Sub(now), g.pause(p, now)))
		case begun && p.sent >= len(schedule):
			late = append(late, t)
		default:
			announced = append(announced, a)
			next = min(next, g.advance(t, now))
		}
	}
	slices.SortFunc(announced, netip.Addr.Compare)
	refreshed, again := g.refresh(now, late)
	return announced, refreshed, min(next, again)
}

// pause is how long the next announcement of an address has to wait at least, if it is a refresh.
func (g *agenda) pause(p progress, now time.Time) time.Duration {
	if p.sent < len(schedule) {
		return 0
	}
	return g.refreshed.Add(time.Second).Sub(now)
}

// advance counts what is due as sent and returns how long it is until the next announcement.
func (g *agenda) advance(t takeover, now time.Time) time.Duration {
	sent := numberAt(now.Sub(t.since), t.addr)
	p := progress{sent: sent, next: t.since.Add(timeOf(sent, t.addr))}
	g.progress[t] = p
	return p.next.Sub(now)
}

// refresh picks among the addresses whose refresh is due those that are refreshed now, and says when to look again.
func (g *agenda) refresh(now time.Time, late []takeover) (refreshed []netip.Addr, next time.Duration) {
	if len(late) == 0 {
		return nil, idle
	}
	if wait := g.refreshed.Add(time.Second).Sub(now); wait > 0 {
		return nil, wait
	}
	slices.SortFunc(late, func(a, b takeover) int {
		if c := g.progress[a].next.Compare(g.progress[b].next); c != 0 {
			return c
		}
		return a.addr.Compare(b.addr)
	})
	next = idle
	if len(late) > refreshAtMost {
		late, next = late[:refreshAtMost], time.Second
	}
	g.refreshed = now
	for _, t := range late {
		refreshed = append(refreshed, t.addr)
		next = min(next, max(g.advance(t, now), time.Second))
	}
	return refreshed, next
}
