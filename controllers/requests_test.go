package controllers

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

var compareAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

// created is when every Service of these tests was made.
var created = metav1.NewTime(time.Unix(1_700_000_000, 0))

// asking is an IPv4 Service of type LoadBalancer in namespace default, as the API server completes it.
func asking(name string, change ...func(*corev1.Service)) *corev1.Service {
	svc := loadBalancer(name)
	svc.UID, svc.CreationTimestamp = types.UID("uid-of-"+name), created
	svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	for _, c := range change {
		c(svc)
	}
	return svc
}

// showing has the Service show addresses that somebody wrote.
func showing(manager string, ips ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		for _, ip := range ips {
			svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip, IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)})
		}
		svc.ManagedFields = append(svc.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Subresource: "status", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:loadBalancer":{"f:ingress":{}}}}`)})
	}
}

func remembering(text string) func(*corev1.Service) {
	return annotated(v1alpha1.AllocatedAnnotation, text)
}

func annotated(key, value string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		if svc.Annotations == nil {
			svc.Annotations = map[string]string{}
		}
		svc.Annotations[key] = value
	}
}

func ofType(t corev1.ServiceType) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.Type = t }
}

func ofClass(class string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = &class }
}

func externalIPs(ips ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.ExternalIPs = ips }
}

func families(policy corev1.IPFamilyPolicy, families ...corev1.IPFamily) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.IPFamilyPolicy, svc.Spec.IPFamilies = &policy, families }
}

func beingDeleted(svc *corev1.Service) { svc.DeletionTimestamp = &created }

// request is what a Service of asking's asks for.
func request(name string, change ...func(*ipam.Request)) ipam.Request {
	r := ipam.Request{Service: "default/" + name, Created: created.Time, Families: []ipam.Family{ipam.IPv4}, Admitted: []int{0}}
	for _, c := range change {
		c(&r)
	}
	return r
}

func holds(ips ...string) func(*ipam.Request) {
	return func(r *ipam.Request) { r.Holds = addrs(ips...) }
}

func remembers(pool, ip string) func(*ipam.Request) {
	return func(r *ipam.Request) {
		r.Remembers = append(r.Remembers, ipam.Holding{Addr: netip.MustParseAddr(ip), Pool: pool})
	}
}

