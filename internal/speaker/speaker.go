package speaker

import (
	"context"
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
	"github.com/lanyard-dev/lanyard/internal/laststate"
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
	Answered(node string) time.Time
	Forget(keep func(node string) bool)
	Hold(ctx context.Context, d time.Duration) error
	Keys() [][]byte
	Rekey(keys [][]byte) error
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
	// StateFile keeps what the speaker decides from, for a start without the API server; empty: nothing is kept. Cluster identifies the cluster
	// there.
	StateFile, Cluster string
	// Keys is the folder in which the Secret with the membership's keys is mounted. Empty: the keys that the group began with stay.
	Keys string
	// TemplateGeneration is which revision of the DaemonSet's pod template this speaker's pod was made from; empty when that is not known.
	TemplateGeneration string
}

// coalesce is how long a pass waits for more events after the first: a burst of a hundred costs one pass.
const coalesce = 5 * time.Millisecond

// A pass that only the API server's news ask for waits until restsFor times the duration of the pass before have gone by, so that a thousand
// Services that get their addresses, or a roll of their pods, cost a fifth of a core at most; but no longer than restsAtMost. What the
// wire, the links and the other speakers say never waits.
const (
	restsFor    = 4
	restsAtMost = 250 * time.Millisecond
)

// lookAgain is when a pass is made without any event.
const lookAgain = 10 * time.Second

// meetWithin is how long the first pass waits until the other speakers have been met. Peers that do not answer may be dead.
const meetWithin = 3 * time.Second

// Speaker is the agent on one node.
type Speaker struct {
	config   Config
	cache    cache.Cache
	source   source
	view     *view
	join     func() (*membership.Group, error)
	group    group
	log      logr.Logger
	metrics  *Metrics
	report   *reporter
	witness  *witness
	recorder *recorder

	// dirty wakes the loop, and so does news: what the API server says.
	dirty, news chan struct{}
	// served are the segments that the others were told last.
	served []membership.Segment
	// complaint is what was logged last of what does not keep a pass from being made.
	complaint string
	// inForce is the last configuration that could be read; nil until there was one.
	inForce *settings
	// since is when each address of ours was taken over, moves how, and owners who answered for it before.
	since  map[netip.Addr]time.Time
	moves  map[netip.Addr]move
	owners owners
	// claims are what this node claims; nil until the first pass has taken up what the others have kept for it.
	claims  *claims
	seen    *sightings
	around  *vicinity
	silence *silence
	lookout *lookout
	pulse   pulse

	// departing is set when the speaker ends; gone is closed once it claims nothing then.
	departing atomic.Bool
	gone      chan struct{}
	// reassure asks the loop to answer once more those who asked for what this node announces; the loop closes what it receives when it has.
	reassure chan chan<- struct{}
	// joined is closed once the speaker is in the group.
	joined chan struct{}
	// unmet are the nodes whose speakers were in the group before this one started from the last state, and have not been heard since.
	unmet map[string]bool
}

// New makes a speaker. Run starts the cache, and joins the group of speakers once that is filled, or the last state stands in for it.
func New(
	config Config, c cache.Cache, writer client.Client, join func() (*membership.Group, error), metrics *Metrics, log logr.Logger,
) *Speaker {
	v := &view{caches: c}
	s := &Speaker{
		config: config, cache: c, source: source{reader: v, namespace: config.Namespace, digests: &digests{}}, view: v, join: join, log: log, metrics: metrics,
		report: &reporter{client: writer, node: config.Node, log: log, updated: make(chan struct{}, 1), hurry: make(chan struct{}, 1)},
		dirty:  make(chan struct{}, 1), news: make(chan struct{}, 1), gone: make(chan struct{}),
		since: map[netip.Addr]time.Time{}, moves: map[netip.Addr]move{}, owners: owners{},
		reassure: make(chan chan<- struct{}), joined: make(chan struct{}), unmet: map[string]bool{},
	}
	s.lookout, s.silence = newLookout(s.dirty), newSilence(s.dirty)
	s.seen, s.around = &sightings{wake: s.dirty, waiting: map[responder.Sighting]bool{}}, newVicinity(s.dirty)
	live := source{reader: c, namespace: config.Namespace}
	s.recorder = &recorder{file: laststate.File(config.StateFile), origin: laststate.Origin{Node: config.Node, Cluster: config.Cluster},
		source: live, server: writer, speakers: s.speakers, log: log, changed: make(chan struct{}, 1)}
	s.witness = newWitness(config, live, log, func(heard v1alpha1.NodeKubeProxy) {
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
	tasks.Go(func() error { return s.lookout.run(ctx) })
	tasks.Go(func() error { return s.silence.run(ctx) })
	tasks.Go(func() error { return s.begin(ctx, tasks) })
	return tasks.Wait()
}

// watchCluster starts the informers. It does not wait for the API server.
func (s *Speaker) watchCluster(ctx context.Context) error {
	wakeUp := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { wake(s.news) },
		UpdateFunc: func(any, any) { wake(s.news) },
		DeleteFunc: func(any) { wake(s.news) },
	}
	for _, object := range []client.Object{&corev1.Service{}, &discoveryv1.EndpointSlice{}, &corev1.Node{}, &corev1.ConfigMap{}} {
		informer, err := s.cache.GetInformer(ctx, object, cache.BlockUntilSynced(false))
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

// loop makes a pass after every change. The first one waits for the other speakers: alone this one would take every address.
func (s *Speaker) loop(ctx context.Context) error {
	r := newResponders(s.log, s.metrics.counters, s.see, s.dirty)
	defer r.wait()
	select {
	case <-ctx.Done():
		return nil
	case <-s.group.Met():
	case <-time.After(meetWithin):
		s.log.Info("not all other speakers could be met in time; it is tried again")
	}
	again, rested := time.NewTimer(0), time.NewTimer(0)
	defer again.Stop()
	defer rested.Stop()
	var news <-chan struct{} // nil while they wait
	for {
		s.pulse.beat(time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-s.dirty:
		case <-s.group.Changed():
		case <-again.C:
		case <-news:
		case <-rested.C:
			news = s.news
			continue
		case done := <-s.reassure:
			r.reassure(ctx)
			close(done)
			continue
		}
		begun := time.Now()
		next := s.next(ctx, r)
		news = nil
		rested.Reset(min(restsFor*time.Since(begun), restsAtMost))
		again.Reset(min(next, r.retryIn(time.Now()), s.retryIn(time.Now())))
		select { // let a burst of events gather
		case <-ctx.Done():
			return nil
		case <-time.After(coalesce):
		}
	}
}

// next makes a pass, and says when another has to be made without any event.
func (s *Speaker) next(ctx context.Context, r *responders) time.Duration {
	if err := s.pass(ctx, r); err != nil && ctx.Err() == nil {
		s.log.Error(err, "a pass failed, what was announced goes on; it is tried again")
		return retryAfter
	}
	s.pulse.pass(time.Now())
	wake(s.recorder.changed)
	return lookAgain
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
