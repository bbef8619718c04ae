package speaker

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/internal/links"
	"github.com/lanyard-dev/lanyard/internal/membership"
)

// TestSegmentsOf: a node serves the addresses of its interfaces with carrier on which a responder runs.
func TestSegmentsOf(t *testing.T) {
	got := segmentsOf([]links.Interface{
		{Name: "bond0", Carrier: true, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.9/8"), netip.MustParsePrefix("fd00::9/64")}},
		{Name: "eth2", Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.1.7/24")}},
		{Name: "mute", Carrier: true, Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.2.7/24")}},
	}, func(name string, _ netip.Addr) bool { return name != "mute" })
	if diff := cmp.Diff([]membership.Segment{on("bond0", "10.0.0.9/8"), on("bond0", "fd00::9/64")}, got, compareValues); diff != "" {
		t.Errorf("segments (-want +got):\n%s", diff)
	}
}

// blind is a cache that runs and cannot watch, as when the API server does not say which kinds it has.
type blind struct{ cache.Cache }

var errBlind = errors.New("no kinds")

func (blind) Start(ctx context.Context) error { <-ctx.Done(); return nil }

func (blind) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, errBlind
}

// TestASpeakerThatCannotWatchEnds, so that it is started anew: it would never hear of a Service.
func TestASpeakerThatCannotWatchEnds(t *testing.T) {
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Node: "w1"}, blind{}, apiServer(t, onNode("w1")), nil, metrics, testr.New(t))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context()) }()
	select {
	case err := <-ended:
		if !errors.Is(err, errBlind) {
			t.Errorf("it ended with %v, want %v", err, errBlind)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it hangs")
	}
	if s.Ready() {
		t.Error("it says that it is ready")
	}
}

// filling is a cache that fills when filled is closed, and reads from a cluster then.
type filling struct {
	blind
	cluster client.Reader
	filled  chan struct{}
	// asked receives when the cache is waited for.
	asked chan struct{}
}

func (filling) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return quiet{}, nil
}

func (f filling) WaitForCacheSync(ctx context.Context) bool {
	f.asked <- struct{}{}
	return after(ctx, f.filled)
}

func (f filling) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	return f.cluster.Get(ctx, key, object, opts...)
}

func (f filling) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return f.cluster.List(ctx, list, opts...)
}

// quiet is an informer whose handlers hear nothing.
type quiet struct{ cache.Informer }

func (quiet) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return nil, nil
}

// TestASpeakerThatWaitsForTheClusterIsInNoGroup: it answers for nothing yet, and the others may still believe what it served before.
func TestASpeakerThatWaitsForTheClusterIsInNoGroup(t *testing.T) {
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	join := func() (*membership.Group, error) {
		t.Error("it joins the group")
		return nil, errors.New("no group")
	}
	c := filling{asked: make(chan struct{})}
	s := New(Config{Node: "w1"}, c, apiServer(t, onNode("w1")), join, metrics, testr.New(t))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-c.asked
	if s.Ready() || !s.Alive() {
		t.Errorf("ready: %v, alive: %v; it waits, and to start it anew would not help", s.Ready(), s.Alive())
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}
