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
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/internal/links"
	"github.com/lanyard-dev/lanyard/internal/membership"
)

// TestSegmentsOf: a node serves the subnets of its interfaces with carrier on which a responder runs.
func TestSegmentsOf(t *testing.T) {
	got := segmentsOf([]links.Interface{
		{Name: "bond0", Carrier: true, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.9/8"), netip.MustParsePrefix("fd00::9/64")}},
		{Name: "eth2", Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.1.7/24")}},
		{Name: "mute", Carrier: true, Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.2.7/24")}},
	}, func(name string) bool { return name != "mute" })
	if diff := cmp.Diff([]membership.Segment{on("bond0", "10.0.0.0/8"), on("bond0", "fd00::/64")}, got, compareValues); diff != "" {
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

// waiting is a cache that never fills, as when the API server is away.
type waiting struct {
	blind
	asked chan struct{}
}

func (w waiting) GetInformer(ctx context.Context, _ client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	close(w.asked)
	<-ctx.Done()
	return nil, ctx.Err()
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
	c := waiting{asked: make(chan struct{})}
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
