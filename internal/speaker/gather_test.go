package speaker

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// endpoint is one on a node; its conditions are nil where nothing is said.
func endpoint(node string, ready, serving *bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: ready, Serving: serving}}
	if node != "" {
		e.NodeName = &node
	}
	return e
}

func TestNodesWith(t *testing.T) {
	yes, no := ptr.To(true), ptr.To(false)
	for name, tc := range map[string]struct {
		endpoints []discoveryv1.Endpoint
		want      map[string]bool
	}{
		"no endpoint": {want: map[string]bool{}},
		"a ready one, and one of which nothing is said, count": {
			endpoints: []discoveryv1.Endpoint{endpoint("a", yes, yes), endpoint("b", nil, nil)}, want: map[string]bool{"a": true, "b": true}},
		"one that is not ready does not": {
			endpoints: []discoveryv1.Endpoint{endpoint("a", no, no), endpoint("b", no, nil)}, want: map[string]bool{}},
		"one that still serves while it ends stands in when none is ready anywhere": {
			endpoints: []discoveryv1.Endpoint{endpoint("a", no, yes), endpoint("b", no, no)}, want: map[string]bool{"a": true}},
		"one that still serves while it ends gives way to one that is ready": {
			endpoints: []discoveryv1.Endpoint{endpoint("a", no, yes), endpoint("b", yes, yes)}, want: map[string]bool{"b": true}},
		"one ready endpoint of several on a node is enough": {
			endpoints: []discoveryv1.Endpoint{endpoint("a", no, no), endpoint("a", yes, yes)}, want: map[string]bool{"a": true}},
		"one on no node is local nowhere, as kube-proxy sees it": {
			endpoints: []discoveryv1.Endpoint{endpoint("", yes, yes)}, want: map[string]bool{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, nodesWith(tc.endpoints)); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// balancer is a Service of type LoadBalancer that shows addresses.
func balancer(name string, ips ...string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	for _, ip := range ips {
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
	}
	return svc
}

// given is a balancer whose addresses our manager wrote, with what its annotation remembers.
func given(svc *corev1.Service, remembered string) *corev1.Service {
	svc.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.FieldManager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Subresource: "status",
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:loadBalancer":{"f:ingress":{}}}}`),
	}}
	svc.Annotations = map[string]string{v1alpha1.AllocatedAnnotation: remembered}
	return svc
}

// slice holds endpoints of a Service.
func slice(name, service string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{Endpoints: endpoints, AddressType: discoveryv1.AddressTypeIPv4, ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}}}
}

// onNode is a Node with internal addresses.
func onNode(name string, ips ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid"}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeExternalIP, Address: "203.0.113.7"}}
	for _, ip := range ips {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	return n
}

// TestPeers are the other nodes, each at its first internal address.
func TestPeers(t *testing.T) {
	s := source{reader: fake.NewFakeClient(onNode("self", "192.168.1.1"), onNode("a", "192.168.1.2", "fd00::2"), onNode("six", "fd00::3"), onNode("joins"))}
	got, err := s.peers(t.Context(), "self", 7956)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]netip.AddrPort{"a": netip.MustParseAddrPort("192.168.1.2:7956"), "six": netip.MustParseAddrPort("[fd00::3]:7956")}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("peers (-want +got):\n%s", diff)
	}
}

func TestNodeOf(t *testing.T) {
	n := onNode("a")
	n.Labels = map[string]string{"rack": "1"}
	n.Spec.Unschedulable = true // moves no address
	for status, unavailable := range map[corev1.ConditionStatus]bool{corev1.ConditionTrue: true, corev1.ConditionFalse: false, corev1.ConditionUnknown: false} {
		n.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionFalse}, {Type: corev1.NodeNetworkUnavailable, Status: status}}
		want := node{name: "a", labels: map[string]string{"rack": "1"}, networkUnavailable: unavailable}
		if diff := cmp.Diff(want, nodeOf(n), compareValues); diff != "" {
			t.Errorf("with NetworkUnavailable %s (-want +got):\n%s", status, diff)
		}
	}
}

// TestConfiguration: none yet is no error, and one that cannot be read is: the speaker goes on with the one before.
func TestConfiguration(t *testing.T) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "lanyard-system", Name: v1alpha1.ConfigurationConfigMap}}
	of := func(doc string) (*settings, error) {
		cm.Data = map[string]string{v1alpha1.ConfigurationKey: doc}
		return source{reader: fake.NewFakeClient(cm), namespace: "lanyard-system"}.configuration(t.Context())
	}
	if c, err := (source{reader: fake.NewFakeClient(), namespace: "lanyard-system"}).configuration(t.Context()); c != nil || err != nil {
		t.Errorf("without a ConfigMap: %v, %v; want neither", c, err)
	}
	if c, err := of("generation: 7"); err != nil || c.Generation != 7 {
		t.Errorf("generation 7 reads as %v, %v", c, err)
	}
	if c, err := of("generation: 8\nfromTheFuture: true"); err == nil || c != nil {
		t.Errorf("an unknown field reads as %v, %v; want an error", c, err)
	}
	if c, err := of("ipPools: [{name: lan, addresses: [from-the-future]}]"); err == nil || c != nil {
		t.Errorf("a pool that cannot be read reads as %v, %v; want an error", c, err)
	}
}
