package claims

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/test/bench/failover/wire"
)

var (
	start = time.Unix(1_800_000_000, 0)
	one   = netip.MustParseAddr("192.168.1.200")
	two   = netip.MustParseAddr("192.168.1.201")
	a     = wire.MAC{2, 0, 0, 0, 0, 0xa}
	b     = wire.MAC{2, 0, 0, 0, 0, 0xb}
	addrs = cmp.Comparer(func(x, y netip.Addr) bool { return x == y })
)

// at is a time, in milliseconds from the start.
func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// claim makes claims of one host at these milliseconds.
func claim(addr netip.Addr, mac wire.MAC, when ...int) []Claim {
	var all []Claim
	for _, ms := range when {
		all = append(all, Claim{At: at(ms), Addr: addr, MAC: mac})
	}
	return all
}

func join(parts ...[]Claim) []Claim {
	var all []Claim
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func TestLongestDuplicate(t *testing.T) {
	type found struct {
		Duplicate Duplicate
		Found     bool
	}
	for name, tc := range map[string]struct {
		claims []Claim
		want   found
	}{
		"one host alone is none":                               {claims: claim(one, a, 0, 20, 40, 60)},
		"a host that takes over from one that stopped is none": {claims: join(claim(one, a, 0, 20, 40), claim(one, b, 60, 80))},
		"two hosts with an address each are none":              {claims: join(claim(one, a, 0), claim(two, b, 10), claim(one, a, 20), claim(two, b, 30))},
		"a host that takes back what it had is none":           {claims: join(claim(one, a, 0), claim(one, b, 100, 400, 700), claim(one, a, 800))},
		"two hosts that claim it in turn are one, from the second's first claim to the first's last": {
			claims: join(claim(one, a, 0, 20), claim(one, b, 30), claim(one, a, 40), claim(one, b, 50), claim(one, a, 60), claim(one, b, 70, 90)),
			want:   found{Duplicate{Addr: one, MACs: [2]wire.MAC{a, b}, From: at(30), To: at(60)}, true}},
		"a pause that is short enough does not end a claim": {
			claims: join(claim(one, a, 0), claim(one, b, 100), claim(one, a, 450), claim(one, b, 500)),
			want:   found{Duplicate{Addr: one, MACs: [2]wire.MAC{a, b}, From: at(100), To: at(450)}, true}},
		"the longest of several is told": {
			claims: join(claim(one, a, 0), claim(one, b, 10), claim(one, a, 20), claim(one, b, 25), claim(two, a, 30), claim(two, b, 40),
				claim(two, a, 90), claim(two, b, 100)),
			want: found{Duplicate{Addr: two, MACs: [2]wire.MAC{a, b}, From: at(40), To: at(90)}, true}},
	} {
		t.Run(name, func(t *testing.T) {
			var got found
			got.Duplicate, got.Found = LongestDuplicate(tc.claims)
			if diff := cmp.Diff(tc.want, got, addrs); diff != "" {
				t.Errorf("duplicate (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOwners(t *testing.T) {
	all := join(claim(one, a, 0), claim(one, b, 100, 120), claim(two, b, 130), claim(two, a, 140))
	want := map[netip.Addr][]wire.MAC{one: {b}, two: {b, a}}
	if diff := cmp.Diff(want, Owners(all, at(50)), addrs); diff != "" {
		t.Errorf("owners since 50 ms (-want +got):\n%s", diff)
	}
}

func TestTakeovers(t *testing.T) {
	all := join(claim(one, b, 10), claim(one, a, 110), claim(one, b, 200, 220), claim(two, b, 230))
	for name, tc := range map[string]struct {
		addrs []netip.Addr
		want  map[netip.Addr]time.Time
	}{
		"the first claim of another host after the fault counts": {addrs: []netip.Addr{one, two}, want: map[netip.Addr]time.Time{one: at(200), two: at(230)}},
		"addresses that nobody asks about are left out":          {addrs: []netip.Addr{one}, want: map[netip.Addr]time.Time{one: at(200)}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Takeovers(all, tc.addrs, at(100), a), addrs); diff != "" {
				t.Errorf("takeovers (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnexcused: what lies outside of the windows counts, and what is longer than they allow.
func TestUnexcused(t *testing.T) {
	ms := time.Millisecond
	d := Duplicate{From: at(1000), To: at(1800)}
	for name, tc := range map[string]struct {
		windows []Window
		want    time.Duration
	}{
		"without a window all counts":                      {want: 800 * ms},
		"in a window nothing does":                         {windows: []Window{{From: at(900), To: at(2000)}}},
		"one that begins before its window":                {windows: []Window{{From: at(1300), To: at(2000)}}, want: 300 * ms},
		"one that ends after it":                           {windows: []Window{{From: at(900), To: at(1700)}}, want: 100 * ms},
		"a window of another time":                         {windows: []Window{{From: at(2000), To: at(3000)}}, want: 800 * ms},
		"a fault and its repair":                           {windows: []Window{{From: at(900), To: at(1400)}, {From: at(1400), To: at(1900)}}},
		"a window that is long, and allows a moment of it": {windows: []Window{{From: at(0), To: at(3000), AtMost: 500 * ms}}, want: 300 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			if got := d.Unexcused(tc.windows); got != tc.want {
				t.Errorf("%v counts, want %v", got, tc.want)
			}
		})
	}
}
