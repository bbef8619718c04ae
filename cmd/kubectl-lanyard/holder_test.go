package main

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

func TestWhoHas(t *testing.T) {
	cnet, reports := rack()
	cnet.Spec.IPPools = []v1alpha1.IPPool{{Name: "lan-pool", Addresses: []v1alpha1.AddressRange{"192.168.1.200-192.168.1.210"},
		Exclude: []v1alpha1.ExcludedRange{"192.168.1.209"}}}
	cnet.Status.QuarantinedIPs = []v1alpha1.QuarantinedIP{{IP: "192.168.1.205", IPPool: "lan-pool", MAC: "02:00:00:00:00:99", Node: "k8s-wl-01",
		Interface: "eth0", Since: metav1.NewTime(noon.Add(-time.Minute))}}
	reports[1].Status.Announced = []v1alpha1.AnnouncedIP{{IP: "192.168.1.200", Interface: "eth0", MAC: "02:00:00:00:00:01"}}
	reports[0].Status.Interfaces = []v1alpha1.NodeInterface{{Name: "eth0", MAC: "02:00:00:00:00:02", Addresses: []string{"192.168.1.129/24"}}}
	var services []corev1.Service
	for name, ip := range map[string]string{"lb-test": "192.168.1.200", "lb-quiet": "192.168.1.201"} {
		svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}, {Hostname: "lb.example.com"}}
		services = append(services, svc)
	}
	for name, tc := range map[string]struct {
		ip   string
		want []string
	}{
		"a Service, and a node answers": {"192.168.1.200", []string{
			"192.168.1.200 is that of Service default/lb-test (pool lan-pool)", "it is answered for by k8s-wl-01 on eth0, with 02:00:00:00:00:01"}},
		"a Service, and nobody answers": {"192.168.1.201", []string{"192.168.1.201 is that of Service default/lb-quiet (pool lan-pool)",
			"no node answers for it: kubectl describe clusternetworking cluster says why"}},
		"a host that is no node": {"192.168.1.205", []string{
			"a host that is no node has 192.168.1.205, 02:00:00:00:00:99: k8s-wl-01 has heard it on eth0 since 2026-08-01T11:59:00Z"}},
		"a node":                     {"192.168.1.129", []string{"192.168.1.129 is an address of node k8s-wl-02 on eth0, with 02:00:00:00:00:02"}},
		"nobody, and it is free":     {"192.168.1.206", []string{"nobody that the cluster knows of has 192.168.1.206 (pool lan-pool)"}},
		"nobody, and it is excluded": {"192.168.1.209", []string{"nobody that the cluster knows of has 192.168.1.209 (it is in no pool)"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, whoHas(netip.MustParseAddr(tc.ip), cnet, services, reports).sentences()); diff != "" {
				t.Errorf("sentences (-want +got):\n%s", diff)
			}
		})
	}
}
