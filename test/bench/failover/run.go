package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lanyard-dev/lanyard/test/bench/failover/claims"
	"github.com/lanyard-dev/lanyard/test/bench/failover/gap"
	"github.com/lanyard-dev/lanyard/test/bench/failover/results"
	"github.com/lanyard-dev/lanyard/test/bench/failover/wire"
)

const (
	// runLimit bounds one fault with all its waiting, and with it what is sent: probes for so long at most.
	runLimit = 12 * time.Minute
	// steadyLimit bounds the wait until one node answers for the address, by the wire, the status and the answers alike.
	steadyLimit = 4 * time.Minute
	// calm is how long all must have been as it should before a fault, and again how long the address must have answered after one.
	calm = 2 * time.Second
	// connectionsFirst is how many connections are opened before a fault.
	connectionsFirst = 50
)

// observers see what happens on the wire.
type observers struct {
	prober  *prober
	users   *users
	watcher *watcher
}

// once makes one run: it waits until all is steady, inflicts the fault on the node that answers for the address, watches until the address
// answers again, heals, and waits until all is steady again.
func (b *bench) once(ctx context.Context, s results.Series, f fault, number int) (r results.Run, err error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	p, err := newProber(b.vip, b.nodeOf)
	if err != nil {
		return r, err
	}
	w, err := newWatcher(b.lab.lan(), b.vip, b.others)
	if err != nil {
		return r, errors.Join(err, p.replies.close())
	}
	o := observers{prober: p, watcher: w, users: newUsers(netip.AddrPortFrom(b.vip, wire.Port))}
	tasks, taskCtx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return p.run(taskCtx) })
	tasks.Go(func() error { return w.run(taskCtx) })
	tasks.Go(func() error { o.users.run(taskCtx); return nil })
	r, err = b.inflicted(taskCtx, o, s, f)
	r.Number = number
	cancel()
	if taskErr := tasks.Wait(); taskErr != nil {
		err = errors.Join(err, taskErr)
	}
	return r, err
}

// inflicted makes a run while the observers work.
func (b *bench) inflicted(ctx context.Context, o observers, s results.Series, f fault) (r results.Run, err error) {
	victim, err := b.steady(ctx, o, s.Placement)
	if err != nil {
		return r, fmt.Errorf("before the fault: %w", err)
	}
	held, err := b.heldBy(ctx, o, victim)
	if err != nil {
		return r, err
	}
	if err := warmedUp(ctx, o); err != nil {
		return r, err
	}
	o.prober.lateness()
	before := time.Now()
	if err = f.inflict(ctx, b, victim.name); err == nil {
		after := time.Now()
		b.awaitService(ctx, o, f, after)
		end := time.Now()
		r = b.judge(o, victim, held, before, after, end)
		r.Series, r.Victim, r.VIP, r.Version = s, victim.name, b.vip.String(), b.version
	}
	healed := time.Now()
	if f.heal != nil {
		// What was hurt is mended, even if the run was interrupted.
		err = errors.Join(err, f.heal(context.WithoutCancel(ctx), b, victim.name))
	}
	if err != nil {
		return r, fmt.Errorf("inflicting %s on %s: %w", f.name, victim.name, err)
	}
	if _, err := b.steady(ctx, o, s.Placement); err != nil {
		return r, fmt.Errorf("after the repair: %w", err)
	}
	if d, found := claims.LongestDuplicate(o.watcher.since(healed)); found {
		r.DuplicateHealing = results.Milliseconds(d.Length())
	}
	return r, nil
}

// steady waits until one node has the address, by all that it is told by, with the backends where they should be, and returns it.
func (b *bench) steady(ctx context.Context, o observers, placement string) (node, error) {
	var owner node
	err := await(ctx, "a steady state", steadyLimit, func(ctx context.Context) error {
		since := time.Now().Add(-calm)
		var err error
		if owner, err = b.onWire(o, since); err != nil {
			return err
		}
		without := ""
		if placement == survivors {
			without = owner.name
		}
		if err := b.place(ctx, without); err != nil {
			return err
		}
		record := o.prober.recent(since.Add(-calm))
		via, backends := gap.Through(record.Answers, since)
		if want := b.backends(without); !slices.Equal(backends, want) || !slices.Equal(via, []string{owner.name}) {
			return fmt.Errorf("answers came through %v from %v, want %s and %v", via, backends, owner.name, want)
		}
		if !gap.Settled(record, since.Add(calm), calm) {
			return fmt.Errorf("%s has not answered for %s without a break", b.vip, calm)
		}
		told, err := b.product.owner(ctx, b, b.service, b.vip.String())
		if err != nil {
			return err
		}
		if told != owner.name && (told != "" || !b.product.losesStatus) {
			return fmt.Errorf("the status says that %q has %s, and %s answers", told, b.vip, owner.name)
		}
		return speakersReady(ctx, b)
	})
	return owner, err
}

