package speaker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
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
	"github.com/lanyard-dev/lanyard/internal/election"
	"github.com/lanyard-dev/lanyard/internal/links"
	"github.com/lanyard-dev/lanyard/internal/membership"
	"github.com/lanyard-dev/lanyard/internal/responder"
)

// group is the membership as the speaker uses it.
type group interface {
	Members() map[string]membership.Member
	Serve(segments []membership.Segment)
	Claim(claims map[netip.Addr]membership.Claim)
	Former() map[netip.Addr]membership.Claim
	Epochs() map[netip.Addr]uint64
	Lost() []string
	Forget(keep func(node string) bool)
	Hold(ctx context.Context, d time.Duration) error
	Changed() <-chan struct{}
	Met() <-chan struct{}
	Run(ctx context.Context, peers func() map[string]netip.AddrPort) error
}

var _ group = (*membership.Group)(nil)

// Config is what a speaker needs to know.
type Config struct {
	Node      string
	Namespace string
	// Addr is the node's address, on which this speaker is reached.
	Addr netip.Addr
	// MembershipPort is that of the other speakers, the same on every node.
	MembershipPort uint16
	// TemplateGeneration is which revision of the DaemonSet's pod template this speaker's pod was made from; empty when that is not known.
	TemplateGeneration string
}

// coalesce is how long a pass waits for more events after the first: a burst of a hundred costs one pass.
const coalesce = 5 * time.Millisecond

// lookAgain is when a pass is made without any event.
const lookAgain = 10 * time.Second

// meetWithin is how long the first pass waits until the other speakers have been met. Peers that do not answer may be dead.
const meetWithin = 3 * time.Second

// Speaker is the agent on one node.
type Speaker struct {
	config  Config
	cache   cache.Cache
	source  source
	join    func() (*membership.Group, error)
	group   group
	log     logr.Logger
	metrics *Metrics
	report  *reporter
	witness *witness

	// dirty wakes the loop.
	dirty chan struct{}
	// served are the segments that the others were told last.
	served []membership.Segment
	// complaint is what was logged last of what does not keep a pass from being made.
	complaint string
	// inForce is the last configuration that could be read; nil until there was one.
	inForce *settings
	// since is when each address of ours was taken over.
	since map[netip.Addr]time.Time
	// claims are what this node claims; nil until the first pass has taken up what the others have kept for it.
	claims *claims
	seen   *sightings
	around *vicinity
	pulse  pulse

	// departing is set when the speaker ends; gone is closed once it claims nothing then.
	departing atomic.Bool
	gone      chan struct{}
	// joined is closed once the speaker is in the group.
	joined chan struct{}
}

// New makes a speaker. Run starts the cache, and joins the group of speakers once that is filled.
func New(
	config Config, c cache.Cache, writer client.Client, join func() (*membership.Group, error), metrics *Metrics, log logr.Logger,
) *Speaker {
	s := &Speaker{
		config: config, cache: c, source: source{reader: c, namespace: config.Namespace}, join: join, log: log, metrics: metrics,
		report: &reporter{client: writer, node: config.Node, log: log, updated: make(chan struct{}, 1)},
		dirty:  make(chan struct{}, 1), since: map[netip.Addr]time.Time{}, gone: make(chan struct{}),
		joined: make(chan struct{}),
	}
	s.seen, s.around = &sightings{wake: s.dirty, waiting: map[responder.Sighting]bool{}}, newVicinity(s.dirty)
	s.witness = newWitness(config, s.source, log, func(heard v1alpha1.NodeKubeProxy) {
		s.report.update(func(status *v1alpha1.NodeNetworkingStatus) { status.KubeProxy = heard })
	})
	return s
}

// Ready says whether the speaker knows the cluster, acts on it, and has said so once: what depends on its being ready may read its report.
// Later reports may fail, as what it does goes on without the API server.
func (s *Speaker) Ready() bool { return s.pulse.ready(time.Now()) && s.report.reported.Load() }