func addrs(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

func taken(ip, by string) ipam.Taken { return ipam.Taken{Addr: netip.MustParseAddr(ip), By: by} }

// everybodys are rules by which every Service gets addresses of these pools.
func everybodys(pools []ipam.Pool) rules {
	r := rules{pools: pools, admissions: admissions{pools: make([]admission, len(pools))}}
	for i := range pools {
		r.admissions.open = append(r.admissions.open, i)
	}
	return r
}

// lanPool is the tutorial's pool.
var lanPool = []ipam.Pool{{Name: "lan-pool", Ranges: []ipam.Range{
	{First: netip.MustParseAddr("192.168.1.200"), Last: netip.MustParseAddr("192.168.1.210")}}}}

// nodeWith is the report of a node with an interface.
func nodeWith(name, iface string, addresses ...string) v1alpha1.NodeNetworking {
	return v1alpha1.NodeNetworking{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NodeNetworkingStatus{
		Interfaces: []v1alpha1.NodeInterface{{Name: iface, Addresses: addresses}}}}
}

// hearing is a node's report with foreign hosts: pairs of an address and a hardware address.
func hearing(n v1alpha1.NodeNetworking, pairs ...string) v1alpha1.NodeNetworking {
	for pair := range slices.Chunk(pairs, 2) {
		n.Status.Foreign = append(n.Status.Foreign, v1alpha1.ForeignIP{IP: pair[0], MAC: pair[1], Interface: n.Status.Interfaces[0].Name})
	}
	return n
}

func TestDemandOf(t *testing.T) {
	type services = []*corev1.Service
	for name, tc := range map[string]struct {
		services services
		nodes    []v1alpha1.NodeNetworking
		want     demand // without services: they are those of the requests
	}{
		"a load balancer without an address asks for one": {
			services: services{asking("new")},
			want:     demand{requests: []ipam.Request{request("new")}},
		},
		"a Service of another type asks for nothing": {
			services: services{asking("inner", ofType(corev1.ServiceTypeClusterIP)), asking("port", ofType(corev1.ServiceTypeNodePort))},
		},
		"a Service of a class is not ours, and what it shows is taken": {
			services: services{asking("classy", ofClass("example.com/other")), asking("theirs", ofClass("example.com/other"), showing("other", "192.168.1.201"))},
			want:     demand{taken: []ipam.Taken{taken("192.168.1.201", "Service default/theirs")}},
		},
		"a Service of a class that is not ours any more keeps the address that we gave it": {
			services: services{asking("left", ofClass("example.com/other"), showing(v1alpha1.FieldManager, "192.168.1.201"))},
			want:     demand{requests: []ipam.Request{request("left", holds("192.168.1.201"))}},
		},
		"what a Service asks for, and with whom it shares": {
			services: services{asking("web", annotated("metallb.io/loadBalancerIPs", "192.168.1.205"), annotated("metallb.io/address-pool", "lan-pool"),
				annotated("networking.lanyard.dev/sharing-key", "web"), annotated("networking.lanyard.dev/sharing-namespaces", "infra"), func(s *corev1.Service) {
					s.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolUDP, Port: 53}}
					s.Spec.ExternalTrafficPolicy, s.Spec.Selector = corev1.ServiceExternalTrafficPolicyLocal, map[string]string{"b": "2", "a": "1"}
				})},
			want: demand{requests: []ipam.Request{request("web", func(r *ipam.Request) {
				r.Wants, r.Pool = addrs("192.168.1.205"), "lan-pool"
				r.Sharing = ipam.Sharing{Key: "web", Ports: []ipam.Port{{Protocol: "UDP", Number: 53}}, Backends: "Local default a=1,b=2", Namespaces: []string{"infra"}}
			})}},
		},
		"what cannot be read is said, and the Service is asked for nothing else": {
			services: services{asking("odd", annotated("networking.lanyard.dev/ips", "nine"))},
			want: demand{requests: []ipam.Request{request("odd", func(r *ipam.Request) {
				r.Invalid = `annotation networking.lanyard.dev/ips holds "nine", which is no address: write one, like 192.168.1.200, ` +
					`or one of each family with a comma between them`
			})}},
		},
		"what another controller wrote outside our pools is its property, whatever the annotation remembers": {
			services: services{asking("theirs", showing("metallb", "10.9.9.9"), remembering("10.9.9.9=lan-pool"))},
			want:     demand{taken: []ipam.Taken{taken("10.9.9.9", "Service default/theirs")}},
		},
		"what another controller wrote inside our pools is adopted as it is": {
			services: services{asking("adopted", showing("metallb", "192.168.1.205"))},
			want:     demand{requests: []ipam.Request{request("adopted", holds("192.168.1.205"))}},
		},
		"what we wrote stays ours when no pool holds it any more": {
			services: services{asking("draining", showing(v1alpha1.FieldManager, "10.9.9.9"), remembering("10.9.9.9=old-pool"))},
			want:     demand{requests: []ipam.Request{request("draining", holds("10.9.9.9"), remembers("old-pool", "10.9.9.9"))}},
		},
		"a host name that a cloud wrote is its property and takes no address": {
			services: services{asking("cloudy", func(s *corev1.Service) {
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "lb.example.com"}}
			})},
		},
		"a Service that lost its address remembers it; what is no address is not remembered": {
			services: services{asking("back", remembering("192.168.1.203=lan-pool,nonsense,192.168.1.204"))},
			want:     demand{requests: []ipam.Request{request("back", remembers("lan-pool", "192.168.1.203"), remembers("", "192.168.1.204"))}},
		},
		"what any Service lists in externalIPs is taken, in whatever spelling; nonsense takes nothing": {
			services: services{asking("pinned", ofType(corev1.ServiceTypeClusterIP), externalIPs("192.168.1.201", "::ffff:192.168.1.202", "x"))},
			want: demand{taken: []ipam.Taken{taken("192.168.1.201", "Service default/pinned (externalIPs)"),
				taken("192.168.1.202", "Service default/pinned (externalIPs)")}},
		},
		"what others share is taken by each, always named in the same order": {
			services: services{asking("b", ofClass("x"), showing("metallb", "192.168.1.201")), asking("a", ofClass("x"), showing("metallb", "192.168.1.201"))},
			want:     demand{taken: []ipam.Taken{taken("192.168.1.201", "Service default/a"), taken("192.168.1.201", "Service default/b")}},
		},
		"what a node has on an interface is taken": {
			nodes: []v1alpha1.NodeNetworking{nodeWith("w1", "eth0", "192.168.1.200/24", "fd00::1/64")},
			want:  demand{taken: []ipam.Taken{taken("192.168.1.200", "node w1, interface eth0"), taken("fd00::1", "node w1, interface eth0")}},
		},
		"what a foreign host has is not ours to give, whoever hears it; a node that is not heard is no foreign host": {
			nodes: []v1alpha1.NodeNetworking{
				hearing(nodeWith("w2", "eth0"), "192.168.1.201", "02:00:00:00:00:09", "192.168.1.202", "02:00:00:00:00:01"),
				hearing(nodeWith("w1", "eth0"), "192.168.1.201", "02:00:00:00:00:09", "10.9.9.9", "02:00:00:00:00:09"),
				{Status: v1alpha1.NodeNetworkingStatus{Interfaces: []v1alpha1.NodeInterface{{Name: "bond0", MAC: "02:00:00:00:00:01"}}}},
			},
			want: demand{
				foreign: []v1alpha1.QuarantinedIP{{IP: "192.168.1.201", IPPool: "lan-pool", MAC: "02:00:00:00:00:09", Node: "w1", Interface: "eth0"}},
				taken: []ipam.Taken{{Addr: netip.MustParseAddr("192.168.1.201"), Foreign: true,
					By: "the host 02:00:00:00:00:09 on the LAN, which w1 hears on eth0"}},
			},
		},
		"a Service keeps what a foreign host takes later": {
			services: services{asking("old", showing(v1alpha1.FieldManager, "192.168.1.200"))},
			nodes:    []v1alpha1.NodeNetworking{hearing(nodeWith("w1", "eth0"), "192.168.1.200", "02:00:00:00:00:09")},
			want: demand{requests: []ipam.Request{request("old", holds("192.168.1.200"))},
				foreign: []v1alpha1.QuarantinedIP{{IP: "192.168.1.200", IPPool: "lan-pool", MAC: "02:00:00:00:00:09", Node: "w1", Interface: "eth0"}},
				clashes: []ipam.Refusal{{Service: "default/old", Reason: ipam.AddressContested, Message: "192.168.1.200, which this Service has, is " +
					"claimed by the host 02:00:00:00:00:09 on the LAN, which w1 hears on eth0 too: this Service keeps it, and one of the two has to change"}}},
		},
		"addresses for which the LAN was asked": {
			nodes: []v1alpha1.NodeNetworking{{Status: v1alpha1.NodeNetworkingStatus{Free: []string{"192.168.1.200-192.168.1.203", "nonsense"}}}},
			want:  demand{verified: []ipam.Range{{First: netip.MustParseAddr("192.168.1.200"), Last: netip.MustParseAddr("192.168.1.203")}}},
		},
		"nobody drives a Service of ours from its address by claiming it too: the clash is said, the address stays": {
			services: services{asking("old", showing(v1alpha1.FieldManager, "192.168.1.200")),
				asking("thief", ofType(corev1.ServiceTypeClusterIP), externalIPs("192.168.1.200"))},
			nodes: []v1alpha1.NodeNetworking{nodeWith("w1", "eth0", "192.168.1.200/24")},
			want: demand{requests: []ipam.Request{request("old", holds("192.168.1.200"))}, clashes: []ipam.Refusal{
				{Service: "default/old", Reason: ipam.AddressContested, Message: "192.168.1.200, which this Service has, is claimed by " +
					"Service default/thief (externalIPs) too: this Service keeps it, and one of the two has to change"},
				{Service: "default/old", Reason: ipam.AddressContested, Message: "192.168.1.200, which this Service has, is claimed by " +
					"node w1, interface eth0 too: this Service keeps it, and one of the two has to change"},
			}},
		},
		"a Service that lists its own address in externalIPs keeps it, and there is nothing to say": {
			services: services{asking("both", showing("metallb", "192.168.1.200"), externalIPs("192.168.1.200"))},
			want:     demand{requests: []ipam.Request{request("both", holds("192.168.1.200"))}},
		},
		"a Service that is being deleted keeps what it has": {
			services: services{asking("going", beingDeleted, showing(v1alpha1.FieldManager, "192.168.1.200"))},
			want: demand{requests: []ipam.Request{request("going", holds("192.168.1.200"), func(r *ipam.Request) {
				r.Standing = ipam.Leaving
			})}},
		},
		"dual stack in the Service's order: both where it is required, else what there is": {
			services: services{
				asking("a", families(corev1.IPFamilyPolicyRequireDualStack, corev1.IPv6Protocol, corev1.IPv4Protocol)),
				asking("b", families(corev1.IPFamilyPolicyPreferDualStack, corev1.IPv4Protocol, corev1.IPv6Protocol)),
			},
			want: demand{requests: []ipam.Request{
				request("a", func(r *ipam.Request) { r.Families, r.Need = []ipam.Family{ipam.IPv6, ipam.IPv4}, ipam.NeedAll }),
				request("b", func(r *ipam.Request) { r.Families = []ipam.Family{ipam.IPv4, ipam.IPv6} }),
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.want.services = map[string]*corev1.Service{}
			for _, r := range tc.want.requests {
				at := slices.IndexFunc(tc.services, func(s *corev1.Service) bool { return s.Namespace+"/"+s.Name == r.Service })
				tc.want.services[r.Service] = tc.services[at]
			}
			for range 2 { // as listed, and the other way round: a cache lists in any order
				if diff := cmp.Diff(tc.want, demandOf(tc.services, tc.nodes, everybodys(lanPool)), cmp.AllowUnexported(demand{}), compareAddr, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("demand (-want +got):\n%s", diff)
				}
				slices.Reverse(tc.services)
				slices.Reverse(tc.nodes)
			}
		})
	}
}
