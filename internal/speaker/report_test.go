package speaker

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/election"
	"github.com/lanyard-dev/lanyard/internal/links"
	"github.com/lanyard-dev/lanyard/internal/membership"
)

func TestStatusOf(t *testing.T) {
	since := time.Date(2026, 7, 1, 12, 0, 0, 123456789, time.FixedZone("CEST", 7200))
	got := statusOf(observation{
		self: "w1", generation: 7,
		interfaces: []links.Interface{
			{Name: "eth0", Index: 2, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, Carrier: true,
				Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.1.7/24"), netip.MustParsePrefix("fd00::7/64")}},
			{Name: "eth1", Index: 3, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}},
			{Name: "eth2", Index: 4, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 3}, Carrier: true, Addresses: []netip.Prefix{netip.MustParsePrefix("10.8.0.7/16")}},
		},
		mute: map[outlet]string{{"eth2", byARP}: "opening the ARP socket: operation not permitted"},
		verdicts: []verdict{
			nobody("10.8.9.9", election.NoCandidate, "no node can announce it: 1 without an interface (w1)"),
			nobody("10.9.9.9", election.NoCandidate, "no node can announce it: there are no nodes"),
			{addr: netip.MustParseAddr("192.168.1.200"), iface: "eth0",
				decision: election.Decision{Node: "w1", Reason: election.ElectedExcluded, Message: "unusual",
					Claim: election.Claim{Epoch: 1, Stage: election.Held}}},
			elected("192.168.1.201", "w2", ""),
		},
		since:   map[netip.Addr]time.Time{netip.MustParseAddr("192.168.1.200"): since},
		members: map[string]membership.Member{"w2": {}, "w1": {}, "cp": {}},
	})
	want := v1alpha1.NodeNetworkingStatus{
		ConfigurationGeneration: 7,
		Interfaces: []v1alpha1.NodeInterface{
			{Name: "eth0", MAC: "02:00:00:00:00:01", Addresses: []string{"192.168.1.7/24", "fd00::7/64"}, Carrier: v1alpha1.CarrierUp},
			{Name: "eth1", MAC: "02:00:00:00:00:02", Carrier: v1alpha1.CarrierDown},
			{Name: "eth2", MAC: "02:00:00:00:00:03", Addresses: []string{"10.8.0.7/16"}, Carrier: v1alpha1.CarrierUp,
				Message: "opening the ARP socket: operation not permitted"},
		},
		Announced: []v1alpha1.AnnouncedIP{{IP: "192.168.1.200", Interface: "eth0", MAC: "02:00:00:00:00:01",
			Since: metav1.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC), Reason: "ElectedExcluded", Message: "unusual"}},
		AnnouncedCount: 1,
		Unannounced: []v1alpha1.UnannouncedIP{
			{IP: "10.8.9.9", Reason: "NoCandidate", Message: "no node can announce it: 1 without an interface (w1); " +
				"w1 cannot answer on eth2: opening the ARP socket: operation not permitted"},
			{IP: "10.9.9.9", Reason: "NoCandidate", Message: "no node can announce it: there are no nodes"},
		},
		UnannouncedCount: 2,
		Peers:            []string{"cp", "w2"},
		PeersCount:       2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// TestAReportFitsIntoEtcd, which stores no more than 1.5 MiB as one value, whatever the cluster holds. What is not listed is counted.
func TestAReportFitsIntoEtcd(t *testing.T) {
	o := observation{self: "w1", members: map[string]membership.Member{}}
	sentence := strings.Repeat("because of this; ", 60) // five names of nodes for each of five obstacles
	for i := range 10_000 {
		a := netip.AddrFrom4([4]byte{192, 168, byte(i >> 8), byte(i)})
		ours, nobodys := held(a.String(), "w1", "enp129s0f0np0.4000"), nobody(a.String(), election.NoCandidate, sentence)
		ours.decision.Reason, ours.decision.Message = election.ElectedExcluded, sentence[:150]
		o.verdicts = append(o.verdicts, ours, nobodys)
	}
	got := statusOf(o)
	stored, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	const etcdTakes, theRest = 3 << 19, 64 << 10
	if len(stored) > etcdTakes-theRest {
		t.Errorf("the report has %d bytes, want at most %d", len(stored), etcdTakes-theRest)
	}
	counts := []int{len(got.Announced), int(got.AnnouncedCount), len(got.Unannounced), int(got.UnannouncedCount)}
	if diff := cmp.Diff([]int{v1alpha1.AnnouncedLimit, 10_000, v1alpha1.UnannouncedLimit, 10_000}, counts); diff != "" {
		t.Errorf("listed and counted (-want +got):\n%s", diff)
	}
}

// apiServer holds the objects.
func apiServer(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.NodeNetworking{}).Build()
}

// awaitReport waits until the node's report says this.
func awaitReport(t *testing.T, c client.Client, want v1alpha1.NodeNetworkingStatus) *v1alpha1.NodeNetworking {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		var got v1alpha1.NodeNetworking
		err := c.Get(t.Context(), client.ObjectKey{Name: "w1"}, &got)
		diff := cmp.Diff(want, got.Status)
		if err == nil && diff == "" {
			return &got
		}
		if time.Now().After(deadline) {
			t.Fatalf("error is %v, report (-want +got):\n%s", err, diff)
		}
	}
}