// Alive says whether the speaker does not hang.
func (s *Speaker) Alive() bool { return s.pulse.alive(time.Now()) }

// Run works until the context ends, and then hands over what it announces before it ends.
func (s *Speaker) Run(ended context.Context) error {
	// The work goes on for the moment that the departure takes.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ended))
	defer cancel()
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error {
		defer cancel()
		select {
		case <-ended.Done():
			s.depart(ctx)
		case <-ctx.Done(): // a task has failed
		}
		return nil
	})
	tasks.Go(func() error { return s.cache.Start(ctx) })
	tasks.Go(func() error { return links.Watch(ctx, s.dirty) })
	tasks.Go(func() error { return s.report.run(ctx) })
	tasks.Go(func() error { return s.around.run(ctx) })
	tasks.Go(func() error {
		if err := s.watchCluster(ctx); err != nil {
			return err // which ends the other tasks, and the program: it is started anew
		}
		if ctx.Err() != nil {
			return nil
		}
		s.complain(s.learn(ctx)) // it says where kube-proxy is asked
		tasks.Go(func() error { return s.witness.watchProxy(ctx) })
		tasks.Go(func() error { return s.witness.watchRules(ctx) })
		// Not before: to the others, who may not have noticed that this speaker was away, it would look as if it served what it did then.
		joined, err := s.join()
		if err != nil {
			return err
		}
		s.group = joined
		close(s.joined)
		tasks.Go(func() error { return s.group.Run(ctx, func() map[string]netip.AddrPort { return s.peers(ctx) }) })
		tasks.Go(func() error { return s.loop(ctx) })
		return nil
	})
	return tasks.Wait()
}

// watchCluster starts the informers, and returns once their caches are filled, or the context has ended.
func (s *Speaker) watchCluster(ctx context.Context) error {
	wakeUp := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { wake(s.dirty) },
		UpdateFunc: func(any, any) { wake(s.dirty) },
		DeleteFunc: func(any) { wake(s.dirty) },
	}
	for _, object := range []client.Object{&corev1.Service{}, &discoveryv1.EndpointSlice{}, &corev1.Node{}, &corev1.ConfigMap{}} {
		informer, err := s.cache.GetInformer(ctx, object)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("watching %T: %w", object, err)
		}
		if _, err := informer.AddEventHandler(wakeUp); err != nil {
			return fmt.Errorf("watching %T: %w", object, err)
		}
	}
	s.cache.WaitForCacheSync(ctx)
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

// loop makes a pass after every change. The first one waits for the other speakers: alone this one would take every address.
func (s *Speaker) loop(ctx context.Context) error {
	r := &responders{log: s.log, counters: s.metrics.counters(), failed: s.dirty, seen: s.see, tasks: map[string]*running{}, troubles: map[string]trouble{}}
	defer r.wait()
	select {
	case <-ctx.Done():
		return nil
	case <-s.group.Met():
	case <-time.After(meetWithin):
		s.log.Info("not all other speakers could be met in time; it is tried again")
	}
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		s.pulse.beat(time.Now())
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
		} else {
			s.pulse.pass(time.Now())
		}
		again.Reset(min(next, r.retryIn(time.Now()), s.retryIn(time.Now())))
		select { // let a burst of events gather
		case <-ctx.Done():
			return nil
		case <-time.After(coalesce):
		}
	}
}

// pass gathers, decides, applies and reports once. When it fails, what was decided before stays; but the others hear at once of segments on
// which this node answers no longer.
func (s *Speaker) pass(ctx context.Context, r *responders) error {
	interfaces, err := links.List()
	if err == nil {
		err = s.act(ctx, r, interfaces)
	}
	if err != nil {
		s.serve(slices.DeleteFunc(slices.Clone(s.served), func(segment membership.Segment) bool { return !r.answers(segment.Interface) }))
	}
	return err
}

