package ipam

import (
	"math/big"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var compareBig = cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })

// at is a moment, in minutes after the cluster's first.
func at(minute int) time.Time { return time.Unix(int64(minute)*60, 0) }

// wants is a Service that asks for one IPv4 address.
func wants(service string, created time.Time, holds ...string) Request {
	return Request{Service: service, Created: created, Families: []Family{IPv4}, Holds: addrs(holds...)}
}

// patient is a request that waits until the LAN was asked.
func patient(r Request) Request {
	r.Patience = Patient
	return r
}

// memory is what a Service once had from the tutorial's pool.
func memory(texts ...string) []Holding { return has("", "lan", texts...).Addresses }

// planned is the plan where every pool admits every request that does not say otherwise.
func planned(f Facts) Result {
	f.Requests = slices.Clone(f.Requests)
	for i := range f.Requests {
		if f.Requests[i].Admitted == nil {
			for j := range f.Pools {
				f.Requests[i].Admitted = append(f.Requests[i].Admitted, j)
			}
		}
	}
	return Plan(f)
}

func has(service, pool string, texts ...string) Assignment {
	a := Assignment{Service: service}
	for _, addr := range addrs(texts...) {
		a.Addresses = append(a.Addresses, Holding{Addr: addr, Pool: pool})
	}
	return a
}

