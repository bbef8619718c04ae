package speaker

import (
	"context"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/laststate"
	"github.com/lanyard-dev/lanyard/internal/membership"
)

// wholeCluster is one in which all that is decided from occurs.
func wholeCluster() []client.Object {
	configured := stored()
	configured.Data[v1alpha1.AwayKey] = "w2"
	local := balancer("local", "192.168.1.201")
	local.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	classy := balancer("classy", "192.168.1.202")
	classy.Spec.LoadBalancerClass = ptr.To("example.com/other")
	labelled, lost := onNode("w1", "192.168.1.1"), onNode("w2", "192.168.1.2", "fd00::2")
	labelled.Labels = map[string]string{"rack": "1"}
	lost.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", LastHeartbeatTime: metav1.Now()},
		{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue}}
	return []client.Object{
		configured, given(balancer("given", "10.9.9.9"), "10.9.9.9=old-pool"), local, classy, balancer("waits"), balancer("plain", "192.168.1.200"),
		slice("local-4", "local", endpoint("w1", ptr.To(true), nil), endpoint("w2", ptr.To(false), ptr.To(true))),
		slice("plain-4", "plain", endpoint("w2", nil, nil)), labelled, lost,
	}
}

// facts are all that a speaker decides from, as a source has it.
type facts struct {
	Settings *settings
	Snapshot snapshot
	Peers    map[string]netip.AddrPort
}

func factsOf(t *testing.T, reader client.Reader) facts {
	t.Helper()
	s := source{reader: reader, namespace: "lanyard-system"}
	in, err := s.configuration(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	snap, err := s.snapshot(t.Context(), "w1", *in, map[string]membership.Member{})
	if err != nil {
		t.Fatal(err)
	}
	peers, err := s.peers(t.Context(), "w1", 7956)
	if err != nil {
		t.Fatal(err)
	}
	return facts{Settings: in, Snapshot: snap, Peers: peers}
}

// TestTheLastStateHasAllThatIsDecidedFrom: what is gathered from it, once it was on the disk, is what was gathered from the cluster.
func TestTheLastStateHasAllThatIsDecidedFrom(t *testing.T) {
	cluster := fake.NewClientBuilder().WithObjects(wholeCluster()...).Build()
	state, err := source{reader: cluster, namespace: "lanyard-system"}.lasting(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := laststate.Encode(state)
	if err != nil {
		t.Fatal(err)
	}
	if state, err = laststate.Decode(text); err != nil {
		t.Fatal(err)
	}
	v := &view{caches: fake.NewFakeClient()}
	v.last.Store(&recalled{state: state})
	want := factsOf(t, cluster)
	options := cmp.Options{compareValues, cmp.AllowUnexported(settings{}, snapshot{})}
	if len(want.Snapshot.services) != 3 || len(want.Snapshot.nodes) != 2 || len(want.Peers) != 1 {
		t.Fatalf("the cluster of this test is not as it was meant: %+v", want)
	}
	for range 2 { // that it is read changes nothing of it
		if diff := cmp.Diff(want, factsOf(t, v), options); diff != "" {
			t.Errorf("from the last state (-from the cluster +from the last state):\n%s", diff)
		}
	}
}

// TestTheLastStateSaysWhatItDoesNotKeep, rather than that there is none.
func TestTheLastStateSaysWhatItDoesNotKeep(t *testing.T) {
	r := &recalled{state: laststate.State{Services: []corev1.Service{*balancer("web")}}}
	for what, read := range map[string]func(context.Context) error{
		"a Service": func(ctx context.Context) error {
			return r.Get(ctx, client.ObjectKey{Namespace: "ns", Name: "web"}, &corev1.Service{})
		},
		"pods": func(ctx context.Context) error { return r.List(ctx, &corev1.PodList{}) },
		"the Services of a namespace": func(ctx context.Context) error {
			return r.List(ctx, &corev1.ServiceList{}, client.InNamespace("ns"))
		},
	} {
		if err := read(t.Context()); err == nil || client.IgnoreNotFound(err) == nil {
			t.Errorf("reading %s: error is %v; it has to be one, and another than that there is none", what, err)
		}
	}
	err := r.Get(t.Context(), client.ObjectKey{Namespace: "lanyard-system", Name: v1alpha1.ConfigurationConfigMap}, &corev1.ConfigMap{})
	if err == nil || client.IgnoreNotFound(err) != nil {
		t.Errorf("reading a configuration that was not there: error is %v", err)
	}
}

// TestLasting: what changes at every write and says nothing is not kept, nor what is not decided from.
func TestLasting(t *testing.T) {
	cluster := fake.NewClientBuilder().WithObjects(wholeCluster()...).Build() // which sets resource versions
	before, err := source{reader: cluster, namespace: "lanyard-system"}.lasting(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var nodes corev1.NodeList
	var endpoints discoveryv1.EndpointSlice
	if err := cluster.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		for j := range nodes.Items[i].Status.Conditions {
			nodes.Items[i].Status.Conditions[j].LastHeartbeatTime = metav1.Now()
		}
		if err := cluster.Update(t.Context(), &nodes.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "plain-4"}, &endpoints); err != nil {
		t.Fatal(err)
	}
	endpoints.Endpoints = nil // of a Service that is announced from wherever
	if err := cluster.Update(t.Context(), &endpoints); err != nil {
		t.Fatal(err)
	}
	after, err := source{reader: cluster, namespace: "lanyard-system"}.lasting(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asText(t, before), asText(t, after)); diff != "" {
		t.Errorf("what is kept has changed (-before +after):\n%s", diff)
	}
	var kept []string
	for _, svc := range after.Services {
		kept = append(kept, svc.Name)
	}
	for _, es := range after.EndpointSlices {
		kept = append(kept, es.Name)
	}
	if diff := cmp.Diff([]string{"classy", "given", "local", "plain", "local-4"}, kept); diff != "" {
		t.Errorf("Services and EndpointSlices that are kept (-want +got):\n%s", diff)
	}
}

func asText(t *testing.T, s laststate.State) string {
	t.Helper()
	text, err := laststate.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
