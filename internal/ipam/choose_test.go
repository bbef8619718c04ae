package ipam

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// asking changes a request.
func asking(r Request, changes ...func(*Request)) Request {
	for _, change := range changes {
		change(&r)
	}
	return r
}

func forAddrs(texts ...string) func(*Request) { return func(r *Request) { r.Wants = addrs(texts...) } }
func forPool(name string) func(*Request)      { return func(r *Request) { r.Pool = name } }
func admittedTo(pools ...int) func(*Request) {
	return func(r *Request) { r.Admitted = append([]int{}, pools...) }
}
func of(families ...Family) func(*Request) { return func(r *Request) { r.Families = families } }

// TestWhatAServiceAsksFor is about three pools: one for all, one that is given on request only, one that excludes its first half.
func TestWhatAServiceAsksFor(t *testing.T) {
	pools := []Pool{
		{Name: "lan", Ranges: []Range{mustRange(t, "192.168.1.200-192.168.1.202")},
			Reservations: []Reservation{{Addr: netip.MustParseAddr("192.168.1.201"), For: "traefik/traefik"}}},
		{Name: "public", Ranges: []Range{mustRange(t, "203.0.113.0/29")}, Allocation: OnRequest},
		{Name: "six", Ranges: []Range{mustRange(t, "fd00::/120")}, Exclude: []Range{mustRange(t, "fd00::/121")}},
	}
	for name, tc := range map[string]struct {
		requests        []Request
		facts           Facts
		wantAssignments []Assignment
		wantRefusals    []Refusal
	}{
		"an address": {
			requests:        []Request{asking(wants("a/1", at(1)), forAddrs("192.168.1.202"))},
			wantAssignments: []Assignment{has("a/1", "lan", "192.168.1.202")},
		},
		"an address of each family": {
			requests: []Request{asking(wants("a/1", at(1)), of(IPv6, IPv4), forAddrs("192.168.1.202", "fd00::99"))},
			wantAssignments: []Assignment{{Service: "a/1", Addresses: []Holding{
				{Addr: netip.MustParseAddr("fd00::99"), Pool: "six"}, {Addr: netip.MustParseAddr("192.168.1.202"), Pool: "lan"}}}},
		},
		"an address that another Service has": {
			requests:        []Request{wants("a/1", at(1), "192.168.1.202"), asking(wants("a/2", at(2)), forAddrs("192.168.1.202"))},
			wantAssignments: []Assignment{has("a/1", "lan", "192.168.1.202")},
			wantRefusals: []Refusal{{"a/2", AddressTaken,
				"192.168.1.202, which this Service asks for, is held by Service a/1: ask for another, or give both the same sharing key"}},
		},
		"an address that a foreign host has": {
			requests: []Request{asking(wants("a/1", at(1)), forAddrs("192.168.1.202"))},
			facts:    Facts{Taken: []Taken{{Addr: netip.MustParseAddr("192.168.1.202"), By: "the host 02:00:00:00:00:09 on the LAN", Foreign: true}}},
			wantRefusals: []Refusal{{"a/1", AddressQuarantined, "192.168.1.202, which this Service asks for, is answered for by the host 02:00:00:00:00:09 on the LAN: " +
				"take it from that host, or ask for another"}},
		},
		"an address that no pool has": {
			requests:     []Request{asking(wants("a/1", at(1)), forAddrs("10.0.0.1"))},
			wantRefusals: []Refusal{{"a/1", NoPool, "no pool has 10.0.0.1, which this Service asks for: spec.ipPools has lan, public, six"}},
		},
		"an address of a pool that does not admit it": {
			requests: []Request{asking(wants("a/1", at(1)), forAddrs("192.168.1.202"), admittedTo(1))},
			wantRefusals: []Refusal{{"a/1", PoolNotAllowed,
				"pool lan, which has 192.168.1.202, does not admit this Service: see its allowedServices in spec.ipPools"}},
		},
		"an address that its pool excludes": {
			requests: []Request{asking(wants("a/1", at(1)), of(IPv6), forAddrs("fd00::1"))},
			wantRefusals: []Refusal{{"a/1", AddressWithheld,
				"fd00::1, which this Service asks for, is given to nobody: pool six excludes it"}},
		},
		"an address that is given to nobody": {
			requests: []Request{asking(wants("a/1", at(1)), forAddrs("192.168.1.202"))},
			facts:    Facts{Withheld: []Withheld{{mustRange(t, "192.168.1.202-192.168.1.202"), "the router of k8s-cp-01"}}},
			wantRefusals: []Refusal{{"a/1", AddressWithheld,
				"192.168.1.202, which this Service asks for, is given to nobody: it is the router of k8s-cp-01"}},
		},
		"an address that is reserved for another": {
			requests: []Request{asking(wants("a/1", at(1)), forAddrs("192.168.1.201"))},
			wantRefusals: []Refusal{{"a/1", AddressWithheld,
				"192.168.1.201, which this Service asks for, is kept for Service traefik/traefik: it is reserved in pool lan"}},
		},
		"an address that has not been asked for on the LAN": {
			requests: []Request{patient(asking(wants("a/1", at(1)), forAddrs("192.168.1.202")))},
			facts:    Facts{Links: []Range{mustRange(t, "192.168.1.0/24")}},
			wantRefusals: []Refusal{{"a/1", AddressUnverified,
				"192.168.1.202 is next, and the speakers are asking the LAN whether anybody has it"}},
		},
		"addresses of one family only, where it needs both": {
			requests: []Request{asking(wants("a/1", at(1)), of(IPv4, IPv6), forAddrs("192.168.1.202"), func(r *Request) { r.Need = NeedAll })},
			wantRefusals: []Refusal{{"a/1", InvalidRequest, "it asks for 192.168.1.202, of which none is IPv6: " +
				"ask for one of each of its families, or leave IPv6 out of its ipFamilies"}},
		},
		"an address of one family only, where it likes both": {
			requests:        []Request{asking(wants("a/1", at(1)), of(IPv4, IPv6), forAddrs("192.168.1.202"))},
			wantAssignments: []Assignment{has("a/1", "lan", "192.168.1.202")},
		},
		"a pool that is given on request": {
			requests:        []Request{asking(wants("a/1", at(1)), forPool("public")), wants("a/2", at(2))},
			wantAssignments: []Assignment{has("a/1", "public", "203.0.113.0"), has("a/2", "lan", "192.168.1.200")},
		},
		"a pool and an address of another": {
			requests: []Request{asking(wants("a/1", at(1)), forPool("lan"), forAddrs("203.0.113.1"))},
			wantRefusals: []Refusal{{"a/1", InvalidRequest,
				"it asks for 203.0.113.1 and for pool lan, but pool public has that address: ask for one of the two"}},
		},
		"a pool that there is not": {
			requests:     []Request{asking(wants("a/1", at(1)), forPool("wan"))},
			wantRefusals: []Refusal{{"a/1", NoPool, `there is no pool "wan", which this Service asks for: spec.ipPools has lan, public, six`}},
		},
		"a pool that does not admit it": {
			requests:     []Request{asking(wants("a/1", at(1)), forPool("public"), admittedTo(0, 2))},
			wantRefusals: []Refusal{{"a/1", PoolNotAllowed, "pool public, which this Service asks for, does not admit it: see its allowedServices in spec.ipPools"}},
		},
		"a pool without its family": {
			requests: []Request{asking(wants("a/1", at(1)), of(IPv6), forPool("lan"))},
			wantRefusals: []Refusal{{"a/1", FamilyUnavailable,
				"pool lan, which this Service asks for, has no IPv6 addresses: add a range to it in spec.ipPools"}},
		},
		"nothing, and no pool admits it": {
			requests: []Request{asking(wants("a/1", at(1)), admittedTo(1))},
			wantRefusals: []Refusal{{"a/1", PoolNotAllowed,
				"no pool with IPv4 addresses admits this Service without being asked for by name: see allowedServices and allocation in spec.ipPools"}},
		},
		"something that cannot be read": {
			requests: []Request{asking(wants("a/1", at(1)), func(r *Request) { r.Invalid = "its annotation is odd" }),
				asking(wants("a/2", at(1), "192.168.1.200"), func(r *Request) { r.Invalid = "its annotation is odd" })},
			wantAssignments: []Assignment{has("a/2", "lan", "192.168.1.200")},
			wantRefusals:    []Refusal{{"a/1", InvalidRequest, "its annotation is odd"}, {"a/2", InvalidRequest, "its annotation is odd"}},
		},
		"another address than it has: it moves": {
			requests:        []Request{asking(wants("a/1", at(1), "192.168.1.200"), forAddrs("192.168.1.202"))},
			wantAssignments: []Assignment{has("a/1", "lan", "192.168.1.202")},
		},
		"another address than it has, which somebody has: it keeps what it has": {
			requests:        []Request{asking(wants("a/1", at(1), "192.168.1.200"), forAddrs("192.168.1.202")), wants("a/2", at(2), "192.168.1.202")},
			wantAssignments: []Assignment{has("a/1", "lan", "192.168.1.200"), has("a/2", "lan", "192.168.1.202")},
			wantRefusals: []Refusal{{"a/1", AddressTaken,
				"192.168.1.202, which this Service asks for, is held by Service a/2: ask for another, or give both the same sharing key"}},
		},
		"another pool than that of its address: it moves": {
			requests:        []Request{asking(wants("a/1", at(1), "192.168.1.200"), forPool("public"))},
			wantAssignments: []Assignment{has("a/1", "public", "203.0.113.0")},
		},
		"the address that it has, which its pool excludes now: it keeps it": {
			requests:        []Request{asking(wants("a/1", at(1), "fd00::1"), of(IPv6), forAddrs("fd00::1"))},
			wantAssignments: []Assignment{has("a/1", "six", "fd00::1")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.Pools, tc.facts.Requests = pools, tc.requests
			got := planned(tc.facts)
			if diff := cmp.Diff(tc.wantAssignments, got.Assignments, compareAddr, emptyIsNone); diff != "" {
				t.Errorf("assignments (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantRefusals, got.Refusals); diff != "" {
				t.Errorf("refusals (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPoolsAreTriedInTheOrderInWhichTheyAreBest(t *testing.T) {
	pools := []Pool{{Name: "one", Ranges: []Range{mustRange(t, "10.0.0.1-10.0.0.1")}}, {Name: "two", Ranges: []Range{mustRange(t, "10.0.0.2-10.0.0.2")}}}
	got := Plan(Facts{Pools: pools, Requests: []Request{
		asking(wants("a/1", at(1)), admittedTo(1, 0)), asking(wants("a/2", at(2)), admittedTo(1, 0)), asking(wants("a/3", at(3)), admittedTo(1, 0))}})
	want := []Assignment{has("a/1", "two", "10.0.0.2"), has("a/2", "one", "10.0.0.1")}
	if diff := cmp.Diff(want, got.Assignments, compareAddr); diff != "" {
		t.Errorf("assignments (-want +got):\n%s", diff)
	}
	wantRefusals := []Refusal{{"a/3", PoolExhausted, "every IPv4 address of pool two, one is in use: add a range to spec.ipPools, or delete a Service that is not needed"}}
	if diff := cmp.Diff(wantRefusals, got.Refusals); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
}

// TestWhatIsKeptForAService: reservations, and addresses that were given back a moment ago.
func TestWhatIsKeptForAService(t *testing.T) {
	pools := []Pool{{Name: "lan", Ranges: []Range{mustRange(t, "192.168.1.200-192.168.1.203")},
		Reservations: []Reservation{{Addr: netip.MustParseAddr("192.168.1.201"), For: "traefik/traefik"}}}}
	cooling := []Cooling{{Addr: netip.MustParseAddr("192.168.1.200"), Had: "default/former"}}
	for name, tc := range map[string]struct {
		requests []Request
		want     []Assignment
	}{
		"others pass both over": {
			requests: []Request{wants("a/1", at(1)), wants("a/2", at(2)), wants("a/3", at(3))},
			want:     []Assignment{has("a/1", "lan", "192.168.1.202"), has("a/2", "lan", "192.168.1.203")},
		},
		"who has the reservation gets it, however late": {
			requests: []Request{wants("a/1", at(1)), wants("traefik/traefik", at(9))},
			want:     []Assignment{has("a/1", "lan", "192.168.1.202"), has("traefik/traefik", "lan", "192.168.1.201")},
		},
		"who has the reservation and another address keeps that": {
			requests: []Request{wants("traefik/traefik", at(9), "192.168.1.203")},
			want:     []Assignment{has("traefik/traefik", "lan", "192.168.1.203")},
		},
		"who holds what is reserved for another keeps it": {
			requests: []Request{wants("a/1", at(1), "192.168.1.201"), wants("traefik/traefik", at(9))},
			want:     []Assignment{has("a/1", "lan", "192.168.1.201"), has("traefik/traefik", "lan", "192.168.1.202")},
		},
		"who had what cools gets it back": {
			requests: []Request{wants("default/former", at(9))},
			want:     []Assignment{has("default/former", "lan", "192.168.1.200")},
		},
		"who has another address, and asks for the one that is reserved for it, moves there": {
			requests: []Request{asking(wants("traefik/traefik", at(9), "192.168.1.203"), forAddrs("192.168.1.201"), admittedTo())},
			want:     []Assignment{has("traefik/traefik", "lan", "192.168.1.201")},
		},
		"who needs both families and can have one gets none, whatever it has a reservation for": {
			requests: []Request{asking(wants("traefik/traefik", at(9)), of(IPv4, IPv6), func(r *Request) { r.Need = NeedAll })},
		},
		"memory is no way around a reservation": {
			requests: []Request{asking(wants("a/1", at(1)), func(r *Request) { r.Remembers = memory("192.168.1.201", "192.168.1.200") })},
			want:     []Assignment{has("a/1", "lan", "192.168.1.202")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := planned(Facts{Pools: pools, Requests: tc.requests, Cooling: cooling})
			if diff := cmp.Diff(tc.want, got.Assignments, compareAddr, emptyIsNone); diff != "" {
				t.Errorf("assignments (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAFamilyThatIsGivenUpGoes: of a Service that goes from RequireDualStack to SingleStack, Kubernetes takes the second ClusterIP too.
func TestAFamilyThatIsGivenUpGoes(t *testing.T) {
	pools := []Pool{{Name: "lan", Ranges: []Range{mustRange(t, "192.168.1.200-192.168.1.203")}}, {Name: "six", Ranges: []Range{mustRange(t, "fd00::/120")}}}
	for name, tc := range map[string]struct {
		request Request
		want    []Assignment
	}{
		"from two to one":                    {wants("a/1", at(1), "192.168.1.200", "fd00::"), []Assignment{has("a/1", "lan", "192.168.1.200")}},
		"from one to the other":              {asking(wants("a/1", at(1), "192.168.1.200"), of(IPv6)), []Assignment{has("a/1", "six", "fd00::")}},
		"not from one that is being deleted": {asking(wants("a/1", at(1), "fd00::"), func(r *Request) { r.Standing = Leaving }), []Assignment{has("a/1", "six", "fd00::")}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, planned(Facts{Pools: pools, Requests: []Request{tc.request}}).Assignments, compareAddr); diff != "" {
				t.Errorf("assignments (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatIsWithheldIsPassedOver, however large it is: a pool of which most is withheld is not counted through.
func TestWhatIsWithheldIsPassedOver(t *testing.T) {
	pools := []Pool{{Name: "six", Ranges: []Range{mustRange(t, "fd00::/64")}, Exclude: []Range{mustRange(t, "fd00::/66")}}}
	got := planned(Facts{Pools: pools, Requests: []Request{asking(wants("a/1", at(1)), of(IPv6))},
		Withheld: []Withheld{{mustRange(t, "fd00::4000:0:0:0/66"), "the pod network"}}})
	if diff := cmp.Diff([]Assignment{has("a/1", "six", "fd00::8000:0:0:0")}, got.Assignments, compareAddr); diff != "" {
		t.Errorf("assignments (-want +got):\n%s", diff)
	}
}
