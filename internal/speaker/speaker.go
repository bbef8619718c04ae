package speaker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/configuration"
	"github.com/lanyard-dev/lanyard/internal/ipam"
	"github.com/lanyard-dev/lanyard/internal/links"
	"github.com/lanyard-dev/lanyard/internal/membership"
	"github.com/lanyard-dev/lanyard/internal/responder"
)

// group is the membership as the speaker uses it.
type group interface {
	Members() map[string][]membership.Segment
	Serve(segments []membership.Segment) error
	Changed() <-chan struct{}
	Run(ctx context.Context, peers func() map[string]netip.AddrPort) error
}

var _ group = (*membership.Group)(nil)

// Config is what a speaker needs to know.
type Config struct {
	Node      string
	Namespace string
	// MembershipPort is that of the other speakers, the same on every node.
	MembershipPort uint16
}

// coalesce is how long a pass waits for more events after the first: a burst of a hundred costs one pass.
const coalesce = 5 * time.Millisecond

// lookAgain is when a pass is made without any event.
const lookAgain = 10 * time.Second

// Speaker is the agent on one node.
type Speaker struct {
	config  Config
	cache   cache.Cache
	source  source
	group   group
	log     logr.Logger
	metrics *Metrics
	report  *reporter

	// dirty wakes the loop.
	dirty chan struct{}
	// inForce is the last configuration that could be read; nil until there was one.
	inForce *configuration.Configuration
	// since is when each address of ours was taken over.
	since map[netip.Addr]time.Time
	// ready is set once a pass has been made over synced caches.
	ready atomic.Bool
}

// New makes a speaker. The cache is started by Run.
func New(config Config, c cache.Cache, writer client.Client, g group, metrics *Metrics, log logr.Logger) *Speaker {
	return &Speaker{
		config: config, cache: c, source: source{reader: c, namespace: config.Namespace}, group: g, log: log, metrics: metrics,
		report: &reporter{client: writer, node: config.Node, log: log, updated: make(chan struct{}, 1)},
		dirty:  make(chan struct{}, 1), since: map[netip.Addr]time.Time{},
	}
}

// Ready says whether the speaker knows the cluster and acts on it.
func (s *Speaker) Ready() bool { return s.ready.Load() }

// Run works until the context ends: then it stops answering, and leaves the group so that another takes over at once.
func (s *Speaker) Run(ctx context.Context) error {
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return s.cache.Start(ctx) })
	tasks.Go(func() error { return links.Watch(ctx, s.dirty) })
	tasks.Go(func() error { return s.report.run(ctx) })
	tasks.Go(func() error {
		return watchKubeProxy(ctx, func(answer v1alpha1.NodeKubeProxy) {
			s.report.update(func(status *v1alpha1.NodeNetworkingStatus) { status.KubeProxy = answer })
		})
	})
	tasks.Go(func() error {
		if err := s.watchCluster(ctx); err != nil {
			return err // which ends the other tasks: the kubelet starts the speaker anew
		}
		tasks.Go(func() error { return s.group.Run(ctx, func() map[string]netip.AddrPort { return s.peers(ctx) }) })
		tasks.Go(func() error { return s.loop(ctx) })
		return nil
	})
	return tasks.Wait()
}

// watchCluster starts the informers, and returns once their caches are filled.
func (s *Speaker) watchCluster(ctx context.Context) error {
	wakeUp := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { wake(s.dirty) },
		UpdateFunc: func(any, any) { wake(s.dirty) },
		DeleteFunc: func(any) { wake(s.dirty) },
	}
	for _, object := range []client.Object{&corev1.Service{}, &discoveryv1.EndpointSlice{}, &corev1.Node{}, &corev1.ConfigMap{}} {
		informer, err := s.cache.GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("watching %T: %w", object, err)
		}
		if _, err := informer.AddEventHandler(wakeUp); err != nil {
			return fmt.Errorf("watching %T: %w", object, err)
		}
	}
	return nil
}

// peers are the other nodes; none while they cannot be listed, which the cache makes a matter of its first moments.
func (s *Speaker) peers(ctx context.Context) map[string]netip.AddrPort {
	peers, err := s.source.peers(ctx, s.config.Node, s.config.MembershipPort)
	if err != nil {
		s.log.Error(err, "cannot find the other speakers; it is tried again")
	}
	return peers
}