// act decides and applies. The others are told last what this node serves and claims: then it answers for what they leave to it, and on an
// interface without a responder nothing is left to it.
func (s *Speaker) act(ctx context.Context, r *responders, interfaces []links.Interface) error {
	now := time.Now()
	r.sync(ctx, interfaces, now)
	configErr := s.learn(ctx)
	seen := observation{self: s.config.Node, interfaces: interfaces}
	if s.inForce == nil {
		s.serve(nil)
		s.group.Claim(nil)
		seen.members, seen.mute = s.group.Members(), r.reasons()
		s.publish(seen)
		return configErr
	}
	segments, fitErr := membership.Fit(segmentsOf(interfaces, func(name string) bool { return r.answers(name) && s.around.deaf(name) == "" }))
	snap, err := s.look(ctx, segments, neighboursOf(interfaces, s.group.Members()), r, now)
	if err != nil {
		return errors.Join(configErr, err)
	}
	hosts := hostsAround(interfaces, s.gateways(), snap)
	s.around.watch(hosts, r.asker())
	r.hear(listened(snap, hosts), now)
	verdicts := decide(snap)
	s.take(verdicts, now)
	s.apply(r, verdicts, snap, interfaces, segments, now)
	seen.generation, seen.verdicts, seen.since, seen.members, seen.mute = s.inForce.Generation, verdicts, s.since, snap.members, s.mute(r, interfaces)
	s.publish(seen)
	s.metrics.announced(len(s.since))
	s.complain(errors.Join(configErr, fitErr))
	return nil
}

// look gathers what is decided from: the cluster, the group, the wire. What others were seen to say is answered by announcing again.
func (s *Speaker) look(
	ctx context.Context, segments []membership.Segment, around neighbours, r *responders, now time.Time,
) (snapshot, error) {
	if s.claims == nil {
		s.claims = newClaims()
		s.claims.resume(s.group.Former())
	}
	for _, addr := range s.claims.see(s.seen.take(), around, now) {
		r.announce(addr, now)
	}
	s.claims.ends = time.Time{}
	members := maps.Clone(s.group.Members())
	members[s.config.Node] = membership.Member{Segments: segments, Claims: s.claims.told()}
	snap, err := s.source.snapshot(ctx, s.config.Node, *s.inForce, members)
	if err != nil {
		return snapshot{}, err
	}
	s.group.Forget(snap.lists)
	snap.lost, snap.epochs, snap.departing = s.group.Lost(), s.group.Epochs(), s.departing.Load()
	q := snap.quorum()
	snap.wire = s.around.wire(2*q.Heard == q.Known, now)
	if s.around.doubts(now) && snap.wire != election.Answered {
		s.around.askAll()
	}
	q.Wire = snap.wire
	s.claims.cutOff = !q.Suffices()
	snap.ask = func(addr netip.Addr, offered bool) (election.Fence, string) { return s.claims.ask(addr, offered, now) }
	return snap, nil
}

// apply makes the responders answer for what was decided, tells the others, and asks the wire about what is being taken over.
func (s *Speaker) apply(
	r *responders, verdicts []verdict, snap snapshot, interfaces []links.Interface, segments []membership.Segment, now time.Time,
) {
	again := s.claims.settle(verdicts, snap)
	s.seen.about(s.claims.addresses())
	r.own(byInterface(verdicts), now)
	s.serve(segments)
	s.group.Claim(s.claims.told())
	for _, addr := range again {
		r.announce(addr, now)
	}
	ask := append(s.claims.due(verdicts, neighboursOf(interfaces, nil), now), s.claims.doubts(verdicts, now)...)
	for _, v := range ask {
		r.probe(v.iface, v.addr, now)
	}
	if s.departing.Load() && len(s.claims.mine) == 0 {
		s.departed()
	}
}

// retryIn is when a pass has to be made again for the sake of what is being taken over.
func (s *Speaker) retryIn(now time.Time) time.Duration {
	switch {
	case s.claims == nil:
		return lookAgain
	case s.around.doubts(now):
		return min(askUrgently, s.claims.retryIn(now))
	}
	return s.claims.retryIn(now)
}

