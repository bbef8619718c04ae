package allocation

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhatAServiceAsksFor(t *testing.T) {
	four, six := netip.MustParseAddr("192.168.1.204"), netip.MustParseAddr("fd00::204")
	for name, tc := range map[string]struct {
		annotations map[string]string
		inSpec      string
		want        Ask
		wantErr     string
	}{
		"nothing": {},
		"a pool":  {annotations: map[string]string{"networking.lanyard.dev/ip-pool": "lan-pool"}, want: Ask{Pool: "lan-pool"}},
		"as MetalLB's users write it": {
			annotations: map[string]string{"metallb.io/address-pool": "lan-pool", "metallb.io/loadBalancerIPs": "192.168.1.204,fd00::204", "metallb.io/allow-shared-ip": "web"},
			want:        Ask{Pool: "lan-pool", Addrs: []netip.Addr{four, six}, SharingKey: "web"},
		},
		"as MetalLB's users wrote it": {
			annotations: map[string]string{"metallb.universe.tf/address-pool": "lan-pool", "metallb.universe.tf/loadBalancerIPs": " 192.168.1.204 ", "metallb.universe.tf/allow-shared-ip": "web"},
			want:        Ask{Pool: "lan-pool", Addrs: []netip.Addr{four}, SharingKey: "web"},
		},
		"twice the same": {
			annotations: map[string]string{"networking.lanyard.dev/ips": "192.168.1.204", "metallb.universe.tf/loadBalancerIPs": "192.168.1.204"}, inSpec: "192.168.1.204",
			want: Ask{Addrs: []netip.Addr{four}},
		},
		"in the field that is out of use": {inSpec: "192.168.1.204", want: Ask{Addrs: []netip.Addr{four}}},
		"an IPv4 address written as IPv6": {inSpec: "::ffff:192.168.1.204", want: Ask{Addrs: []netip.Addr{four}}},
		"with whom to share": {
			annotations: map[string]string{"networking.lanyard.dev/sharing-key": "web", "networking.lanyard.dev/sharing-namespaces": "a, b,"},
			want:        Ask{SharingKey: "web", SharingNamespaces: []string{"a", "b"}},
		},
		"two pools": {
			annotations: map[string]string{"networking.lanyard.dev/ip-pool": "a", "metallb.io/address-pool": "b"},
			wantErr:     `annotations networking.lanyard.dev/ip-pool ("a") and metallb.io/address-pool ("b") contradict each other: leave one of the two`,
		},
		"two addresses in two places": {
			annotations: map[string]string{"metallb.io/loadBalancerIPs": "192.168.1.205"}, inSpec: "192.168.1.204",
			wantErr: "annotation metallb.io/loadBalancerIPs asks for 192.168.1.205, and spec.loadBalancerIP for 192.168.1.204: leave one of the two",
		},
		"two addresses of one family": {
			annotations: map[string]string{"networking.lanyard.dev/ips": "192.168.1.204,192.168.1.205"},
			wantErr:     "annotation networking.lanyard.dev/ips asks for two addresses of one family (192.168.1.204,192.168.1.205): a Service has one of each",
		},
		"a name": {
			annotations: map[string]string{"networking.lanyard.dev/ips": "web.example"},
			wantErr: `annotation networking.lanyard.dev/ips holds "web.example", which is no address: write one, like 192.168.1.200, ` +
				`or one of each family with a comma between them`,
		},
		"an address with a zone": {
			inSpec: "fe80::1%eth0",
			wantErr: `spec.loadBalancerIP holds "fe80::1%eth0", which is no address: write one, like 192.168.1.200, ` +
				`or one of each family with a comma between them`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}, Spec: corev1.ServiceSpec{LoadBalancerIP: tc.inSpec}}
			got, err := AskOf(svc)
			said := ""
			if err != nil {
				said = err.Error()
			}
			if diff := cmp.Diff(tc.wantErr, said); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, got, compareAddr); diff != "" {
				t.Errorf("asks for (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzAskOf: whatever stands there is read or refused, and what is read are at most one address of each family.
func FuzzAskOf(f *testing.F) {
	f.Add("192.168.1.204,fd00::1", "lan-pool", "", "192.168.1.204")
	f.Add("::ffff:1.2.3.4, 1.2.3.5", "", "web", "fe80::1%eth0")
	f.Fuzz(func(t *testing.T, ips, pool, key, inSpec string) {
		svc := &corev1.Service{Spec: corev1.ServiceSpec{LoadBalancerIP: inSpec}}
		svc.Annotations = map[string]string{"networking.lanyard.dev/ips": ips, "metallb.io/address-pool": pool, "metallb.universe.tf/allow-shared-ip": key}
		ask, err := AskOf(svc)
		if err != nil {
			if !strings.Contains(err.Error(), ": ") || len(ask.Addrs) > 0 {
				t.Errorf("%q names no remedy, or comes with %v", err, ask)
			}
			return
		}
		if len(ask.Addrs) > 2 || len(ask.Addrs) == 2 && ask.Addrs[0].Is4() == ask.Addrs[1].Is4() {
			t.Errorf("asks for %v", ask.Addrs)
		}
		for _, a := range ask.Addrs {
			if a.Is4In6() || a.Zone() != "" {
				t.Errorf("asks for %v", a)
			}
		}
	})
}

// FuzzRemembered: what a tenant writes there is read as far as it can be.
func FuzzRemembered(f *testing.F) {
	f.Add("192.168.1.200=lan-pool,fd00::1")
	f.Add("=,=x,192.168.1.200==,")
	f.Fuzz(func(t *testing.T, text string) {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"networking.lanyard.dev/allocated": text}}}
		entries := Remembered(svc)
		svc.Annotations["networking.lanyard.dev/allocated"] = Text(entries)
		again := Remembered(svc)
		for i := range entries {
			if strings.Contains(entries[i].Pool, ",") {
				t.Fatalf("pool %q", entries[i].Pool)
			}
		}
		if diff := cmp.Diff(entries, again, compareAddr); diff != "" {
			t.Errorf("what is written of what was read (-want +got):\n%s", diff)
		}
	})
}
