package allocation

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

var compareAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func TestOurs(t *testing.T) {
	written := []metav1.ManagedFieldsEntry{{Manager: v1alpha1.FieldManager, Subresource: "status",
		FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:loadBalancer":{"f:ingress":{}}}}`)}}
	shown := corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.168.1.200"}}}}
	balancer := func(class *string) corev1.ServiceSpec {
		return corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: class}
	}
	for name, tc := range map[string]struct {
		svc   corev1.Service
		class string
		want  bool
	}{
		"a load balancer without a class, where no class is ours": {svc: corev1.Service{Spec: balancer(nil)}, want: true},
		"a load balancer of a class, where no class is ours":      {svc: corev1.Service{Spec: balancer(ptr.To("example.com/other"))}},
		"a load balancer of our class":                            {svc: corev1.Service{Spec: balancer(ptr.To("lanyard.dev/lan"))}, class: "lanyard.dev/lan", want: true},
		"a load balancer without a class, where one is ours":      {svc: corev1.Service{Spec: balancer(nil)}, class: "lanyard.dev/lan"},
		"one that has an address of ours, whatever is ours now": {
			svc: corev1.Service{ObjectMeta: metav1.ObjectMeta{ManagedFields: written}, Spec: balancer(nil), Status: shown}, class: "lanyard.dev/lan", want: true},
		"one that has somebody's address, and is not of our class": {svc: corev1.Service{Spec: balancer(nil), Status: shown}, class: "lanyard.dev/lan"},
		"a Service that is none any more": {
			svc: corev1.Service{ObjectMeta: metav1.ObjectMeta{ManagedFields: written}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}, Status: shown}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Ours(&tc.svc, tc.class); got != tc.want {
				t.Errorf("Ours is %v, want %v", got, tc.want)
			}
		})
	}
}

func TestRemembered(t *testing.T) {
	a, b := netip.MustParseAddr("192.168.1.200"), netip.MustParseAddr("fd00::1")
	for name, tc := range map[string]struct {
		annotation string
		want       []Entry
	}{
		"nothing was ever remembered":         {},
		"one address with its pool":           {annotation: "192.168.1.200=lan-pool", want: []Entry{{Addr: a, Pool: "lan-pool"}}},
		"two families, one without a pool":    {annotation: "192.168.1.200,fd00::1=six", want: []Entry{{Addr: a}, {Addr: b, Pool: "six"}}},
		"what a tenant scribbles is left out": {annotation: "give me=all,192.168.1.200=lan-pool,,=", want: []Entry{{Addr: a, Pool: "lan-pool"}}},
	} {
		t.Run(name, func(t *testing.T) {
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AllocatedAnnotation: tc.annotation}}}
			if diff := cmp.Diff(tc.want, Remembered(svc), compareAddr); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTextReadsBack(t *testing.T) {
	entries := []Entry{{Addr: netip.MustParseAddr("192.168.1.200"), Pool: "lan-pool"}, {Addr: netip.MustParseAddr("10.0.0.1")}}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AllocatedAnnotation: Text(entries)}}}
	if diff := cmp.Diff(entries, Remembered(svc), compareAddr); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestWrittenByUs(t *testing.T) {
	ingress := metav1.NewFieldsV1(`{"f:status":{"f:loadBalancer":{"f:ingress":{}}}}`)
	for name, tc := range map[string]struct {
		entry metav1.ManagedFieldsEntry
		want  bool
	}{
		"our write of the status":                    {metav1.ManagedFieldsEntry{Manager: v1alpha1.FieldManager, Subresource: "status", FieldsV1: ingress}, true},
		"another controller's write":                 {metav1.ManagedFieldsEntry{Manager: "metallb", Subresource: "status", FieldsV1: ingress}, false},
		"a tenant's write under our name":            {metav1.ManagedFieldsEntry{Manager: v1alpha1.FieldManager, FieldsV1: ingress}, false},
		"our write of the status, without addresses": {metav1.ManagedFieldsEntry{Manager: v1alpha1.FieldManager, Subresource: "status", FieldsV1: metav1.NewFieldsV1(`{}`)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{tc.entry}}}
			if got := WrittenByUs(svc); got != tc.want {
				t.Errorf("WrittenByUs = %v, want %v", got, tc.want)
			}
		})
	}
}
