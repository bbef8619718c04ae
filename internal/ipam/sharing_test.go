package ipam

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// emptyIsNone makes no difference between an empty list and none.
var emptyIsNone = cmpopts.EquateEmpty()

// sharing is a request that shares an address with those of the same key, and has these ports of TCP.
func sharing(key string, ports ...uint16) func(*Request) {
	return func(r *Request) {
		r.Sharing.Key = key
		for _, p := range ports {
			r.Sharing.Ports = append(r.Sharing.Ports, Port{"TCP", p})
		}
	}
}

func locally(selector string) func(*Request) {
	return func(r *Request) { r.Sharing.Backends = selector }
}
func across(namespaces ...string) func(*Request) {
	return func(r *Request) { r.Sharing.Namespaces = namespaces }
}

func TestSharing(t *testing.T) {
	pools := []Pool{{Name: "lan", Ranges: []Range{mustRange(t, "192.168.1.200-192.168.1.202")}}}
	const first, second = "192.168.1.200", "192.168.1.201"
	for name, tc := range map[string]struct {
		requests     []Request
		want         []Assignment
		wantRefusals []Refusal
	}{
		"the same key and other ports: one address": {
			requests: []Request{asking(wants("a/1", at(1)), sharing("k", 80)), asking(wants("a/2", at(2)), sharing("k", 443)), asking(wants("a/3", at(3)), sharing("k", 22))},
			want:     []Assignment{has("a/1", "lan", first), has("a/2", "lan", first), has("a/3", "lan", first)},
		},
		"the same port: two addresses": {
			requests: []Request{asking(wants("a/1", at(1)), sharing("k", 80)), asking(wants("a/2", at(2)), sharing("k", 80))},
			want:     []Assignment{has("a/1", "lan", first), has("a/2", "lan", second)},
		},
		"the port of the third, and not of the first: two addresses": {
			requests: []Request{asking(wants("a/1", at(1)), sharing("k", 80)), asking(wants("a/2", at(2)), sharing("k", 443)), asking(wants("a/3", at(3)), sharing("k", 443))},
			want:     []Assignment{has("a/1", "lan", first), has("a/2", "lan", first), has("a/3", "lan", second)},
		},
		"the same number of another protocol: one address": {
			requests: []Request{asking(wants("a/1", at(1)), sharing("k", 53)), asking(wants("a/2", at(2)), sharing("k"), func(r *Request) { r.Sharing.Ports = []Port{{"UDP", 53}} })},
			want:     []Assignment{has("a/1", "lan", first), has("a/2", "lan", first)},
		},
		"another key: two addresses": {
			requests: []Request{asking(wants("a/1", at(1)), sharing("k", 80)), asking(wants("a/2", at(2)), sharing("l", 443))},
			want:     []Assignment{has("a/1", "lan", first), has("a/2", "lan", second)},
		},
		"Local for both, with one selector: one address": {
			requests: []Request{asking(wants("a/1", at(1)), sharing("k", 80), locally("app=web")), asking(wants("a/2", at(2)), sharing("k", 443), locally("app=web"))},
			want:     []Assignment{has("a/1", "lan", first), has("a/2", "lan", first)},
		},
		"Local for one: two addresses, as one node answers for both": {
			requests: []Request{asking(wants("a/1", at(1)), sharing("k", 80), locally("app=web")), asking(wants("a/2", at(2)), sharing("k", 443))},
			want:     []Assignment{has("a/1", "lan", first), has("a/2", "lan", second)},
		},
		"another namespace: two addresses": {
			requests: []Request{asking(wants("a/1", at(1)), sharing("k", 80)), asking(wants("b/1", at(2)), sharing("k", 443), across("a"))},
			want:     []Assignment{has("a/1", "lan", first), has("b/1", "lan", second)},
		},
		"another namespace, and both name the other: one address": {
			requests: []Request{asking(wants("a/1", at(1)), sharing("k", 80), across("*")), asking(wants("b/1", at(2)), sharing("k", 443), across("a"))},
			want:     []Assignment{has("a/1", "lan", first), has("b/1", "lan", first)},
		},
		"an address that is asked for": {
			requests: []Request{asking(wants("a/1", at(1), second), sharing("k", 80)), asking(wants("a/2", at(2)), sharing("k", 443), forAddrs(second))},
			want:     []Assignment{has("a/1", "lan", second), has("a/2", "lan", second)},
		},
		"an address that is asked for, with a port that is in use there": {
			requests: []Request{asking(wants("a/1", at(1), second), sharing("k", 80)), asking(wants("a/2", at(2)), sharing("k", 80), forAddrs(second))},
			want:     []Assignment{has("a/1", "lan", second)},
			wantRefusals: []Refusal{{"a/2", AddressTaken,
				"192.168.1.201, which this Service asks for, is held by Service a/1, and they cannot share it: both have port TCP 80"}},
		},
		"what is shared stays shared": {
			requests: []Request{asking(wants("a/1", at(1), second), sharing("k", 80)), asking(wants("a/2", at(2), second), sharing("k", 443))},
			want:     []Assignment{has("a/1", "lan", second), has("a/2", "lan", second)},
		},
		"what is shared across namespaces stays shared, as MetalLB gave it": {
			requests: []Request{asking(wants("a/1", at(1), second), sharing("k", 80)), asking(wants("b/2", at(2), second), sharing("k", 443))},
			want:     []Assignment{has("a/1", "lan", second), has("b/2", "lan", second)},
		},
		"a member that changes so that it cannot share: the younger goes": {
			requests: []Request{asking(wants("a/1", at(1), second), sharing("k", 80)), asking(wants("a/2", at(2), second), sharing("k", 443), locally("app=web"))},
			want:     []Assignment{has("a/1", "lan", second), has("a/2", "lan", first)},
			wantRefusals: []Refusal{{"a/2", AddressTaken, "192.168.1.201 is held by Service a/1 too, which had it first and they cannot share it " +
				"(with externalTrafficPolicy Local both need it, and the same selector): " +
				"this Service gets another as soon as a pool has one, so change what points to 192.168.1.201"}},
		},
		"a member that goes elsewhere, and shares no longer: it goes, and not the younger": {
			requests: []Request{asking(wants("a/1", at(1), second), forAddrs("192.168.1.202")), asking(wants("a/2", at(2), second), sharing("k", 443))},
			want:     []Assignment{has("a/1", "lan", "192.168.1.202"), has("a/2", "lan", second)},
		},
		"a member that would go elsewhere and cannot, and shares no longer: the younger goes": {
			requests: []Request{asking(wants("a/1", at(1), second), forAddrs("10.0.0.1")), asking(wants("a/2", at(2), second), sharing("k", 443))},
			want:     []Assignment{has("a/1", "lan", second), has("a/2", "lan", first)},
			wantRefusals: []Refusal{{"a/1", NoPool, "no pool has 10.0.0.1, which this Service asks for: spec.ipPools has lan"},
				{"a/2", AddressTaken, "192.168.1.201 is held by Service a/1 too, which had it first and they cannot share it (their sharing keys differ): " +
					"this Service gets another as soon as a pool has one, so change what points to 192.168.1.201"}},
		},
		"a port that one gives up is another's on the next plan": {
			requests: []Request{asking(wants("a/1", at(1), first), sharing("k", 8080)), asking(wants("a/2", at(2), second), sharing("k", 443)), asking(wants("a/3", at(3)), sharing("k", 80))},
			want:     []Assignment{has("a/1", "lan", first), has("a/2", "lan", second), has("a/3", "lan", first)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := planned(Facts{Pools: pools, Requests: tc.requests})
			if diff := cmp.Diff(tc.want, got.Assignments, compareAddr); diff != "" {
				t.Errorf("assignments (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantRefusals, got.Refusals); diff != "" {
				t.Errorf("refusals (-want +got):\n%s", diff)
			}
		})
	}
}
