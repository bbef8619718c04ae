package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/lanyard-dev/lanyard/test/bench/failover/claims"
	"github.com/lanyard-dev/lanyard/test/bench/failover/wire"
	"github.com/lanyard-dev/lanyard/test/namespace"
)

// askEach is how often the LAN is asked who has the address. So an owner shows itself that has nothing to announce, and two owners do.
const askEach = 20 * time.Millisecond

// asker is who asks: an address that no host of the LAN has, with the bridge's own hardware address. The client's neighbour table, which the
// failover depends on, learns nothing from the answers.
var asker = netip.MustParseAddr("192.168.1.121")

// watcher records who claims the addresses on the LAN. It listens where the switch is: what a host says whose cable is cut is not heard.
type watcher struct {
	vip    netip.Addr
	vips   map[netip.Addr]bool
	frames *sniffer

	mu  sync.Mutex
	all []claims.Claim
}

// newWatcher opens the socket in the network namespace with the bridge. One address is asked for all the time; the others are listened for.
func newWatcher(lan string, vip netip.Addr, others []netip.Addr) (*watcher, error) {
	w := &watcher{vip: vip, vips: map[netip.Addr]bool{vip: true}}
	for _, a := range others {
		w.vips[a] = true
	}
	err := namespace.Do(lan, func() error {
		var err error
		w.frames, err = sniff("br0", unix.ETH_P_ARP, everyFrame)
		return err
	})
	return w, err
}

// run listens and asks until the context ends.
func (w *watcher) run(ctx context.Context) error {
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return w.frames.run(ctx, w.take) })
	tasks.Go(func() error {
		tick := time.NewTicker(askEach)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				if err := w.ask(w.vip); err != nil {
					return err
				}
			}
		}
	})
	return tasks.Wait()
}

func (w *watcher) ask(addr netip.Addr) error {
	if err := w.frames.send(wire.Ask(addr, asker, wire.MAC(w.frames.iface.HardwareAddr))); err != nil {
		return fmt.Errorf("asking who has %s: %w", addr, err)
	}
	return nil
}

// sweep asks for addresses once, a thousand a second.
func (w *watcher) sweep(ctx context.Context, addrs []netip.Addr) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for _, a := range addrs {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			if err := w.ask(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// take notes a claim.
func (w *watcher) take(at time.Time, frame []byte) {
	addr, mac, ok := wire.Claim(frame)
	if !ok || !w.vips[addr] {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, claims.Claim{At: at, Addr: addr, MAC: mac})
}

// since returns the claims from a time on.
func (w *watcher) since(t time.Time) []claims.Claim {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := len(w.all)
	for i > 0 && !w.all[i-1].At.Before(t) {
		i--
	}
	return slices.Clone(w.all[i:])
}