// learn takes over the configuration that is stored. One that cannot be read leaves the one before in force.
func (s *Speaker) learn(ctx context.Context) error {
	latest, err := s.source.configuration(ctx)
	if latest != nil {
		s.inForce = latest
		s.witness.askAt(latest.KubeProxyMetricsAddress)
	}
	return err
}

// serve tells the others which segments this node serves.
func (s *Speaker) serve(segments []membership.Segment) {
	s.served = segments
	s.group.Serve(segments)
}

// complain logs what a person has to mend while the speaker goes on, once.
func (s *Speaker) complain(err error) {
	complaint := ""
	if err != nil {
		complaint = err.Error()
	}
	if complaint != s.complaint && err != nil {
		s.log.Error(err, "something is left out; the rest goes on")
	}
	s.complaint = complaint
}

// segmentsOf returns what a node with these interfaces serves: those with carrier on which it answers.
func segmentsOf(interfaces []links.Interface, answers func(name string) bool) []membership.Segment {
	var segments []membership.Segment
	for _, i := range interfaces {
		var mac membership.MAC // zero for another kind than Ethernet
		if len(i.MAC) == len(mac) {
			mac = membership.MAC(i.MAC)
		}
		for _, p := range i.Addresses {
			if i.Carrier && answers(i.Name) {
				segments = append(segments, membership.Segment{Interface: i.Name, Prefix: p.Masked(), MAC: mac})
			}
		}
	}
	return segments
}

// take notes which addresses are ours now, and says what has changed.
func (s *Speaker) take(verdicts []verdict, now time.Time) {
	ours := map[netip.Addr]time.Time{}
	for _, v := range verdicts {
		if !v.answers() {
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

// byInterface groups the addresses that this node answers for.
func byInterface(verdicts []verdict) map[string][]netip.Addr {
	grouped := map[string][]netip.Addr{}
	for _, v := range verdicts {
		if v.answers() {
			grouped[v.iface] = append(grouped[v.iface], v.addr)
		}
	}
	return grouped
}

// see takes in what others say on the wire.
func (s *Speaker) see(sighting responder.Sighting) {
	s.around.heard(sighting, time.Now())
	s.seen.note(sighting)
}

// gateways are the routers of this node; none while they cannot be listed.
func (s *Speaker) gateways() []netip.Addr {
	gateways, err := links.Gateways()
	if err != nil {
		s.log.Error(err, "cannot tell whether the routers answer; it is tried again")
	}
	return gateways
}

// mute says what keeps interfaces with carrier from being of use, by name.
func (s *Speaker) mute(r *responders, interfaces []links.Interface) map[string]string {
	all := r.reasons()
	for _, i := range interfaces {
		if why := s.around.deaf(i.Name); why != "" && all[i.Name] == "" {
			all[i.Name] = why
		}
	}
	return all
}

// listened returns what is listened for: the pools, so that an address that moves here needs no new filter, the addresses that are still
// announced after their pool went, and the hosts around.
func listened(s snapshot, around []host) []responder.Range {
	var ranges []responder.Range
	for _, h := range around {
		ranges = append(ranges, responder.Range{First: h.addr, Last: h.addr})
	}
	for _, p := range s.pools {
		for _, r := range p.Ranges {
			ranges = append(ranges, responder.Range{First: r.First, Last: r.Last})
		}
	}
	for _, svc := range s.services {
		for a := range svc.draining {
			ranges = append(ranges, responder.Range{First: a, Last: a})
		}
	}
	return ranges
}

// publish reports an observation, keeping what is known of kube-proxy.
func (s *Speaker) publish(o observation) {
	status := statusOf(o)
	s.report.observe(func(latest *v1alpha1.NodeNetworkingStatus) {
		status.KubeProxy = latest.KubeProxy
		*latest = status
	})
}