// loop makes a pass after every change.
func (s *Speaker) loop(ctx context.Context) error {
	r := &responders{log: s.log, counters: s.metrics.counters(), failed: s.dirty, tasks: map[string]*running{}, notBefore: map[string]time.Time{}}
	defer r.wait()
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.dirty:
		case <-s.group.Changed():
		case <-again.C:
		}
		next := lookAgain
		if err := s.pass(ctx, r); err != nil && ctx.Err() == nil {
			s.log.Error(err, "a pass failed, what was announced goes on; it is tried again")
			next = retryAfter
		}
		if r.waiting {
			next = retryAfter
		}
		again.Reset(next)
		select { // let a burst of events gather
		case <-ctx.Done():
			return nil
		case <-time.After(coalesce):
		}
	}
}

// pass gathers, decides, applies and reports once.
func (s *Speaker) pass(ctx context.Context, r *responders) error {
	interfaces, err := links.List()
	if err != nil {
		return err
	}
	// Too many subnets to tell is worth a line, and no reason to stop.
	tellErr := s.group.Serve(segmentsOf(interfaces))
	latest, configErr := s.source.configuration(ctx)
	if latest != nil {
		s.inForce = latest
	}
	if s.inForce == nil {
		s.ready.Store(configErr == nil)
		s.publish(observation{self: s.config.Node, interfaces: interfaces, members: s.group.Members()})
		return errors.Join(tellErr, configErr)
	}
	members := s.group.Members()
	snap, err := s.source.snapshot(ctx, s.config.Node, *s.inForce, members)
	if err != nil {
		return errors.Join(tellErr, configErr, err)
	}
	verdicts := decide(snap)
	now := time.Now()
	s.take(verdicts, now)
	r.sync(ctx, interfaces, now)
	r.announce(s.byInterface(verdicts), heard(snap.pools, verdicts), now)
	s.publish(observation{
		self: s.config.Node, generation: s.inForce.Generation, interfaces: interfaces, verdicts: verdicts, since: s.since, members: members,
	})
	s.metrics.announced(len(s.since))
	s.ready.Store(true)
	return errors.Join(tellErr, configErr)
}

// segmentsOf returns what a node with these interfaces can serve.
func segmentsOf(interfaces []links.Interface) []membership.Segment {
	var segments []membership.Segment
	for _, i := range interfaces {
		for _, p := range i.Addresses {
			if i.Carrier {
				segments = append(segments, membership.Segment{Interface: i.Name, Prefix: p.Masked()})
			}
		}
	}
	return segments
}

// take notes which addresses are ours now, and says what has changed.
func (s *Speaker) take(verdicts []verdict, now time.Time) {
	ours := map[netip.Addr]time.Time{}
	for _, v := range verdicts {
		if v.decision.Node != s.config.Node || v.iface == "" {
			continue
		}
		since, had := s.since[v.addr]
		if !had {
			since = now
			s.log.Info("announcing", "address", v.addr, "interface", v.iface, "reason", v.decision.Reason)
		}
		ours[v.addr] = since
	}
	for a := range s.since {
		if _, still := ours[a]; !still {
			s.log.Info("no longer announcing", "address", a)
		}
	}
	s.since = ours
}

// byInterface groups this node's addresses.
func (s *Speaker) byInterface(verdicts []verdict) map[string][]netip.Addr {
	grouped := map[string][]netip.Addr{}
	for _, v := range verdicts {
		if v.decision.Node == s.config.Node && v.iface != "" {
			grouped[v.iface] = append(grouped[v.iface], v.addr)
		}
	}
	return grouped
}

// heard returns what requests are listened for: the pools, so that an address that moves here needs no new filter, and the addresses that
// are still announced after their pool went.
func heard(pools []ipam.Pool, verdicts []verdict) []responder.Range {
	var ranges []responder.Range
	for _, p := range pools {
		for _, r := range p.Ranges {
			ranges = append(ranges, responder.Range{First: r.First, Last: r.Last})
		}
	}
	for _, v := range verdicts {
		ranges = append(ranges, responder.Range{First: v.addr, Last: v.addr})
	}
	return ranges
}

// publish reports an observation, keeping what is known of kube-proxy.
func (s *Speaker) publish(o observation) {
	status := statusOf(o)
	s.report.update(func(latest *v1alpha1.NodeNetworkingStatus) {
		status.KubeProxy = latest.KubeProxy
		*latest = status
	})
}
