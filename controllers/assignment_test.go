package controllers

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// from are addresses of a pool.
func from(pool string, ips ...string) []ipam.Holding {
	var all []ipam.Holding
	for _, ip := range ips {
		all = append(all, ipam.Holding{Addr: netip.MustParseAddr(ip), Pool: pool})
	}
	return all
}

func TestWritesOf(t *testing.T) {
	ours := func(ips ...string) func(*corev1.Service) { return showing(v1alpha1.FieldManager, ips...) }
	for name, tc := range map[string]struct {
		service   *corev1.Service
		addresses []ipam.Holding
		unwritten bool
	}{
		"the first address is written": {
			service: asking("lb"), addresses: from("lan-pool", "192.168.1.200"),
		},
		"what the Service shows and remembers already is not written again": {
			service: asking("lb", ours("192.168.1.200"), remembering("192.168.1.200=lan-pool")), addresses: from("lan-pool", "192.168.1.200"),
			unwritten: true,
		},
		"another address is written": {
			service:   asking("lb", ours("192.168.1.200"), remembering("192.168.1.200=lan-pool")),
			addresses: from("lan-pool", "192.168.1.201"),
		},
		"a second family is written": {
			service:   asking("lb", ours("192.168.1.200"), remembering("192.168.1.200=lan-pool")),
			addresses: append(from("lan-pool", "192.168.1.200"), from("six", "fd00::1")...),
		},
		"an adopted address is written down in memory": {
			service: asking("lb", showing("metallb", "192.168.1.200")), addresses: from("lan-pool", "192.168.1.200"),
		},
		"a pool of another name is written down in memory": {
			service:   asking("lb", ours("192.168.1.200"), remembering("192.168.1.200=lan-pool")),
			addresses: from("renamed", "192.168.1.200"),
		},
		"an address that no pool holds any more is written down without a pool": {
			service: asking("lb", ours("192.168.1.200"), remembering("192.168.1.200=lan-pool")), addresses: from("", "192.168.1.200"),
		},
		"an emptied status is written again": {
			service: asking("lb", remembering("192.168.1.200=lan-pool")), addresses: from("lan-pool", "192.168.1.200"),
		},
		"what the plan does not give is withdrawn": {
			service: asking("lb", ours("192.168.1.200"), remembering("192.168.1.200=lan-pool")),
		},
		"a Service that waits keeps its memory, and nothing is written": {
			service: asking("lb", remembering("192.168.1.200=lan-pool")), unwritten: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := demandOf([]*corev1.Service{tc.service}, nil, lanPool)
			want := []write{{service: tc.service, addresses: tc.addresses}}
			if tc.unwritten {
				want = nil
			}
			got := writesOf(d, []ipam.Assignment{{Service: "default/lb", Addresses: tc.addresses}})
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(write{}), compareAddr); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPatch pins every byte that goes over the wire: what is tested before the write, and that nothing else is touched.
func TestPatch(t *testing.T) {
	for name, tc := range map[string]struct {
		write write
		want  string
	}{
		"a Service without annotations: it must still have none when they are added": {
			write: write{service: asking("lb"), addresses: from("lan-pool", "192.168.1.200")},
			want: `[{"op":"test","path":"/metadata/uid","value":"uid-of-lb"},` +
				`{"op":"test","path":"/status/loadBalancer","value":{}},` +
				`{"op":"replace","path":"/status/loadBalancer","value":{"ingress":[{"ip":"192.168.1.200","ipMode":"VIP"}]}},` +
				`{"op":"test","path":"/metadata/annotations","value":null},` +
				`{"op":"add","path":"/metadata/annotations","value":{}},` +
				`{"op":"add","path":"/metadata/annotations/networking.lanyard.dev~1allocated","value":"192.168.1.200=lan-pool"}]`,
		},
		"a Service that moves: the status that it showed is tested, the other annotations stay": {
			write: write{
				service:   asking("lb", showing(v1alpha1.FieldManager, "10.9.9.9"), remembering("10.9.9.9")),
				addresses: append(from("lan-pool", "192.168.1.200"), from("six", "fd00::1")...),
			},
			want: `[{"op":"test","path":"/metadata/uid","value":"uid-of-lb"},` +
				`{"op":"test","path":"/status/loadBalancer","value":{"ingress":[{"ip":"10.9.9.9","ipMode":"VIP"}]}},` +
				`{"op":"replace","path":"/status/loadBalancer","value":{"ingress":[{"ip":"192.168.1.200","ipMode":"VIP"},{"ip":"fd00::1","ipMode":"VIP"}]}},` +
				`{"op":"add","path":"/metadata/annotations/networking.lanyard.dev~1allocated","value":"192.168.1.200=lan-pool,fd00::1=six"}]`,
		},
		"a Service whose addresses are withdrawn: its memory stays": {
			write: write{service: asking("lb", showing(v1alpha1.FieldManager, "192.168.1.200"), remembering("192.168.1.200=lan-pool"))},
			want: `[{"op":"test","path":"/metadata/uid","value":"uid-of-lb"},` +
				`{"op":"test","path":"/status/loadBalancer","value":{"ingress":[{"ip":"192.168.1.200","ipMode":"VIP"}]}},` +
				`{"op":"replace","path":"/status/loadBalancer","value":{}}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.write.patch()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}
