package main

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/lanyard-dev/lanyard/test/bench/failover/gap"
)

const (
	// connectEach is how often a user opens a connection.
	connectEach = 10 * time.Millisecond
	// opening is how long it may take. Linux sends a SYN that got lost again after 1 s: a connection that needs that has failed.
	opening = 900 * time.Millisecond
)

// users open connections to an address, and close them again.
type users struct {
	addr string

	mu       sync.Mutex
	attempts []gap.Attempt
}

func newUsers(addr netip.AddrPort) *users { return &users{addr: addr.String()} }

// run opens connections until the context ends, and returns when the last one is over: as many are under way at once as are begun in the
// time that one may take.
func (u *users) run(ctx context.Context) {
	var underWay sync.WaitGroup
	defer underWay.Wait()
	tick := time.NewTicker(connectEach)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			underWay.Go(func() { u.connect(ctx) })
		}
	}
}

// connect opens a connection. One that the end of the context cuts off has neither failed nor not.
func (u *users) connect(ctx context.Context) {
	begun := time.Now()
	conn, err := (&net.Dialer{Timeout: opening}).DialContext(ctx, "tcp4", u.addr)
	if err == nil {
		_ = conn.Close() // nothing was said
	} else if ctx.Err() != nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.attempts = append(u.attempts, gap.Attempt{Begun: begun, Good: err == nil})
}

// record returns what became of the connections so far.
func (u *users) record() []gap.Attempt {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.attempts)
}