// TestReportsUntilTheEnd: the report is made with the Node as its owner, it follows what changes, and its last word is that nothing is
// announced any more.
func TestReportsUntilTheEnd(t *testing.T) {
	c := apiServer(t, onNode("w1"))
	r := &reporter{client: c, node: "w1", log: testr.New(t), updated: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.run(ctx) }()

	want := v1alpha1.NodeNetworkingStatus{Peers: []string{"w2"}, PeersCount: 1}
	r.observe(func(status *v1alpha1.NodeNetworkingStatus) { *status = want })
	made := awaitReport(t, c, want)
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "w1", UID: "uid"}}
	if diff := cmp.Diff(owner, made.OwnerReferences); diff != "" {
		t.Errorf("owner (-want +got):\n%s", diff)
	}

	announcing := want
	announcing.Announced, announcing.AnnouncedCount = []v1alpha1.AnnouncedIP{{IP: "192.168.1.200", Interface: "eth0"}}, 1
	r.update(func(status *v1alpha1.NodeNetworkingStatus) { *status = announcing })
	awaitReport(t, c, announcing)

	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	awaitReport(t, c, want)
}

// TestAReportThatFailsIsWrittenLater: here the Node, which has to own it, comes after the speaker.
func TestAReportThatFailsIsWrittenLater(t *testing.T) {
	c := apiServer(t)
	r := &reporter{client: c, node: "w1", log: testr.New(t), updated: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.run(ctx) }()
	want := v1alpha1.NodeNetworkingStatus{ConfigurationGeneration: 7}
	r.observe(func(status *v1alpha1.NodeNetworkingStatus) { *status = want })
	if err := c.Create(t.Context(), onNode("w1")); err != nil {
		t.Fatal(err)
	}
	awaitReport(t, c, want)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// TestAnOutageIsLoggedOnce, and the next one again.
func TestAnOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		asked, refuses := 0, true
		c := interceptor.NewClient(apiServer(t, onNode("w1")), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
				asked++
				if refuses {
					return errAway
				}
				return c.Get(ctx, key, into, opts...)
			}})
		r := &reporter{client: c, node: "w1", log: funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}), updated: make(chan struct{}, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.run(ctx) }()
		for outage := range int64(2) {
			refuses = true
			r.observe(func(status *v1alpha1.NodeNetworkingStatus) { status.ConfigurationGeneration = outage + 1 })
			time.Sleep(time.Hour)
			if asked < 3000 {
				t.Errorf("it has tried %d times in an hour", asked)
			}
			if len(lines) != int(outage)+1 {
				t.Errorf("after outage %d the log has %d lines: %q", outage+1, len(lines), lines)
			}
			refuses, asked = false, 0
			time.Sleep(time.Minute)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

// TestNothingIsReportedBeforeTheFirstPass: what kube-proxy says waits for it. Alone it would say that this node hears nobody, and others
// would be taken for silent.
func TestNothingIsReportedBeforeTheFirstPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apiServer(t, onNode("w1"))
		r := &reporter{client: c, node: "w1", log: testr.New(t), updated: make(chan struct{}, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.run(ctx) }()
		r.update(func(status *v1alpha1.NodeNetworkingStatus) { status.KubeProxy.Mode = "ipvs" })
		time.Sleep(time.Minute)
		var none v1alpha1.NodeNetworking
		if err := c.Get(ctx, client.ObjectKey{Name: "w1"}, &none); err == nil || r.reported.Load() {
			t.Errorf("it reported %v", none.Status)
		}
		r.observe(func(status *v1alpha1.NodeNetworkingStatus) { status.Peers, status.PeersCount = []string{"w2"}, 1 })
		synctest.Wait()
		awaitReport(t, c, v1alpha1.NodeNetworkingStatus{KubeProxy: v1alpha1.NodeKubeProxy{Mode: "ipvs"}, Peers: []string{"w2"}, PeersCount: 1})
		if !r.reported.Load() {
			t.Error("it has reported, and says that it has not")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

// TestWhatAServiceWaitsForIsReportedAtOnce: which addresses are free, and which a foreign host has. Other changes wait for their turn.
func TestWhatAServiceWaitsForIsReportedAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.NodeNetworkingStatus)
		at     time.Duration
	}{
		"free addresses": {func(s *v1alpha1.NodeNetworkingStatus) { s.Free = []string{"192.168.1.200-192.168.1.210"} }, 0},
		"a foreign host": {func(s *v1alpha1.NodeNetworkingStatus) { s.Foreign = []v1alpha1.ForeignIP{{IP: "192.168.1.200"}} }, 0},
		"a peer":         {func(s *v1alpha1.NodeNetworkingStatus) { s.Peers = []string{"w2"} }, reportEvery},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := apiServer(t, onNode("w1"))
				r := &reporter{client: c, node: "w1", log: testr.New(t), updated: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- r.run(ctx) }()
				r.observe(func(s *v1alpha1.NodeNetworkingStatus) { s.ConfigurationGeneration = 7 })
				synctest.Wait()
				start := time.Now()
				want := v1alpha1.NodeNetworkingStatus{ConfigurationGeneration: 7}
				tc.change(&want)
				r.observe(func(s *v1alpha1.NodeNetworkingStatus) { *s = want })
				synctest.Wait()
				awaitReport(t, c, want)
				if at := time.Since(start).Truncate(100 * time.Millisecond); at != tc.at {
					t.Errorf("reported after %v, want %v", at, tc.at)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Errorf("it ended with %v", err)
				}
			})
		})
	}
}

// TestASpeakerIsReadyOnceItHasReported: who waits until it is ready, as a person does after an installation, may then read who announces.
func TestASpeakerIsReadyOnceItHasReported(t *testing.T) {
	s := newSpeaker(t, nil, nil)
	s.pulse.pass(time.Now())
	if s.Ready() {
		t.Error("it is ready before its report is written")
	}
	s.report.reported.Store(true)
	if !s.Ready() {
		t.Error("it is not ready though its report is written")
	}
}
