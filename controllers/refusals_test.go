package controllers

import (
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

var compareBig = cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })

func refusal(service string, reason ipam.Reason, message string) ipam.Refusal {
	return ipam.Refusal{Service: "default/" + service, Reason: reason, Message: message}
}

func has(service string, holdings ...ipam.Holding) ipam.Assignment {
	return ipam.Assignment{Service: "default/" + service, Addresses: holdings}
}

func usage(pool string, total, allocated int64) ipam.Usage {
	return ipam.Usage{Pool: pool, Total: big.NewInt(total), Allocated: big.NewInt(allocated), Available: big.NewInt(total - allocated),
		Quarantined: new(big.Int), Draining: big.NewInt(0)}
}

func TestAtRest(t *testing.T) {
	ours := func(ips ...string) func(*corev1.Service) { return showing(v1alpha1.FieldManager, ips...) }
	for name, tc := range map[string]struct {
		services []*corev1.Service
		pools    []ipam.Pool
		want     ipam.Result
	}{
		"who has an address keeps it; who waits gets none, none is counted as used for it, and the status says why": {
			services: []*corev1.Service{asking("has", ours("192.168.1.200")), asking("waits")}, pools: lanPool,
			want: ipam.Result{
				Assignments: []ipam.Assignment{has("has", from("lan-pool", "192.168.1.200")...)},
				Refusals:    []ipam.Refusal{refusal("waits", "Paused", "set it to Managed")},
				Pools:       []ipam.Usage{usage("lan-pool", 11, 1)},
			},
		},
		"who lost its address waits for its return": {
			services: []*corev1.Service{asking("emptied", remembering("192.168.1.200=lan-pool"))}, pools: lanPool,
			want: ipam.Result{
				Refusals: []ipam.Refusal{refusal("emptied", "Paused", "set it to Managed")},
				Pools:    []ipam.Usage{usage("lan-pool", 11, 0)},
			},
		},
		"who is being deleted waits for nothing": {
			services: []*corev1.Service{asking("going", beingDeleted)}, pools: lanPool,
			want: ipam.Result{Pools: []ipam.Usage{usage("lan-pool", 11, 0)}},
		},
		"who shows an address of somebody older is told that, not to wait": {
			services: []*corev1.Service{asking("b-younger", ours("192.168.1.200")), asking("a-older", ours("192.168.1.200")), asking("c-waits")},
			pools:    lanPool,
			want: ipam.Result{
				Assignments: []ipam.Assignment{has("a-older", from("lan-pool", "192.168.1.200")...)},
				Refusals: []ipam.Refusal{
					refusal("b-younger", ipam.AddressTaken, "192.168.1.200 is held by Service default/a-older too, which had it first: "+
						"this Service gets another as soon as a pool has one, so change what points to 192.168.1.200"),
					refusal("c-waits", "Paused", "set it to Managed"),
				},
				Pools: []ipam.Usage{usage("lan-pool", 11, 1)},
			},
		},
		"without pools everyone keeps what we gave": {
			services: []*corev1.Service{asking("has", ours("192.168.1.200"))},
			want:     ipam.Result{Assignments: []ipam.Assignment{has("has", from("", "192.168.1.200")...)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := atRest(ipam.Facts{Pools: tc.pools, Requests: demandOf(tc.services, nil, everybodys(tc.pools)).requests}, v1alpha1.ReasonPaused, "set it to Managed")
			if diff := cmp.Diff(tc.want, got, compareAddr, compareBig, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithoutAddress(t *testing.T) {
	got := withoutAddress(ipam.Result{
		Assignments: []ipam.Assignment{has("moved", from("lan-pool", "192.168.1.201")...)},
		Refusals:    []ipam.Refusal{refusal("moved", ipam.AddressTaken, "held by another"), refusal("waits", ipam.PoolExhausted, "all in use")},
	})
	want := []ipam.Refusal{refusal("waits", ipam.PoolExhausted, "all in use")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refusals of who has nothing (-want +got):\n%s", diff)
	}
}

// TestUntold lets passes follow each other: each says what the ones before it did not.
func TestUntold(t *testing.T) {
	full := refusal("lb", ipam.PoolExhausted, "all in use")
	clash := refusal("lb", ipam.AddressTaken, "held by another")
	again := asking("lb", func(s *corev1.Service) { s.UID = "uid-of-its-successor" })
	type pass struct {
		service  *corev1.Service
		refusals []ipam.Refusal
		want     []ipam.Refusal
	}
	for name, passes := range map[string][]pass{
		"a refusal is said once": {
			{refusals: []ipam.Refusal{full}, want: []ipam.Refusal{full}},
			{refusals: []ipam.Refusal{full}},
		},
		"two refusals of one Service are each said once": {
			{refusals: []ipam.Refusal{clash, full}, want: []ipam.Refusal{clash, full}},
			{refusals: []ipam.Refusal{clash, full}},
		},
		"another reason is said": {
			{refusals: []ipam.Refusal{full}, want: []ipam.Refusal{full}},
			{refusals: []ipam.Refusal{clash}, want: []ipam.Refusal{clash}},
		},
		"a refusal that ended is said again when it returns": {
			{refusals: []ipam.Refusal{full}, want: []ipam.Refusal{full}},
			{},
			{refusals: []ipam.Refusal{full}, want: []ipam.Refusal{full}},
		},
		"a Service that was made anew has not heard it": {
			{refusals: []ipam.Refusal{full}, want: []ipam.Refusal{full}},
			{service: again, refusals: []ipam.Refusal{full}, want: []ipam.Refusal{full}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var told map[saying]bool
			for i, p := range passes {
				if p.service == nil {
					p.service = asking("lb")
				}
				var got []ipam.Refusal
				got, told = untold(told, demandOf([]*corev1.Service{p.service}, nil, rules{}), p.refusals)
				if diff := cmp.Diff(p.want, got); diff != "" {
					t.Errorf("pass %d says (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// TestAContestedServiceHasNoAddress: it does not show the one that it was given.
func TestAContestedServiceHasNoAddress(t *testing.T) {
	plan := ipam.Result{Assignments: []ipam.Assignment{has("a", from("lan-pool", "192.168.1.200")...), has("b", from("lan-pool", "192.168.1.201")...)}}
	contested := refusal("a", "StatusContested", "somebody takes it away")
	want := ipam.Result{Assignments: []ipam.Assignment{has("b", from("lan-pool", "192.168.1.201")...)}, Refusals: []ipam.Refusal{contested}}
	if diff := cmp.Diff(want, refusing(plan, []ipam.Refusal{contested}), compareAddr, compareBig); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(plan, refusing(plan, nil), compareAddr, compareBig); diff != "" {
		t.Errorf("plan without contested Services (-want +got):\n%s", diff)
	}
}
