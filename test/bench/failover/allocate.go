package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/test/bench/failover/wire"
)

const (
	// poolForPending is in no subnet of the LAN: nobody announces its addresses.
	poolForPending = "10.201.0.0/16"
	// allocateWithin bounds how long the Services wait.
	allocateWithin = 10 * time.Minute
	// oneMore is how often one more Service asks for an address when all others have theirs.
	oneMore = 40
)

// allocations measures for each number of Services how long they wait.
func (b *bench) allocations(ctx context.Context) error {
	for _, n := range b.pending {
		if err := b.allocation(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// allocation has so many Services wait, makes a pool, and measures until all have an address; then how long each further one waits.
func (b *bench) allocation(ctx context.Context, n int) error {
	if err := b.prepareAllocation(ctx, n); err != nil {
		return fmt.Errorf("preparing %d Services: %w", n, err)
	}
	watched, err := b.api.Watch(ctx, &corev1.ServiceList{}, client.InNamespace("bench"))
	if err != nil {
		return fmt.Errorf("watching the Services: %w", err)
	}
	defer watched.Stop()
	if err := b.product.give(ctx, b, poolForPending); err != nil {
		return fmt.Errorf("making the pool: %w", err)
	}
	given := time.Now()
	if err := served(watched.ResultChan(), n); err != nil {
		return err
	}
	took := time.Since(given)
	var waits []time.Duration
	for i := range oneMore {
		wait, err := b.oneMore(ctx, fmt.Sprintf("more-%d", i))
		if err != nil {
			return err
		}
		waits = append(waits, wait)
	}
	memory, err := b.memory(ctx)
	if err != nil {
		return err
	}
	slices.Sort(waits)
	fmt.Printf("| %s | %d | %s | %.0f | %s | %s | %d MiB | %.1f |\n", b.product.name, n, took.Round(10*time.Millisecond), float64(n)/took.Seconds(),
		waits[oneMore/2].Round(time.Millisecond), waits[oneMore-1].Round(time.Millisecond), memory>>20, load())
	return nil
}

// prepareAllocation installs the product without a pool, and makes the Services.
func (b *bench) prepareAllocation(ctx context.Context, n int) error {
	if _, err := b.lab.kubectl(ctx, "delete", "namespace", "bench", "--ignore-not-found"); err != nil {
		return err
	}
	for _, p := range everyProduct {
		if err := p.remove(ctx, b); err != nil {
			return fmt.Errorf("removing %s: %w", p.name, err)
		}
	}
	if err := errors.Join(b.product.install(ctx, b), b.product.give(ctx, b, "")); err != nil {
		return fmt.Errorf("installing %s: %w", b.product.name, err)
	}
	if err := b.installedReady(ctx); err != nil {
		return err
	}
	if err := b.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}); err != nil {
		return fmt.Errorf("making the namespace: %w", err)
	}
	creations, ctx := errgroup.WithContext(ctx)
	creations.SetLimit(16)
	for i := range n {
		creations.Go(func() error { return b.api.Create(ctx, pendingService(serviceName(i))) })
	}
	return creations.Wait()
}

// pendingService asks for an address, and leads nowhere.
func pendingService(name string) *corev1.Service {
	no := false
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: name}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: &no, Ports: []corev1.ServicePort{{Port: wire.Port}}}}
}

// served returns once n Services have an address. A watch tells: to list them all every moment would cost processor time that what is measured needs.
func served(events <-chan watch.Event, n int) error {
	limit := time.After(allocateWithin)
	has := map[string]bool{}
	for len(has) < n {
		select {
		case event, open := <-events:
			svc, is := event.Object.(*corev1.Service)
			if !open || !is {
				return fmt.Errorf("the watch of the Services ended when %d of %d had an address: %v", len(has), n, event)
			}
			if len(svc.Status.LoadBalancer.Ingress) > 0 {
				has[svc.Name] = true
			}
		case <-limit:
			return fmt.Errorf("%d of %d Services have an address after %s", len(has), n, allocateWithin)
		}
	}
	return nil
}

// oneMore makes one Service more, and returns how long it waits for an address.
func (b *bench) oneMore(ctx context.Context, name string) (time.Duration, error) {
	svc := pendingService(name)
	begin := time.Now()
	if err := b.api.Create(ctx, svc); err != nil {
		return 0, fmt.Errorf("making one Service more: %w", err)
	}
	for time.Since(begin) < steadyLimit {
		if err := b.api.Get(ctx, client.ObjectKeyFromObject(svc), svc); err != nil {
			return 0, fmt.Errorf("reading the Service %s: %w", name, err)
		}
		if len(svc.Status.LoadBalancer.Ingress) > 0 {
			return time.Since(begin), nil
		}
		if err := sleep(ctx, time.Millisecond); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("the Service %s has got no address in %s", name, steadyLimit)
}

// memory is that of the program that gives out addresses, the part that is no file's, in bytes: of the larger one where there are two.
func (b *bench) memory(ctx context.Context) (int, error) {
	most := 0
	for _, n := range b.nodes {
		text, err := b.lab.on(ctx, n.name, "sh", "-c", "for p in $(pgrep -x "+b.product.program+"); do grep RssAnon /proc/$p/status; done")
		if err != nil {
			return 0, fmt.Errorf("reading what %s uses on %s: %w", b.product.program, n.name, err)
		}
		for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
			kilobytes := 0
			if _, err := fmt.Sscanf(line, "RssAnon: %d kB", &kilobytes); err == nil {
				most = max(most, kilobytes<<10)
			}
		}
	}
	if most == 0 {
		return 0, fmt.Errorf("no %s runs on any node", b.product.program)
	}
	return most, nil
}
