package speaker

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func TestServices(t *testing.T) {
	local := balancer("local", "192.168.1.201")
	local.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	classy := balancer("classy", "192.168.1.202")
	classy.Spec.LoadBalancerClass = ptr.To("example.com/other")
	cluster := balancer("cluster-ip", "192.168.1.203")
	cluster.Spec.Type = corev1.ServiceTypeClusterIP
	services := []corev1.Service{
		*local, *classy, *cluster, *balancer("waits"),
		*balancer("foreign", "10.9.9.8"),
		*given(balancer("given", "10.9.9.9", "192.168.1.200"), "10.9.9.9=old-pool,192.168.1.7=not-its-own"),
	}
	got := (*digests)(nil).services(services, []discoveryv1.EndpointSlice{
		*slice("local-4", "local", endpoint("a", nil, nil)), *slice("local-6", "local", endpoint("b", nil, nil)),
		*slice("given-4", "given", endpoint("c", nil, nil)),
	}, "")
	want := []service{
		{name: "ns/foreign", addrs: addrs("10.9.9.8")},
		{name: "ns/given", addrs: addrs("10.9.9.9", "192.168.1.200"), draining: map[netip.Addr]string{
			netip.MustParseAddr("10.9.9.9"): "old-pool", netip.MustParseAddr("192.168.1.200"): ""}},
		{name: "ns/local", addrs: addrs("192.168.1.201"), local: true, endpoints: map[string]bool{"a": true, "b": true}},
	}
	if diff := cmp.Diff(want, got, compareValues); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
}

// TestDigestsAreReadAnewWhenTheServiceChanges, or the class, or another Service comes under its name.
func TestDigestsAreReadAnewWhenTheServiceChanges(t *testing.T) {
	d := &digests{}
	svc := balancer("web", "192.168.1.201")
	svc.UID, svc.ResourceVersion = "a", "1"
	for _, step := range []struct {
		when  string
		do    func()
		class string
		want  []string
	}{
		{"first", func() {}, "", []string{"192.168.1.201"}},
		{"changed, with another revision", func() { svc.Status.LoadBalancer.Ingress[0].IP, svc.ResourceVersion = "192.168.1.202", "2" }, "", []string{"192.168.1.202"}},
		{"with another class of ours", func() {}, "example.com/lan", nil},
		{"with the class before", func() {}, "", []string{"192.168.1.202"}},
		{"deleted and made again", func() { svc.Status.LoadBalancer.Ingress[0].IP, svc.UID = "192.168.1.203", "b" }, "", []string{"192.168.1.203"}},
		{"without a revision, as no API server gives it", func() { svc.Status.LoadBalancer.Ingress[0].IP, svc.ResourceVersion = "192.168.1.204", "" }, "",
			[]string{"192.168.1.204"}},
	} {
		step.do()
		var got []string
		for _, s := range d.services([]corev1.Service{*svc}, nil, step.class) {
			got = append(got, s.addrs[0].String())
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s, addresses (-want +got):\n%s", step.when, diff)
		}
	}
}

// TestDigestsOfServicesThatAreGoneAreForgotten.
func TestDigestsOfServicesThatAreGoneAreForgotten(t *testing.T) {
	d := &digests{}
	for i := range 100 {
		svc := balancer("web", "192.168.1.201")
		svc.UID, svc.ResourceVersion = types.UID(fmt.Sprint(i)), "1"
		d.services([]corev1.Service{*svc}, nil, "")
	}
	if n := len(d.known); n > 3 {
		t.Errorf("%d digests are kept for one Service", n)
	}
}
