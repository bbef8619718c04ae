package speaker

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// clusterIP is a Service with these addresses and one TCP port.
func clusterIP(namespace, name string, port int32, addrs ...string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	svc.Spec = corev1.ServiceSpec{ClusterIP: addrs[0], ClusterIPs: addrs, Ports: []corev1.ServicePort{{Port: port}}}
	return svc
}

// speakerOn says that a speaker runs on the node.
func speakerOn(node string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "lanyard-system", Name: "lanyard-speaker-" + node,
			Labels: map[string]string{discoveryv1.LabelServiceName: v1alpha1.SpeakerService}},
		Endpoints: []discoveryv1.Endpoint{{NodeName: ptr.To(node), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
	}
}

func TestTargets(t *testing.T) {
	ports := func(texts ...string) []netip.AddrPort {
		var all []netip.AddrPort
		for _, text := range texts {
			all = append(all, netip.MustParseAddrPort(text))
		}
		return all
	}
	kubernetes := clusterIP("default", "kubernetes", 443, "10.96.0.1", "fd00::1")
	kubernetes.Spec.Ports = append(kubernetes.Spec.Ports, corev1.ServicePort{Port: 53, Protocol: corev1.ProtocolUDP}, corev1.ServicePort{Port: 80})
	apiServers := target{name: "default/kubernetes", to: ports("10.96.0.1:80", "10.96.0.1:443", "[fd00::1]:80", "[fd00::1]:443")}
	speakers := clusterIP("lanyard-system", "lanyard-speaker", 7957, "10.96.7.7", "fd00::7")
	own := target{name: "lanyard-system/lanyard-speaker", to: ports("10.96.7.7:7957")}
	for name, tc := range map[string]struct {
		objects []client.Object
		want    []target
	}{
		"every TCP port of every address; of the speakers' own Service in the family of the node": {
			objects: []client.Object{kubernetes, speakers, speakerOn("w2"), speakerOn("w1")}, want: []target{apiServers, own}},
		"the speakers' own Service is not there yet": {objects: []client.Object{kubernetes}, want: []target{apiServers}},
		"it leads nowhere on this node yet":          {objects: []client.Object{kubernetes, speakers, speakerOn("w2")}, want: []target{apiServers}},
		"it was made headless by somebody":           {objects: []client.Object{clusterIP("lanyard-system", "lanyard-speaker", 7957, "None"), speakerOn("w1")}},
		"there is nothing":                           {},
	} {
		t.Run(name, func(t *testing.T) {
			s := source{reader: fake.NewClientBuilder().WithObjects(tc.objects...).Build(), namespace: "lanyard-system"}
			got, err := s.targets(t.Context(), "w1", netip.MustParseAddr("192.168.1.7"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(target{}), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
		})
	}
}

// wires are a network where connections to an address fail a number of times before one is made.
type wires struct {
	mu       sync.Mutex
	failures map[string]int
	tries    int
	took     time.Duration
}

func (w *wires) dial(ctx context.Context, to netip.AddrPort) error {
	w.mu.Lock()
	w.tries++
	w.failures[to.String()]--
	fails := w.failures[to.String()] >= 0
	w.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(w.took):
	}
	if fails {
		return &net.OpError{Op: "dial", Err: errors.New("connect: connection refused")}
	}
	return nil
}

func TestCheck(t *testing.T) {
	two := []target{
		{name: "default/kubernetes", to: []netip.AddrPort{netip.MustParseAddrPort("10.96.0.1:443"), netip.MustParseAddrPort("[fd00::1]:443")}},
		{name: "ns/own", to: []netip.AddrPort{netip.MustParseAddrPort("10.96.7.7:7957")}},
	}
	passed := func(name string) v1alpha1.NodeCheck {
		return v1alpha1.NodeCheck{Name: name, Result: v1alpha1.CheckPassed}
	}
	failed := func(name, what string) v1alpha1.NodeCheck {
		return v1alpha1.NodeCheck{Name: name, Result: v1alpha1.CheckFailed,
			Message: "no connection to " + what + ": see the log of kube-proxy on this node, whose rules lead there"}
	}
	for name, tc := range map[string]struct {
		failures map[string]int
		took     time.Duration
		want     []v1alpha1.NodeCheck
		wantTook time.Duration
	}{
		"all are reached, at once": {took: 300 * time.Millisecond, wantTook: 300 * time.Millisecond,
			want: []v1alpha1.NodeCheck{passed("default/kubernetes"), passed("ns/own")}},
		"one of three endpoints is down": {failures: map[string]int{"10.96.0.1:443": 1},
			want: []v1alpha1.NodeCheck{passed("default/kubernetes"), passed("ns/own")}},
		"one address leads nowhere": {failures: map[string]int{"[fd00::1]:443": 9},
			want: []v1alpha1.NodeCheck{failed("default/kubernetes", "[fd00::1]:443 (connect: connection refused)"), passed("ns/own")}},
		"nothing is answered: each try has its second": {took: time.Hour, wantTook: checkTries * checkTimeout,
			want: []v1alpha1.NodeCheck{
				failed("default/kubernetes", "10.96.0.1:443 (context deadline exceeded), [fd00::1]:443 (context deadline exceeded)"),
				failed("ns/own", "10.96.7.7:7957 (context deadline exceeded)")}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wires{failures: tc.failures, took: tc.took}
				if w.failures == nil {
					w.failures = map[string]int{}
				}
				start := time.Now()
				if diff := cmp.Diff(tc.want, check(t.Context(), two, w.dial)); diff != "" {
					t.Errorf("checks (-want +got):\n%s", diff)
				}
				if took := time.Since(start); took != tc.wantTook {
					t.Errorf("they took %v, want %v", took, tc.wantTook)
				}
			})
		})
	}
}

// TestConnect makes real connections: one to a listener, one to where there is none.
func TestConnect(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to := netip.MustParseAddrPort(listener.Addr().String())
	if err := connect(t.Context(), to); err != nil {
		t.Errorf("to a listener: %v", err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := connect(t.Context(), to); err == nil || cause(err) != "connect: connection refused" {
		t.Errorf("to where there is none: %v", err)
	}
}

func TestCheckPause(t *testing.T) {
	good := []v1alpha1.NodeCheck{{Result: v1alpha1.CheckPassed}}
	bad := []v1alpha1.NodeCheck{{Result: v1alpha1.CheckPassed}, {Result: v1alpha1.CheckFailed}}
	for name, tc := range map[string]struct {
		rules  v1alpha1.RulesState
		checks []v1alpha1.NodeCheck
		want   time.Duration
	}{
		"all is well":                         {rules: v1alpha1.RulesWritten, checks: good, want: 10 * time.Second},
		"nothing could be tried":              {rules: v1alpha1.RulesWritten, want: 2 * time.Second},
		"one fails":                           {rules: v1alpha1.RulesWritten, checks: bad, want: 2 * time.Second},
		"rules are to be written":             {rules: v1alpha1.RulesPending, checks: good, want: 2 * time.Second},
		"kube-proxy does not say if they are": {checks: good, want: 2 * time.Second},
	} {
		if got := checkPause(tc.rules, tc.checks); got != tc.want {
			t.Errorf("%s: pause is %v, want %v", name, got, tc.want)
		}
	}
}
