package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lanyard-dev/lanyard/test/bench/failover/claims"
	"github.com/lanyard-dev/lanyard/test/bench/failover/gap"
)

// importer is the kubectl plugin that says what MetalLB is told.
const importer = "bin/kubectl-lanyard"

// mostLost bounds for how long the address may be without an answer while Lanyard takes over from MetalLB, all gaps taken together.
const mostLost = time.Second

// takeOver installs MetalLB, has Lanyard take over from it as the README says, and judges what a client saw: the same addresses, and how long it went
// without an answer.
func (b *bench) takeOver(ctx context.Context) error {
	if b.product.name != "metallb" {
		return errors.New("--takeover is from metallb: name it in --products")
	}
	for _, p := range everyProduct { // also MetalLB, which an earlier one has left without its controller
		if err := p.remove(ctx, b); err != nil {
			return fmt.Errorf("removing %s: %w", p.name, err)
		}
	}
	if err := b.prepare(ctx); err != nil {
		return fmt.Errorf("preparing the lab: %w", err)
	}
	p, err := newProber(b.vip, b.nodeOf)
	if err != nil {
		return err
	}
	w, err := newWatcher(b.lab.lan(), b.vip, b.others)
	if err != nil {
		return errors.Join(err, p.replies.close())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tasks, taskCtx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return p.run(taskCtx) })
	tasks.Go(func() error { return w.run(taskCtx) })
	err = b.takenOver(taskCtx, observers{prober: p, watcher: w})
	cancel()
	return errors.Join(err, tasks.Wait())
}

func (b *bench) takenOver(ctx context.Context, o observers) error {
	owner, err := b.steady(ctx, o, spread)
	if err != nil {
		return fmt.Errorf("before: %w", err)
	}
	before, was := time.Now(), append([]netip.Addr{b.vip}, b.others...)
	if err := b.follow(ctx); err != nil {
		return err
	}
	after, err := b.steady(ctx, o, spread)
	if err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	end := time.Now()
	if err := b.learnVIPs(ctx); err != nil {
		return err
	}
	if is := append([]netip.Addr{b.vip}, b.others...); !slices.Equal(was, is) {
		return fmt.Errorf("the addresses were %v, and are %v", was, is)
	}
	record := o.prober.recent(before)
	outage := gap.Dense.Longest(record, before, end)
	lost := record.Lost(outage, before, end)
	two := time.Duration(0)
	if d, found := claims.LongestDuplicate(o.watcher.since(before)); found {
		two = d.Length()
	}
	missed := lost.During + lost.Otherwise
	fmt.Printf("taken over from MetalLB, in %s: %d addresses, all the same; longest gap %s, %d of %d probes lost, two owners for %s, %s to %s\n",
		end.Sub(before).Round(time.Second), len(was), outage.Length(), missed, len(record.Sent), two, owner.name, after.name)
	if outage.Open || time.Duration(missed)*time.Millisecond > mostLost {
		return fmt.Errorf("%d probes, one each millisecond, are lost, want %s of them at most", missed, mostLost)
	}
	return nil
}

// follow does what the README says: MetalLB's controller off, Lanyard on, MetalLB's speakers off.
func (b *bench) follow(ctx context.Context) error {
	object, err := b.lab.command(ctx, "", importer, "import", "metallb")
	if err != nil {
		return err
	}
	metallb := b.product
	if _, err := b.lab.kubectl(ctx, "-n", metallb.namespace, "scale", "deployment", "controller", "--replicas=0"); err != nil {
		return err
	}
	if _, err := b.lab.kubectl(ctx, "apply", "--server-side", "-f", lanyardManifest); err != nil {
		return err
	}
	if err := b.lab.apply(ctx, object); err != nil {
		return fmt.Errorf("applying what was imported:\n%s\n%w", strings.TrimSpace(object), err)
	}
	at := slices.IndexFunc(everyProduct, func(p product) bool { return p.name == "lanyard" })
	b.product = everyProduct[at]
	if err := b.installedReady(ctx); err != nil {
		return err
	}
	_, err = b.lab.kubectl(ctx, "-n", metallb.namespace, "delete", "daemonset", metallb.daemonSet)
	return err
}