// onWire returns the node that alone has claimed the address since a time. It has to be a worker: the benchmark needs the control plane.
func (b *bench) onWire(o observers, since time.Time) (node, error) {
	macs := claims.Owners(o.watcher.since(since), since)[b.vip]
	if len(macs) != 1 {
		return node{}, fmt.Errorf("on the LAN %d hosts have claimed %s in %s", len(macs), b.vip, calm)
	}
	i := slices.IndexFunc(b.nodes, func(n node) bool { return n.mac == macs[0] })
	if i < 0 || b.nodes[i].controlPlane {
		return node{}, fmt.Errorf("%s answers for %s, want a worker", b.nodeOf(macs[0]), b.vip)
	}
	return b.nodes[i], nil
}

// heldBy returns the addresses that a node answers for, and has some of them probed. The one that is probed in any case comes first.
func (b *bench) heldBy(ctx context.Context, o observers, owner node) ([]netip.Addr, error) {
	held := []netip.Addr{b.vip}
	if len(b.others) == 0 {
		return held, nil
	}
	begin := time.Now()
	if err := o.watcher.sweep(ctx, b.others); err != nil {
		return nil, err
	}
	err := await(ctx, "an answer for every address", 5*time.Second, func(context.Context) error {
		owners := claims.Owners(o.watcher.since(begin), begin)
		held = held[:1]
		silent := 0
		for _, a := range b.others {
			switch {
			case len(owners[a]) == 0:
				silent++
			case slices.Equal(owners[a], []wire.MAC{owner.mac}):
				held = append(held, a)
			}
		}
		if silent > 0 {
			return fmt.Errorf("nobody answers for %d addresses", silent)
		}
		return nil
	})
	o.prober.sample(held[1:])
	return held, err
}

// warmedUp waits until connections are opened and the probes of all addresses have gone on for a second.
func warmedUp(ctx context.Context, o observers) error {
	begin := time.Now()
	return await(ctx, "connections and answers", 30*time.Second, func(context.Context) error {
		attempts := o.users.record()
		if len(attempts) < connectionsFirst || !attempts[len(attempts)-1].Good {
			return fmt.Errorf("%d connections were tried", len(attempts))
		}
		if !gap.Settled(o.prober.recent(begin), time.Now(), time.Second) {
			return errors.New("the address has not answered for a second without a break")
		}
		return nil
	})
}

// awaitService returns once the fault is over as far as it goes by itself and the address has answered for a while, or at the latest when the
// fault's time is over, which the measured gap shows.
func (b *bench) awaitService(ctx context.Context, o observers, f fault, after time.Time) {
	// An error means that the time is over.
	_ = await(ctx, "service", f.atMost, func(ctx context.Context) error {
		now := time.Now()
		if now.Sub(after) < f.atLeast || !gap.Settled(o.prober.recent(now.Add(-2*calm)), now, calm) {
			return errors.New("it has not answered for long enough")
		}
		if f.settled != nil {
			return f.settled(ctx, b)
		}
		return nil
	})
}

// judge sums a run up, from what was seen until the end.
func (b *bench) judge(o observers, victim node, held []netip.Addr, before, after, end time.Time) results.Run {
	record := o.prober.recent(before.Add(-calm))
	answers, outage := record.Answers, gap.Dense.Longest(record, before, end)
	lost := record.Lost(outage, before, end)
	r := results.Run{
		At: before.UTC(), Gap: results.Milliseconds(outage.Length()), Open: outage.Open, Probes: len(record.Sent), Held: len(held),
		LostDuring: lost.During, LostOtherwise: lost.Otherwise, Connect: results.Milliseconds(gap.LongestRefusal(o.users.record(), before, end)), Late: results.Milliseconds(o.prober.lateness()),
		Dropped: o.prober.replies.dropped() + o.watcher.frames.dropped(), Load: load(),
	}
	// Without an outage, the fault itself is what times are counted from.
	zero := after
	if outage.Length() > gap.Dense.Silence {
		zero = outage.From
	}
	if first, found := gap.FirstNotVia(answers, before, victim.name); found {
		r.NewOwner = results.Milliseconds(first.At.Sub(zero))
	}
	all := o.watcher.since(before)
	taken := claims.Takeovers(all, held, before, victim.mac)
	r.Moved = len(taken)
	if at, found := taken[b.vip]; found {
		r.Claimed = results.Milliseconds(at.Sub(zero))
	}
	if len(taken) > 0 {
		last := slices.MaxFunc(slices.Collect(maps.Values(taken)), time.Time.Compare)
		r.AllClaimed = results.Milliseconds(last.Sub(zero))
	}
	if d, found := claims.LongestDuplicate(all); found {
		r.Duplicate = results.Milliseconds(d.Length())
	}
	if via, _ := gap.Through(answers, end.Add(-gap.Late)); len(via) > 0 {
		r.Owner = strings.Join(via, " and ")
	}
	for _, a := range held[1:min(len(held), 1+sampled)] {
		outage := gap.Sparse.Longest(o.prober.record(a, before.Add(-calm)), before, end)
		r.SampleGaps = append(r.SampleGaps, results.Milliseconds(outage.Length()))
	}
	return r
}

// load is the machine's over the last minute; 0 where it does not say.
func load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	value, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return value
}
