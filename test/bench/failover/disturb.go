package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/test/bench/failover/claims"
)

// disturbance is what may be done at random: a fault, and how long after it was inflicted it may begin to show. A pod that is deleted is told so
// by its kubelet within a second or two; a program that is killed is gone.
type disturbance struct {
	fault string
	late  time.Duration
}

// disturbances leave the node's power alone in most cases: to turn it on takes ten times as long as all else.
var disturbances = []disturbance{
	{"cut", 0}, {"cut", 0}, {silentCut, 0}, {silentCut, 0}, {"kill-speaker", 0}, {"kill-speaker", 0}, {"stop-speaker", 0}, {"stop-speaker", 0},
	{"partition", 0}, {"partition", 0}, {"term-speaker", 3 * time.Second}, {"term-speaker", 3 * time.Second}, {"drain", time.Second},
	{"drain", time.Second}, {"kill-node", 0},
}

// The pace of disturbances: none waits until all is as it was before.
const (
	shortestHurt, longestHurt   = 200 * time.Millisecond, 3 * time.Second
	shortestPause, longestPause = 200 * time.Millisecond, 2 * time.Second
	// excused is how long after a fault, or a repair, two hosts may claim one address, and how long they may when an address moves as planned.
	excused = 500 * time.Millisecond
	// lookForSpeakers is how often it is looked for speakers that return.
	lookForSpeakers = 100 * time.Millisecond
	// disturbedFor bounds a fault with its repair.
	disturbedFor = 3 * time.Minute
)

// disturb inflicts faults at random on random workers, and judges who claimed the addresses meanwhile, on every port of the switch: never two
// hosts at once, but for a moment after a fault or a repair.
func (b *bench) disturb(ctx context.Context) error {
	if err := b.prepare(ctx); err != nil {
		return fmt.Errorf("preparing the lab: %w", err)
	}
	w, err := newWatcher(b.lab.lan(), b.vip, b.others)
	if err != nil {
		return err
	}
	tasks, taskCtx := errgroup.WithContext(ctx)
	taskCtx, cancel := context.WithCancel(taskCtx)
	tasks.Go(func() error { return w.run(taskCtx) })
	tasks.Go(func() error { return b.sweepOthers(taskCtx, w) })
	var returned []claims.Window
	tasks.Go(func() (err error) { returned, err = b.returns(taskCtx); return err })
	begin := time.Now()
	windows, err := b.disturbances(taskCtx)
	cancel()
	if err := errors.Join(err, tasks.Wait()); err != nil && ctx.Err() == nil {
		return err
	}
	return judgeDisturbances(w.since(begin), append(windows, returned...), time.Since(begin))
}

// sweepOthers asks who has the other addresses too, as often as for the first.
func (b *bench) sweepOthers(ctx context.Context, w *watcher) error {
	tick := time.NewTicker(askEach)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			for _, a := range b.others {
				if err := w.ask(a); err != nil {
					return err
				}
			}
		}
	}
}

// disturbances inflicts as many as are asked for, one after the other, and returns when two hosts may claim one address.
func (b *bench) disturbances(ctx context.Context) ([]claims.Window, error) {
	rng := rand.New(rand.NewPCG(b.seed, 0)) // it can be repeated
	workers := slices.DeleteFunc(slices.Clone(b.nodes), func(n node) bool { return n.controlPlane })
	var windows []claims.Window
	for number, impossible := 1, 0; number <= b.disturbed; number++ {
		d, victim := disturbances[rng.IntN(len(disturbances))], workers[rng.IntN(len(workers))]
		f := everyFault[slices.IndexFunc(everyFault, func(f fault) bool { return f.name == d.fault })]
		hurt, pause := between(rng, shortestHurt, longestHurt), between(rng, shortestPause, longestPause)
		w, err := b.disturbOnce(ctx, f, d, victim, hurt)
		if len(w) == 0 && impossible < b.disturbed && ctx.Err() == nil { // a speaker that was killed a moment ago cannot be stopped
			fmt.Printf("not possible now: %v\n", err)
			number, impossible = number-1, impossible+1
			err = sleep(ctx, pause)
		}
		if err != nil {
			return windows, fmt.Errorf("disturbance %d, %s of %s: %w", number, f.name, victim.name, err)
		}
		windows = append(windows, w...)
		if len(w) == 0 {
			continue
		}
		fmt.Printf("%d: %s of %s for %v\n", number, f.name, victim.name, hurt.Round(time.Millisecond))
		if err := sleep(ctx, pause); err != nil {
			return windows, err
		}
	}
	return windows, nil
}

