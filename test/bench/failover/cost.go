package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/lanyard-dev/lanyard/test/bench/failover/wire"
	"github.com/lanyard-dev/lanyard/test/namespace"
)

// How what a speaker costs is measured.
const (
	// quiet is how long nothing happens before: what an installation begins has ended.
	quiet = 30 * time.Second
	// idleFor, strangersFor and requestsFor are how long each load lasts.
	idleFor, strangersFor, requestsFor = 60 * time.Second, 20 * time.Second, 20 * time.Second
	// strangersRate are questions a second about an address that is nobody's business, requestsRate those about the VIPs.
	strangersRate, requestsRate = 20000, 2000
)

// stranger is an address of the LAN that no host has.
var stranger = netip.MustParseAddr("192.168.1.99")

// cost is what a product's speakers cost under one load.
type cost struct {
	load string
	// cores are how many processor cores each node's speaker used, by node; anonymous is its memory that is no file's, in bytes.
	cores     map[string]float64
	anonymous map[string]int
	sent      int
	// took is how long each answer took.
	took []time.Duration
}

// costs measures what the speakers cost: at rest, among questions that do not concern them, and with questions about the VIPs.
func (b *bench) costs(ctx context.Context) error {
	if err := b.prepare(ctx); err != nil {
		return fmt.Errorf("preparing the lab: %w", err)
	}
	if err := sleep(ctx, quiet); err != nil {
		return err
	}
	vips := append([]netip.Addr{b.vip}, b.others...)
	for _, load := range []struct {
		name string
		make func(context.Context) (cost, error)
	}{
		{"at rest", func(ctx context.Context) (cost, error) { return cost{}, sleep(ctx, idleFor) }},
		{fmt.Sprintf("%d ARP questions a second for others", strangersRate), func(ctx context.Context) (cost, error) {
			return b.ask(ctx, []netip.Addr{stranger}, strangersRate, strangersFor)
		}},
		{fmt.Sprintf("%d ARP questions a second for VIPs", requestsRate), func(ctx context.Context) (cost, error) {
			return b.ask(ctx, vips, requestsRate, requestsFor)
		}},
	} {
		before, err := b.usages(ctx)
		if err != nil {
			return err
		}
		begin := time.Now()
		c, err := load.make(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", load.name, err)
		}
		after, err := b.usages(ctx)
		if err != nil {
			return err
		}
		lasted := time.Since(begin)
		c.load, c.cores, c.anonymous = load.name, map[string]float64{}, map[string]int{}
		for node, u := range after {
			c.cores[node], c.anonymous[node] = (u.processor-before[node].processor).Seconds()/lasted.Seconds(), u.anonymous
		}
		fmt.Println(c.line(b.product.name, len(b.nodes), b.vips))
	}
	return nil
}

// line is a row of a table.
func (c cost) line(product string, nodes, vips int) string {
	var cores []float64
	var anonymous []int
	for node := range c.cores {
		cores, anonymous = append(cores, c.cores[node]), append(anonymous, c.anonymous[node])
	}
	slices.Sort(cores)
	answers := "-"
	if n := len(c.took); n > 0 {
		slices.Sort(c.took)
		answers = fmt.Sprintf("%.2f %%, p50 %v, p99 %v, max %v", 100*float64(n)/float64(c.sent), rounded(c.took[n/2]), rounded(c.took[n*99/100]), rounded(c.took[n-1]))
	}
	return fmt.Sprintf("| %s | %s | %d | %d | %.2f %% to %.2f %% | %d MiB | %d | %s | %.1f |", product, c.load, nodes, vips,
		100*cores[0], 100*cores[len(cores)-1], slices.Max(anonymous)>>20, c.sent, answers, load())
}

func rounded(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// usage is what a process has used.
type usage struct {
	processor time.Duration
	anonymous int
}

// usages are those of every node's speaker.
func (b *bench) usages(ctx context.Context) (map[string]usage, error) {
	all := map[string]usage{}
	for _, n := range b.nodes {
		text, err := b.lab.on(ctx, n.name, "sh", "-c", "p=$(pgrep -x speaker) && cat /proc/$p/stat /proc/$p/status")
		if err != nil {
			return nil, fmt.Errorf("reading what the speaker of %s uses: %w", n.name, err)
		}
		if all[n.name], err = parseUsage(text); err != nil {
			return nil, fmt.Errorf("reading what the speaker of %s uses: %w", n.name, err)
		}
	}
	return all, nil
}

// tickLength is that of the kernel's clock ticks, USER_HZ.
const tickLength = 10 * time.Millisecond

// parseUsage reads proc_pid_stat(5) and, behind it, proc_pid_status(5).
func parseUsage(text string) (usage, error) {
	_, fields, _ := strings.Cut(text, "(speaker) ")
	f := strings.Fields(fields)
	if len(f) < 13 {
		return usage{}, errors.New("the kernel says too little of the process")
	}
	user, err := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	_, rest, _ := strings.Cut(text, "RssAnon:")
	kilobytes, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	anonymous, err3 := strconv.Atoi(kilobytes)
	return usage{time.Duration(user+system) * tickLength, anonymous << 10}, errors.Join(err, err2, err3)
}

// ask asks for addresses in turn, each time as another host, of a subnet that the nodes are not in, and notes when it is answered.
func (b *bench) ask(ctx context.Context, addrs []netip.Addr, rate int, lasts time.Duration) (cost, error) {
	var frames *sniffer
	err := namespace.Do(b.lab.lan(), func() (err error) {
		frames, err = sniff("br0", unix.ETH_P_ARP, everyFrame)
		return err
	})
	if err != nil {
		return cost{}, err
	}
	listening, stop := context.WithCancel(ctx)
	defer stop()
	var (
		mu       sync.Mutex
		asked    = map[netip.Addr]time.Time{}
		c        cost
		from     = netip.MustParseAddr("10.201.0.0")
		tasks, _ = errgroup.WithContext(ctx)
	)
	tasks.Go(func() error {
		return frames.run(listening, func(at time.Time, frame []byte) {
			_, to, ok := wire.Answer(frame)
			mu.Lock()
			defer mu.Unlock()
			if since, ours := asked[to]; ok && ours {
				c.took = append(c.took, at.Sub(since))
				delete(asked, to)
			}
		})
	})
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); time.Since(begin) < lasts && ctx.Err() == nil; <-tick.C {
		for due := int(time.Since(begin).Seconds() * float64(rate)); c.sent < due; c.sent++ {
			from = from.Next()
			mu.Lock()
			asked[from] = time.Now()
			mu.Unlock()
			if err := frames.send(wire.Ask(addrs[c.sent%len(addrs)], from, wire.MAC(frames.iface.HardwareAddr))); err != nil {
				return c, errors.Join(fmt.Errorf("asking: %w", err), tasks.Wait())
			}
		}
	}
	err = sleep(ctx, time.Second) // for the last answers
	stop()
	return c, errors.Join(err, tasks.Wait())
}
