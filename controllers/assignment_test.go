package controllers

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
			service:   asking("lb", ours("192.168.1.200"), remembering("192.168.1.200=lan-pool"), satisfied("it has 192.168.1.200 of pool lan-pool")),
			addresses: from("lan-pool", "192.168.1.200"), unwritten: true,
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
			d := demandOf([]*corev1.Service{tc.service}, nil, everybodys(lanPool))
			want := []write{{service: tc.service, addresses: tc.addresses}}
			if tc.unwritten {
				want = nil
			}
			got := writesOf(d, ipam.Result{Assignments: []ipam.Assignment{{Service: "default/lb", Addresses: tc.addresses}}}, created.Time)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(write{}), compareAddr, cmpopts.IgnoreFields(write{}, "conditions")); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// satisfied is the condition of a Service that has its addresses.
func satisfied(message string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Status.Conditions = append(svc.Status.Conditions, metav1.Condition{Type: "networking.lanyard.dev/Allocated", Status: "True", Reason: "Allocated",
			Message: message, LastTransitionTime: created})
	}
}

// TestTheConditionOfAService says in its status what it has, and why it lacks what it lacks.
func TestTheConditionOfAService(t *testing.T) {
	now := created.Add(time.Minute)
	another := metav1.Condition{Type: "example.com/Other", Status: "True", Reason: "Fine", LastTransitionTime: created}
	allocated := func(status metav1.ConditionStatus, reason, message string, since time.Time) metav1.Condition {
		return metav1.Condition{Type: "networking.lanyard.dev/Allocated", Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(since)}
	}
	full := ipam.Refusal{Service: "default/lb", Reason: ipam.PoolExhausted, Message: "all are in use"}
	for name, tc := range map[string]struct {
		service *corev1.Service
		plan    ipam.Result
		noPool  bool
		want    []metav1.Condition
	}{
		"it gets none, where there is no pool: it may well be somebody else's": {
			service: asking("lb"), plan: ipam.Result{Refusals: []ipam.Refusal{{Service: "default/lb", Reason: ipam.NoPool, Message: "there is none"}}}, noPool: true,
		},
		"it gets an address": {
			service: asking("lb"), plan: ipam.Result{Assignments: []ipam.Assignment{{Service: "default/lb", Addresses: append(from("lan-pool", "192.168.1.200"), from("", "fd00::1")...)}}},
			want: []metav1.Condition{allocated("True", "Allocated", "it has 192.168.1.200 of pool lan-pool, fd00::1", now)},
		},
		"it gets none, and what others say stays": {
			service: asking("lb", func(s *corev1.Service) { s.Status.Conditions = []metav1.Condition{another} }), plan: ipam.Result{Refusals: []ipam.Refusal{full}},
			want: []metav1.Condition{another, allocated("False", "PoolExhausted", "all are in use", now)},
		},
		"it gets another than it asks for": {
			service: asking("lb"), plan: ipam.Result{Refusals: []ipam.Refusal{{Service: "default/lb", Reason: ipam.AddressTaken, Message: "somebody has it"}},
				Assignments: []ipam.Assignment{{Service: "default/lb", Addresses: from("lan-pool", "192.168.1.200")}}},
			want: []metav1.Condition{allocated("True", "AddressTaken", "it has 192.168.1.200 of pool lan-pool; somebody has it", now)},
		},
		"what is still so is so since then": {
			service: asking("lb", satisfied("it has 192.168.1.200 of pool old")), plan: ipam.Result{Assignments: []ipam.Assignment{{Service: "default/lb", Addresses: from("lan-pool", "192.168.1.200")}}},
			want: []metav1.Condition{allocated("True", "Allocated", "it has 192.168.1.200 of pool lan-pool", created.Time)},
		},
		"it waits for a moment: nothing is said": {
			service: asking("lb"), plan: ipam.Result{Refusals: []ipam.Refusal{{Service: "default/lb", Reason: ipam.AddressUnverified, Message: "wait"}}},
		},
		"it is being deleted: nothing is said": {service: asking("lb", beingDeleted), plan: ipam.Result{Refusals: []ipam.Refusal{full}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []metav1.Condition
			if !tc.noPool {
				tc.plan.Pools = []ipam.Usage{{Pool: "lan-pool"}}
			}
			for _, w := range writesOf(demandOf([]*corev1.Service{tc.service}, nil, everybodys(lanPool)), tc.plan, now) {
				got = append(got, w.conditions...)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatIsNotOursIsNotSpokenOf: a Service that is no load balancer any more keeps no condition of ours.
func TestWhatIsNotOursIsNotSpokenOf(t *testing.T) {
	another := metav1.Condition{Type: "example.com/Other", Status: "True"}
	flipped := asking("flipped", ofType(corev1.ServiceTypeClusterIP), satisfied("x"), func(s *corev1.Service) { s.Status.Conditions = append(s.Status.Conditions, another) })
	plain := asking("plain", ofType(corev1.ServiceTypeClusterIP))
	want := []write{{service: flipped, conditions: []metav1.Condition{another}, conditionsOnly: true}}
	got := writesOf(demandOf([]*corev1.Service{plain, flipped}, nil, everybodys(lanPool)), ipam.Result{}, created.Time)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(write{}), compareAddr, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// TestWithdrawals: a Service that shows nothing is left alone, but for what was said of it.
func TestWithdrawals(t *testing.T) {
	refused := asking("refused", satisfied("no"))
	had, has := asking("had"), asking("has", showing(v1alpha1.FieldManager, "192.168.1.200"), satisfied("it has 192.168.1.200 of pool lan-pool"))
	got := withdrawals(demandOf([]*corev1.Service{had, has, refused}, nil, everybodys(lanPool)), created.Time)
	want := []write{{service: has, conditions: []metav1.Condition{{Type: "networking.lanyard.dev/Allocated", Status: "False", Reason: "NotManaged",
		Message: "ClusterNetworking \"cluster\" was deleted: make it again, and the Service gets the same address", LastTransitionTime: created}}},
		{service: refused, conditionsOnly: true}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(write{}), compareAddr, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
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
		"a Service that is refused: its conditions must be as they were": {
			write: write{service: asking("lb", satisfied("x")), conditions: []metav1.Condition{{Type: "T", Status: "False", Reason: "R", LastTransitionTime: created}}},
			want: `[{"op":"test","path":"/metadata/uid","value":"uid-of-lb"},` +
				`{"op":"test","path":"/status/loadBalancer","value":{}},` +
				`{"op":"replace","path":"/status/loadBalancer","value":{}},` +
				`{"op":"test","path":"/status/conditions","value":[{"type":"networking.lanyard.dev/Allocated","status":"True",` +
				`"lastTransitionTime":"2023-11-14T22:13:20Z","reason":"Allocated","message":"x"}]},` +
				`{"op":"add","path":"/status/conditions","value":[{"type":"T","status":"False","lastTransitionTime":"2023-11-14T22:13:20Z","reason":"R","message":""}]}]`,
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
