package responder

import (
	"net/netip"
	"slices"
	"time"
)

// The bounds of what is remembered of askers.
const (
	// askersAtMost is how many are remembered; the one that asked the longest ago makes room.
	askersAtMost = 256
	// askerForgotten is when: by then, neighbours have dropped an entry that they did not use, but for routers that keep one for four hours.
	askerForgotten = time.Hour
	// routerAsks is from how many addresses on an asker looks like a router. No more are remembered of each.
	routerAsks = 8
	// toldAtMost is how many askers are told of one address, those that asked last: it bounds a burst.
	toldAtMost = 16
)

// asker is a neighbour that asked for an address, and so holds an entry for it.
type asker struct {
	addr netip.Addr
	mac  MAC
}

// question is an address and when somebody last asked for it.
type question struct {
	addr netip.Addr
	at   time.Time
}

// asked is what is remembered of one asker: the questions with the last one at the end.
type asked struct {
	mac       MAC
	questions []question
}

// last is when it asked last.
func (a asked) last() time.Time { return a.questions[len(a.questions)-1].at }

// askers are the neighbours on an interface that asked for addresses, whoever owned these, by the neighbours' own addresses.
type askers map[netip.Addr]asked

// learn remembers that somebody asked for an address.
func (k askers) learn(who asker, addr netip.Addr, now time.Time) {
	known, again := k[who.addr]
	if !again && len(k) >= askersAtMost {
		k.dropOldest()
	}
	questions := slices.DeleteFunc(known.questions, func(q question) bool { return q.addr == addr || now.Sub(q.at) >= askerForgotten })
	if len(questions) == routerAsks {
		questions = slices.Delete(questions, 0, 1)
	}
	k[who.addr] = asked{mac: who.mac, questions: append(questions, question{addr, now})}
}

// dropOldest forgets who asked the longest ago.
func (k askers) dropOldest() {
	var oldest netip.Addr
	for addr, a := range k {
		if !oldest.IsValid() || a.last().Before(k[oldest].last()) {
			oldest = addr
		}
	}
	delete(k, oldest)
}

// of returns who is to be told that an address has moved: those that asked for it and those that look like routers, at most toldAtMost, the
// one that asked last first.
func (k askers) of(addr netip.Addr, now time.Time) []asker {
	var found []netip.Addr
	for who, a := range k {
		recent := 0
		asks := false
		for _, q := range a.questions {
			if now.Sub(q.at) < askerForgotten {
				recent++
				asks = asks || q.addr == addr
			}
		}
		if asks || recent >= routerAsks {
			found = append(found, who)
		}
	}
	slices.SortFunc(found, func(a, b netip.Addr) int {
		if c := k[b].last().Compare(k[a].last()); c != 0 {
			return c
		}
		return a.Compare(b)
	})
	told := make([]asker, 0, min(len(found), toldAtMost))
	for _, who := range found[:min(len(found), toldAtMost)] {
		told = append(told, asker{addr: who, mac: k[who].mac})
	}
	return told
}
