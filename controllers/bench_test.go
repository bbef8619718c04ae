package controllers

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/allocation"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// manyServices have an address each, as the API server shows it once we have given it; the last one waits for its own.
func manyServices(n int) []*corev1.Service {
	var all []*corev1.Service
	addr := netip.MustParseAddr("10.0.0.1")
	for i := range n {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("web-%05d", i), UID: types.UID(fmt.Sprint(i)), ResourceVersion: "1"}}
		svc.Spec.Type, svc.Spec.IPFamilies = corev1.ServiceTypeLoadBalancer, []corev1.IPFamily{corev1.IPv4Protocol}
		if all = append(all, svc); i == n-1 {
			break
		}
		held := []ipam.Holding{{Addr: addr, Pool: "wide"}}
		svc.Annotations = map[string]string{v1alpha1.AllocatedAnnotation: allocation.Text(entries(held))}
		svc.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: v1alpha1.FieldManager, Subresource: "status", FieldsV1: metav1.NewFieldsV1(
			`{"f:metadata":{"f:annotations":{"f:networking.lanyard.dev/allocated":{}}},"f:status":{"f:conditions":{},"f:loadBalancer":{"f:ingress":{}}}}`)}}
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: addr.String(), IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}}
		svc.Status.Conditions = withCondition(nil, allocatedCondition(held, ipam.Refusal{}), time.Unix(0, 0))
		addr = addr.Next()
	}
	return all
}

// BenchmarkOneMore is what a pass decides when one more Service asks for an address: all others are looked at, and only it is written to.
func BenchmarkOneMore(b *testing.B) {
	pools, problems := ipam.ParsePools([]ipam.PoolText{{Name: "wide", Addresses: []string{"10.0.0.0/16"}}})
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	admissions, err := admissionsOf([]v1alpha1.IPPool{{Name: "wide"}})
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{100, 5000} {
		b.Run(fmt.Sprintf("%d Services", n), func(b *testing.B) {
			services := manyServices(n)
			r := &AddressesReconciler{contests: contests{}}
			b.ReportAllocs()
			for b.Loop() {
				state := addressState{rules: rules{pools: pools, admissions: admissions}}
				state.demand = demandOf(services, nil, state.rules)
				plan, _ := r.plan(&state, time.Unix(60, 0))
				if writes := writesOf(state.demand, plan, time.Unix(60, 0)); len(writes) != 1 {
					b.Fatalf("%d Services are written to, want one", len(writes))
				}
			}
		})
	}
}
