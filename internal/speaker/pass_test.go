package speaker

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/links"
	"github.com/lanyard-dev/lanyard/internal/membership"
)

// gossip is a group without others. It notes what it is told.
type gossip struct {
	met      chan struct{}
	served   []membership.Segment
	onServed func([]membership.Segment)
	// claims are what the node claims, and onHeld is called when it says that it answers for something.
	claims map[netip.Addr]membership.Claim
	onHeld func()
	former map[netip.Addr]membership.Claim
	others map[string]membership.Member
}

func (g *gossip) Members() map[string]membership.Member {
	members := maps.Clone(g.others)
	if members == nil {
		members = map[string]membership.Member{}
	}
	members["w1"] = membership.Member{} // of what it has just been told it hears later
	return members
}

func (g *gossip) Claim(claims map[netip.Addr]membership.Claim) {
	g.claims = claims
	for _, c := range claims {
		if c.Stage == membership.Held && g.onHeld != nil {
			g.onHeld()
		}
	}
}

func (g *gossip) Former() map[netip.Addr]membership.Claim { return g.former }

func (g *gossip) Epochs() map[netip.Addr]uint64 { return nil }

func (g *gossip) Lost() []string { return nil }

func (g *gossip) Answered(string) time.Time { return time.Time{} }

func (g *gossip) Forget(func(string) bool) {}

func (g *gossip) Hold(context.Context, time.Duration) error { return nil }

func (g *gossip) Serve(segments []membership.Segment) {
	g.served = segments
	if g.onServed != nil {
		g.onServed(segments)
	}
}

func (g *gossip) Keys() [][]byte { return nil }

func (g *gossip) Rekey([][]byte) error { return nil }

func (g *gossip) Changed() <-chan struct{} { return nil }

func (g *gossip) Met() <-chan struct{} { return g.met }

func (g *gossip) Run(ctx context.Context, _ func() map[string]netip.AddrPort) error {
	<-ctx.Done()
	return nil
}

// shaky reads from a cluster until it fails.
type shaky struct {
	client.Reader
	err error
}

func (s *shaky) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if s.err != nil {
		return s.err
	}
	return s.Reader.List(ctx, list, opts...)
}

// newSpeaker is the one of w1.
func newSpeaker(t *testing.T, reader client.Reader, g group) *Speaker {
	t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Node: "w1", Namespace: "lanyard-system"}, nil, nil, nil, metrics, testr.New(t))
	s.source.reader, s.group = reader, g
	return s
}

// stored is the configuration in force: one pool, announced on one interface.
func stored() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "lanyard-system", Name: v1alpha1.ConfigurationConfigMap},
		Data: map[string]string{v1alpha1.ConfigurationKey: "generation: 7\n" +
			"ipPools: [{name: lan-pool, addresses: [192.168.1.200-192.168.1.210]}]\nl2Advertisements: [{name: lan-l2, interfaces: [near]}]"},
	}
}

// TestTheOthersHearOnlyWhatIsAnswered: what the others hear a node serve they leave to it at once. It answers before they hear it, and they
// hear of no interface where it does not: without a configuration, without a responder, whatever else fails at the same time.
func TestTheOthersHearOnlyWhatIsAnswered(t *testing.T) {
	inNewNetwork(t)
	near := cable(t)
	ip(t, "address", "add", "192.168.1.7/24", "dev", "near")
	r, _ := someResponders(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer r.wait()
	defer cancel()
	cluster := fake.NewFakeClient(onNode("w1"), balancer("web", "192.168.1.200"))
	reader, g := &shaky{Reader: cluster}, &gossip{}
	s := newSpeaker(t, reader, g)

	interfaces, err := links.List()
	if err != nil {
		t.Fatal(err)
	}
	both := segmentsOf(interfaces, func(string, netip.Addr) bool { return true }) // far and near
	fails, mute := errors.New("no answer"), errors.New("operation not permitted")
	for _, step := range []struct {
		what   string
		before func()
		onHeld func()
		err    error
		served []membership.Segment
		ours   int
	}{
		{what: "there is no configuration yet", before: func() {}},
		{what: "it takes the address over, and answers when the others hear it",
			before: func() {
				if err := cluster.Create(ctx, stored()); err != nil {
					t.Fatal(err)
				}
			},
			onHeld: func() { awaitAnswer(t, "192.168.1.200", near.MAC) },
			served: both, ours: 1},
		{what: "a newer manager stores what it cannot read: the configuration before stays in force, and that is no failure",
			before: func() {
				newer := stored()
				newer.Data[v1alpha1.ConfigurationKey] = "fromTheFuture: true"
				if err := cluster.Update(ctx, newer); err != nil {
					t.Fatal(err)
				}
			},
			served: both, ours: 1},
		{what: "the cluster cannot be read: all stays as it is",
			before: func() { reader.err = fails }, err: fails, served: both, ours: 1},
		{what: "a responder fails meanwhile: the others hear it all the same",
			before: func() {
				r.stop(outlet{"near", byARP}, r.tasks[outlet{"near", byARP}])
				r.fail(outlet{"near", byARP}, mute, time.Now(), time.Now())
			},
			err: fails, served: both[:1], ours: 1},
		{what: "the cluster can be read again, the responder still fails",
			before: func() { reader.err = nil }, served: both[:1]},
		{what: "it is opened again",
			before: func() { r.troubles[outlet{"near", byARP}] = trouble{} }, served: both, ours: 1},
	} {
		step.before()
		g.onHeld = step.onHeld
		for late := time.Now().Add(5 * time.Second); ; {
			if err := s.pass(ctx, r); !errors.Is(err, step.err) {
				t.Errorf("%s: error is %v, want %v", step.what, err, step.err)
			}
			if len(s.since) == step.ours || time.Now().After(late) {
				break
			}
			time.Sleep(s.retryIn(time.Now())) // the wire is being asked
		}
		if diff := cmp.Diff(step.served, g.served, compareValues); diff != "" {
			t.Errorf("%s: what the others hear (-want +got):\n%s", step.what, diff)
		}
		if len(s.since) != step.ours {
			t.Errorf("%s: it has %v, want %d addresses", step.what, s.since, step.ours)
		}
	}
}

// TestTheFirstPassWaitsForTheOthers: before it has met them a speaker would take itself for alone, and take every address over. Peers that do
// not answer do not keep it for long.
func TestTheFirstPassWaitsForTheOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		meet time.Duration // never when it is 0
		want time.Duration
	}{
		"it meets them":        {meet: time.Second, want: time.Second},
		"it never meets a few": {want: meetWithin},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inNewNetwork(t) // without an interface: nothing here waits for the network
				ctx, cancel := context.WithCancel(t.Context())
				g := &gossip{met: make(chan struct{})}
				start := time.Now()
				var took time.Duration
				g.onServed = func([]membership.Segment) { took = time.Since(start); cancel() }
				if tc.meet > 0 {
					time.AfterFunc(tc.meet, func() { close(g.met) })
				}
				if err := newSpeaker(t, fake.NewFakeClient(stored()), g).loop(ctx); err != nil {
					t.Error(err)
				}
				if took != tc.want {
					t.Errorf("its first pass came after %v, want %v", took, tc.want)
				}
			})
		})
	}
}