// disturbOnce hurts a worker for a time, and mends it.
func (b *bench) disturbOnce(ctx context.Context, f fault, d disturbance, victim node, hurt time.Duration) ([]claims.Window, error) {
	ctx, cancel := context.WithTimeout(ctx, disturbedFor)
	defer cancel()
	planned := time.Duration(0)
	if d.late > 0 {
		planned = excused
	}
	begin := time.Now()
	if err := f.inflict(ctx, b, victim.name); err != nil {
		return nil, err
	}
	windows := []claims.Window{{From: begin, To: time.Now().Add(d.late + excused), AtMost: planned}}
	err := sleep(ctx, hurt)
	heal := f.heal
	if f.name == "kill-node" {
		heal = turnOn
	}
	if heal != nil {
		healed := time.Now()
		err = errors.Join(err, heal(context.WithoutCancel(ctx), b, victim.name))
		windows = append(windows, claims.Window{From: healed, To: time.Now().Add(d.late + excused), AtMost: planned})
	}
	return windows, err
}

// returns watches the speakers until the context ends, and returns when two hosts may claim one address because one of them has come back: the
// kubelet starts a speaker that was killed when it likes to. From its start until it is ready addresses may move to it as planned.
func (b *bench) returns(ctx context.Context) ([]claims.Window, error) {
	selector, err := labels.Parse(b.product.selector)
	if err != nil {
		return nil, fmt.Errorf("selecting the speakers: %w", err)
	}
	tick := time.NewTicker(lookForSpeakers)
	defer tick.Stop()
	seen, ready := map[string]claims.Window{}, map[string]bool{} // by the container's ID
	for {
		select {
		case <-ctx.Done():
			return slices.Collect(maps.Values(seen)), nil
		case <-tick.C:
		}
		var pods corev1.PodList
		err := b.api.List(ctx, &pods, client.InNamespace(b.product.namespace), client.MatchingLabelsSelector{Selector: selector})
		if err != nil && ctx.Err() == nil {
			return nil, fmt.Errorf("looking for speakers that return: %w", err)
		}
		now := time.Now()
		for _, pod := range pods.Items {
			for _, c := range pod.Status.ContainerStatuses {
				if c.State.Running == nil || ready[c.ContainerID] {
					continue
				}
				seen[c.ContainerID] = claims.Window{From: c.State.Running.StartedAt.Time, To: now.Add(excused), AtMost: excused}
				ready[c.ContainerID] = c.Ready
			}
		}
	}
}

func between(rng *rand.Rand, shortest, longest time.Duration) time.Duration {
	return shortest + time.Duration(rng.Int64N(int64(longest-shortest)))
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// judgeDisturbances prints when two hosts claimed one address, and fails if that was at a time when it may not be.
func judgeDisturbances(all []claims.Claim, windows []claims.Window, lasted time.Duration) error {
	duplicates := claims.Duplicates(all)
	var longest time.Duration
	var wrong []error
	for _, d := range duplicates {
		longest = max(longest, d.Length())
		if left := d.Unexcused(windows); left > 0 {
			wrong = append(wrong, fmt.Errorf("%s and %s claimed %s from %s for %v, %v of it without a fault or a repair that would excuse it",
				d.MACs[0], d.MACs[1], d.Addr, d.From.Format(time.StampMilli), d.Length(), left))
		}
	}
	fmt.Printf("%d faults and repairs in %v, %d claims heard: two hosts claimed one address %d times, for %v at most; %d of them at a time when they may not\n",
		len(windows), lasted.Round(time.Second), len(all), len(duplicates), longest.Round(time.Millisecond), len(wrong))
	return errors.Join(wrong...)
}
