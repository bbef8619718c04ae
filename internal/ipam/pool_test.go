package ipam

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var compareAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func TestParsePools(t *testing.T) {
	lan := PoolText{Name: "lan", Addresses: []string{"192.168.1.200-192.168.1.210"}}
	for name, tc := range map[string]struct {
		texts        []PoolText
		want         []Pool
		wantProblems []Problem
	}{
		"ranges of a pool are sorted by address": {
			texts: []PoolText{{Name: "lan", Addresses: []string{"10.0.0.8/30", "10.0.0.0/30"}}},
			want:  []Pool{{Name: "lan", Ranges: []Range{mustRange(t, "10.0.0.0/30"), mustRange(t, "10.0.0.8/30")}}},
		},
		"a reversed range is named by its place": {
			texts:        []PoolText{lan, {Name: "b", Addresses: []string{"10.0.0.0/30", "10.0.1.9-10.0.1.1"}}},
			wantProblems: []Problem{{Pool: 1, Field: InAddresses, Index: 1, Message: `"10.0.1.9-10.0.1.1" ends before it begins: write 10.0.1.1-10.0.1.9`}},
		},
		"pools that overlap": {
			texts: []PoolText{lan, {Name: "b", Addresses: []string{"192.168.1.208/28"}}},
			wantProblems: []Problem{{Pool: 1, Field: InAddresses, Index: 0, Message: `"192.168.1.208/28" overlaps "192.168.1.200-192.168.1.210" of pool "lan": ` +
				`an address belongs to one pool, so take it out of one of the two`}},
		},
		"ranges of one pool that overlap": {
			texts: []PoolText{{Name: "lan", Addresses: []string{"10.0.0.0/24", "10.0.0.255-10.0.1.3"}}},
			wantProblems: []Problem{{Pool: 0, Field: InAddresses, Index: 1, Message: `"10.0.0.255-10.0.1.3" overlaps "10.0.0.0/24" of pool "lan": ` +
				`an address belongs to one pool, so take it out of one of the two`}},
		},
		"what is excluded and reserved lies in the pool": {
			texts: []PoolText{{Name: "lan", Addresses: []string{"10.0.0.0/24"}, Exclude: []string{"10.0.0.9", "10.0.0.16/28", "10.0.0.250-10.0.1.3"},
				Allocation: OnRequest, Reservations: []ReservationText{{"10.0.0.10", "traefik/traefik"}}}},
			want: []Pool{{Name: "lan", Ranges: []Range{mustRange(t, "10.0.0.0/24")}, Allocation: OnRequest,
				Exclude:      []Range{mustRange(t, "10.0.0.9-10.0.0.9"), mustRange(t, "10.0.0.16/28"), mustRange(t, "10.0.0.250-10.0.1.3")},
				Reservations: []Reservation{{Addr: netip.MustParseAddr("10.0.0.10"), For: "traefik/traefik"}}}},
		},
		"what is excluded and reserved does not": {
			texts: []PoolText{{Name: "lan", Addresses: []string{"10.0.0.0/24"}, Exclude: []string{"10.0.0.9", "10.0.1.0/24", "10.0.0.9/24"},
				Reservations: []ReservationText{{"10.0.1.1", "a/1"}, {"10.0.0.9", "a/2"}, {"ten", "a/3"}, {"10.0.0.1", "a/4"}, {"10.0.0.1", "a/5"}}}},
			wantProblems: []Problem{
				{Field: InExclude, Index: 1, Message: `"10.0.1.0/24" is no part of the pool's addresses: leave it out, or correct it`},
				{Field: InExclude, Index: 2, Message: `"10.0.0.9/24" has host bits set: the network is 10.0.0.0/24; write that, or a range FIRST-LAST for a part of it`},
				{Field: InReservations, Index: 0, Message: "10.0.1.1 is no part of the pool's addresses: reserve one that is, or add it to them"},
				{Field: InReservations, Index: 1, Message: "10.0.0.9 is excluded from the pool: take it out of exclude, or reserve another"},
				{Field: InReservations, Index: 2, Message: `"ten" is no address: write one, like 192.168.1.200`},
				{Field: InReservations, Index: 4, Message: "10.0.0.1 is reserved twice: leave one of the two"},
			},
		},
		"neighbours do not overlap": {
			texts: []PoolText{{Name: "a", Addresses: []string{"10.0.0.0/25"}}, {Name: "b", Addresses: []string{"10.0.0.128/25"}}},
			want: []Pool{{Name: "a", Ranges: []Range{mustRange(t, "10.0.0.0/25")}},
				{Name: "b", Ranges: []Range{mustRange(t, "10.0.0.128/25")}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, problems := ParsePools(tc.texts)
			if diff := cmp.Diff(tc.want, got, compareAddr); diff != "" {
				t.Errorf("pools (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantProblems, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
