// Command failover measures how long a client of a load balancer's address goes without service when the node that answers for it fails. It
// runs on the workstation of a lab.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/lanyard-dev/lanyard/test/bench/failover/results"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "failover:", err)
		stop()
		os.Exit(1) //nolint:gocritic // the deferred stop has been called
	}
}

func run(ctx context.Context) error {
	o, err := parseOptions(os.Args[1:])
	if err != nil {
		return err
	}
	store := store{o.out}
	if o.summarize {
		return store.summarize()
	}
	lock, err := lockLab(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // it goes with the process in any case
	b, err := newBench(ctx, o, store)
	if err != nil {
		return err
	}
	switch {
	case o.disturbed > 0:
		b.product = o.products[0]
		return b.disturb(ctx)
	case len(o.pending) > 0:
		return b.eachProduct(ctx, "measuring how %s gives out addresses: %w", b.allocations)
	case o.takeover:
		return b.eachProduct(ctx, "taking over from %s: %w", b.takeOver)
	case o.costs:
		return b.eachProduct(ctx, "measuring what %s costs: %w", b.costs)
	default:
		return errors.Join(b.eachProduct(ctx, "measuring %s: %w", b.measure), store.summarize())
	}
}

// eachProduct has one after the other measured.
func (b *bench) eachProduct(ctx context.Context, wrap string, measure func(context.Context) error) error {
	for _, b.product = range b.products {
		if err := measure(ctx); err != nil {
			return fmt.Errorf(wrap, b.product.name, err)
		}
	}
	return nil
}

// lockLab keeps a second benchmark off the lab, which would take the first one's faults for its own. An abstract socket belongs to the network of
// the workstation, that is, to one lab.
func lockLab(ctx context.Context) (net.Listener, error) {
	var socket net.ListenConfig
	lock, err := socket.Listen(ctx, "unix", "@lanyard-failover")
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, errors.New("another benchmark runs on this lab: wait until it has ended, or end it")
	}
	if err != nil {
		return nil, fmt.Errorf("locking the lab: %w", err)
	}
	return lock, nil
}

// troubleLimit is how many runs in a row may fail until a series is given up.
const troubleLimit = 3

// measure installs the product and inflicts every fault on it that is asked for.
func (b *bench) measure(ctx context.Context) error {
	if err := b.prepare(ctx); err != nil {
		return fmt.Errorf("preparing the lab: %w", err)
	}
	var troubles error
	for _, place := range b.placements {
		for _, f := range b.faults {
			series := results.Series{Product: b.product.name, Fault: f.name, Placement: place, Nodes: len(b.nodes), VIPs: b.vips}
			troubles = errors.Join(troubles, b.series(ctx, series, f))
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
	return troubles
}

// series inflicts one fault as often as is asked for. A run that could not be made is told, and made up for by none.
func (b *bench) series(ctx context.Context, s results.Series, f fault) error {
	var troubles error
	inARow := 0
	for number := 1; number <= b.count(f) && ctx.Err() == nil; number++ {
		r, err := b.once(ctx, s, f, number)
		if err != nil {
			err = fmt.Errorf("run %d of %s, %s: %w", number, f.name, s.Placement, err)
			fmt.Fprintln(os.Stderr, err)
			troubles = errors.Join(troubles, err)
			if inARow++; inARow == troubleLimit {
				break
			}
			continue
		}
		inARow = 0
		if err := b.store.add(r); err != nil {
			return errors.Join(troubles, err)
		}
		tell(r)
	}
	return troubles
}

// tell prints a run in a line.
func tell(r results.Run) {
	over := ""
	if r.Open {
		over = ", not over"
	}
	fmt.Printf("%s %s %s %d: gap %.1f ms%s (connect %.0f, claimed %.0f, all %.0f), lost %d and %d otherwise, two owners %.0f and %.0f healing, "+
		"%s to %s, %d of %d moved, late %.0f ms, load %.1f\n", r.Product, r.Fault, r.Placement, r.Number, r.Gap, over, r.Connect, r.Claimed, r.AllClaimed,
		r.LostDuring, r.LostOtherwise, r.Duplicate, r.DuplicateHealing, r.Victim, r.Owner, r.Moved, r.Held, r.Late, r.Load)
}