func TestPlan(t *testing.T) {
	tutorial := []Pool{{Name: "lan", Ranges: []Range{mustRange(t, "192.168.1.200-192.168.1.202")}}}
	dual := append(slices.Clone(tutorial), Pool{Name: "six", Ranges: []Range{mustRange(t, "fd00::/120")}})
	both := []Family{IPv4, IPv6}
	for name, tc := range map[string]struct {
		pools           []Pool
		requests        []Request
		taken           []Taken
		verified        []Range
		wantAssignments []Assignment
		wantRefusals    []Refusal
	}{
		"the first Service gets the lowest address": {
			pools:           tutorial,
			requests:        []Request{wants("default/lb-test", at(1))},
			wantAssignments: []Assignment{has("default/lb-test", "lan", "192.168.1.200")},
		},
		"the longest-waiting is served first, whatever its name": {
			pools:           tutorial,
			requests:        []Request{wants("a/young", at(9)), wants("z/old", at(1))},
			wantAssignments: []Assignment{has("a/young", "lan", "192.168.1.201"), has("z/old", "lan", "192.168.1.200")},
		},
		"what is held stays held, and the gap below it is filled": {
			pools:           tutorial,
			requests:        []Request{wants("a/old", at(1)), wants("b/holder", at(9), "192.168.1.201")},
			wantAssignments: []Assignment{has("a/old", "lan", "192.168.1.200"), has("b/holder", "lan", "192.168.1.201")},
		},
		"a holder keeps an address that no pool has any more": {
			pools:           tutorial,
			requests:        []Request{wants("a/holder", at(1), "10.0.0.9")},
			wantAssignments: []Assignment{has("a/holder", "", "10.0.0.9")},
		},
		"a holder keeps its address when every pool is gone": {
			requests:        []Request{wants("a/holder", at(1), "192.168.1.200")},
			wantAssignments: []Assignment{has("a/holder", "", "192.168.1.200")},
		},
		"a Service that is being deleted keeps what it has and gets nothing new": {
			pools: tutorial,
			requests: []Request{
				{Service: "a/going", Created: at(1), Families: []Family{IPv4}, Standing: Leaving},
				{Service: "b/going", Created: at(2), Families: []Family{IPv4}, Standing: Leaving, Holds: addrs("192.168.1.200")},
				wants("c/new", at(3)),
			},
			wantAssignments: []Assignment{has("b/going", "lan", "192.168.1.200"), has("c/new", "lan", "192.168.1.201")},
		},
		"two Services with one address: the older keeps it, the younger gets another": {
			pools:           tutorial,
			requests:        []Request{wants("a/young", at(9), "192.168.1.200"), wants("z/old", at(1), "192.168.1.200")},
			wantAssignments: []Assignment{has("a/young", "lan", "192.168.1.201"), has("z/old", "lan", "192.168.1.200")},
			wantRefusals: []Refusal{{Service: "a/young", Reason: AddressTaken,
				Message: "192.168.1.200 is held by Service z/old too, which had it first: " +
					"this Service gets another as soon as a pool has one, so change what points to 192.168.1.200"}},
		},
		"an address on a node's interface is not given": {
			pools:           tutorial,
			requests:        []Request{wants("a/new", at(1))},
			taken:           []Taken{{Addr: netip.MustParseAddr("192.168.1.200"), By: "node k8s-cp-01, interface eth0"}},
			wantAssignments: []Assignment{has("a/new", "lan", "192.168.1.201")},
		},
		"a Service that waits gets back what it once had, before an older newcomer": {
			pools: tutorial,
			requests: []Request{wants("a/older", at(1)),
				{Service: "b/back", Created: at(2), Families: []Family{IPv4}, Remembers: memory("192.168.1.200", "192.168.1.201")}},
			wantAssignments: []Assignment{has("a/older", "lan", "192.168.1.201"), has("b/back", "lan", "192.168.1.200")},
		},
		"memory is no title: an address outside the pools, or somebody else's, is not given back": {
			pools: tutorial,
			requests: []Request{wants("a/holder", at(9), "192.168.1.202"),
				{Service: "b/forger", Created: at(2), Families: []Family{IPv4}, Remembers: memory("10.0.0.1", "192.168.1.202")}},
			wantAssignments: []Assignment{has("a/holder", "lan", "192.168.1.202"), has("b/forger", "lan", "192.168.1.200")},
		},
		"no pool at all": {
			requests: []Request{wants("a/new", at(1))},
			wantRefusals: []Refusal{{Service: "a/new", Reason: NoPool,
				Message: `there is no pool: add one under spec.ipPools of ClusterNetworking "cluster"`}},
		},
		"a full pool": {
			pools:    tutorial,
			requests: []Request{wants("a/1", at(1)), wants("a/2", at(2)), wants("a/3", at(3)), wants("a/4", at(4))},
			wantAssignments: []Assignment{has("a/1", "lan", "192.168.1.200"), has("a/2", "lan", "192.168.1.201"),
				has("a/3", "lan", "192.168.1.202")},
			wantRefusals: []Refusal{{Service: "a/4", Reason: PoolExhausted,
				Message: "every IPv4 address of pool lan is in use: add a range to spec.ipPools, or delete a Service that is not needed"}},
		},
		"the next pool serves when the first is full": {
			pools:           []Pool{{Name: "one", Ranges: []Range{mustRange(t, "10.0.0.1/32")}}, tutorial[0]},
			requests:        []Request{wants("a/1", at(1)), wants("a/2", at(2))},
			wantAssignments: []Assignment{has("a/1", "one", "10.0.0.1"), has("a/2", "lan", "192.168.1.200")},
		},
		"a family that no pool has": {
			pools:    tutorial,
			requests: []Request{{Service: "a/six", Created: at(1), Families: []Family{IPv6}}},
			wantRefusals: []Refusal{{Service: "a/six", Reason: FamilyUnavailable,
				Message: "no pool has IPv6 addresses: add a range to spec.ipPools, or ask for the other family in the Service's ipFamilies"}},
		},
		"PreferDualStack is content with one family": {
			pools:           tutorial,
			requests:        []Request{{Service: "a/dual", Created: at(1), Families: []Family{IPv6, IPv4}}},
			wantAssignments: []Assignment{has("a/dual", "lan", "192.168.1.200")},
		},
		"RequireDualStack takes both or none": {
			pools:           tutorial,
			requests:        []Request{{Service: "a/dual", Created: at(1), Families: both, Need: NeedAll}, wants("b/new", at(2))},
			wantAssignments: []Assignment{has("b/new", "lan", "192.168.1.200")},
			wantRefusals: []Refusal{{Service: "a/dual", Reason: FamilyUnavailable,
				Message: "no pool has IPv6 addresses: add a range to spec.ipPools, or ask for the other family in the Service's ipFamilies"}},
		},
		"the second family is added when a pool has it, and the first does not move": {
			pools:    dual,
			requests: []Request{{Service: "a/dual", Created: at(1), Families: both, Holds: addrs("192.168.1.202")}},
			wantAssignments: []Assignment{{Service: "a/dual", Addresses: []Holding{
				{Addr: netip.MustParseAddr("192.168.1.202"), Pool: "lan"}, {Addr: netip.MustParseAddr("fd00::"), Pool: "six"}}}},
		},
		"what a foreign host has is given to nobody": {
			pools: tutorial, requests: []Request{wants("a/1", at(1)), wants("a/2", at(2)), wants("a/3", at(3))},
			taken:           []Taken{{Addr: netip.MustParseAddr("192.168.1.200"), By: "the host 02:00:00:00:00:09", Foreign: true}},
			wantAssignments: []Assignment{has("a/1", "lan", "192.168.1.201"), has("a/2", "lan", "192.168.1.202")},
			wantRefusals: []Refusal{{Service: "a/3", Reason: PoolExhausted, Message: "every IPv4 address of pool lan is in use (1 by foreign hosts, " +
				"see status.quarantinedIPs): add a range to spec.ipPools, or delete a Service that is not needed"}},
		},
		"who is patient waits until the LAN was asked for the next address, and takes no later one instead": {
			pools: tutorial, requests: []Request{patient(wants("a/1", at(1)))}, verified: []Range{mustRange(t, "192.168.1.201-192.168.1.202")},
			wantRefusals: []Refusal{{Service: "a/1", Reason: AddressUnverified,
				Message: "192.168.1.200 is next, and the speakers are asking the LAN whether anybody has it"}},
		},
		"who is patient does not wait for an address that is on no link: nobody can ask for it": {
			pools:           []Pool{{Name: "far", Ranges: []Range{mustRange(t, "203.0.113.0/30")}}},
			requests:        []Request{patient(wants("a/1", at(1)))},
			wantAssignments: []Assignment{has("a/1", "far", "203.0.113.0")},
		},
		"and gets it then": {
			pools: tutorial, requests: []Request{patient(wants("a/1", at(1)))}, verified: []Range{mustRange(t, "192.168.1.200-192.168.1.200")},
			wantAssignments: []Assignment{has("a/1", "lan", "192.168.1.200")},
		},
		"who has waited long enough takes it, and who waits does not stand in its way": {
			pools: tutorial, requests: []Request{patient(wants("a/1", at(1))), wants("a/2", at(2))},
			wantAssignments: []Assignment{has("a/2", "lan", "192.168.1.200")},
			wantRefusals: []Refusal{{Service: "a/1", Reason: AddressUnverified,
				Message: "192.168.1.200 is next, and the speakers are asking the LAN whether anybody has it"}},
		},
		"what is held, or remembered, needs no verification": {
			pools: tutorial, requests: []Request{patient(wants("a/1", at(1), "192.168.1.200")),
				patient(Request{Service: "a/2", Created: at(2), Families: []Family{IPv4}, Remembers: memory("192.168.1.202")})},
			wantAssignments: []Assignment{has("a/1", "lan", "192.168.1.200"), has("a/2", "lan", "192.168.1.202")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := planned(Facts{Pools: tc.pools, Requests: tc.requests, Taken: tc.taken, Verified: tc.verified, Links: []Range{mustRange(t, "192.168.1.0/24")}})
			if diff := cmp.Diff(tc.wantAssignments, got.Assignments, compareAddr, emptyIsNone); diff != "" {
				t.Errorf("assignments (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantRefusals, got.Refusals); diff != "" {
				t.Errorf("refusals (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPlanCountsPools has a Service in the pool, and two that have what it does not give any more; and addresses that a node has, a foreign host,
// and two Services that do not exist: nobody's to give, but no Service's either.
func TestPlanCountsPools(t *testing.T) {
	pools := []Pool{
		{Name: "lan", Ranges: []Range{mustRange(t, "192.168.1.200-192.168.1.210")}, Exclude: []Range{mustRange(t, "192.168.1.209-192.168.1.210")},
			Reservations: []Reservation{{Addr: netip.MustParseAddr("192.168.1.207"), For: "a/later"}, {Addr: netip.MustParseAddr("192.168.1.208"), For: "a/last"}}},
		{Name: "six", Ranges: []Range{mustRange(t, "fd00::/64")}},
	}
	drained := wants("a/drained", at(2), "10.0.0.1")
	drained.Remembers = []Holding{{Addr: netip.MustParseAddr("10.0.0.1"), Pool: "lan"}}
	got := planned(Facts{Pools: pools, Requests: []Request{wants("a/1", at(1)), drained, wants("a/excluded", at(3), "192.168.1.210"), wants("a/nowhere", at(4), "10.0.0.2")},
		Taken: []Taken{{Addr: netip.MustParseAddr("192.168.1.205"), By: "node n, interface eth0"},
			{Addr: netip.MustParseAddr("192.168.1.206"), By: "a host", Foreign: true}, {Addr: netip.MustParseAddr("10.9.9.9"), Foreign: true},
			{Addr: netip.MustParseAddr("192.168.1.209"), By: "another host", Foreign: true}},
		Withheld: []Withheld{{Range: mustRange(t, "fd00::/128")}},
		Cooling:  []Cooling{{Addr: netip.MustParseAddr("192.168.1.203"), Had: "a/former"}}}).Pools
	huge, _ := new(big.Int).SetString("18446744073709551615", 10) // 2^64, less the one that is withheld
	want := []Usage{
		{Pool: "lan", Total: big.NewInt(9), Allocated: big.NewInt(1), Available: big.NewInt(3), Quarantined: big.NewInt(1), Draining: big.NewInt(2)},
		{Pool: "six", Total: huge, Allocated: big.NewInt(0), Available: huge, Quarantined: big.NewInt(0), Draining: big.NewInt(0)},
	}
	if diff := cmp.Diff(want, got, compareBig); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}
