package responder

import (
	"net/netip"
	"slices"
	"time"
)

// schedule is when an address is announced after it was taken over. The first frame does it for most neighbours; the others are for those
// that lost it, or that, like old Linux, ignore changes of an entry within a second of the last.
var schedule = [...]time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 1200 * time.Millisecond, 3 * time.Second}

// takeover is an address and when it was taken over: taken over again, it is announced again.
type takeover struct {
	addr  netip.Addr
	since time.Time
}

// idle is when to look again if nothing is due.
const idle = time.Hour

// dueAt returns the addresses whose next announcement is due, in order, counts it as sent, and says when to look again. Announcements that
// were missed are made up for by one.
func dueAt(now time.Time, owned map[netip.Addr]time.Time, sent map[takeover]int) (due []netip.Addr, next time.Duration) {
	next = idle
	for t := range sent {
		if since, still := owned[t.addr]; !still || since != t.since {
			delete(sent, t)
		}
	}
	for a, since := range owned {
		t, elapsed := takeover{a, since}, now.Sub(since)
		before := sent[t]
		for sent[t] < len(schedule) && elapsed >= schedule[sent[t]] {
			sent[t]++
		}
		if sent[t] > before {
			due = append(due, a)
		}
		if sent[t] < len(schedule) {
			next = min(next, schedule[sent[t]]-elapsed)
		}
	}
	slices.SortFunc(due, netip.Addr.Compare)
	return due, next
}
