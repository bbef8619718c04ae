package speaker

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/internal/ipam"
	"github.com/lanyard-dev/lanyard/internal/membership"
	"github.com/lanyard-dev/lanyard/internal/responder"
)

// lanPool is 192.168.1.200 to 192.168.1.210.
func lanPool() []ipam.Pool {
	return []ipam.Pool{{Name: "lan", Ranges: []ipam.Range{{First: netip.MustParseAddr("192.168.1.200"), Last: netip.MustParseAddr("192.168.1.210")}}}}
}

// TestTheLANIsAskedBeforeAnAddressIsGivenOut: three times in 200 ms; it is free 300 ms later, and asked for again a minute later.
func TestTheLANIsAskedBeforeAnAddressIsGivenOut(t *testing.T) {
	l := newLookout(make(chan struct{}, 1))
	one, two := host{iface: "eth0", addr: sought}, host{iface: "eth0", addr: spare}
	l.watch(lanPool(), vantage(), []host{one, two}, func(host) {})
	type moment struct {
		Asks    []host
		Again   time.Duration
		Free    []netip.Addr
		Foreign map[netip.Addr]foreigner
	}
	there := map[netip.Addr]foreigner{sought: {mac: highMAC, iface: "eth0", since: ms(150), last: ms(150), asked: ms(150)}}
	const quick = 100 * time.Millisecond
	for _, step := range []struct {
		at   int
		want moment
	}{
		{0, moment{[]host{one, two}, quick, nil, map[netip.Addr]foreigner{}}},
		{100, moment{[]host{one, two}, quick, nil, map[netip.Addr]foreigner{}}},
		{199, moment{[]host{two}, time.Millisecond, nil, there}},
		{200, moment{[]host{two}, 3 * quick, nil, there}},
		{499, moment{nil, time.Millisecond, nil, there}},
		{500, moment{nil, time.Second, []netip.Addr{spare}, there}},
		{60_499, moment{[]host{one}, time.Millisecond, []netip.Addr{spare}, map[netip.Addr]foreigner{
			sought: {mac: highMAC, iface: "eth0", since: ms(150), last: ms(150), asked: ms(60_499)}}}},
		{60_500, moment{[]host{two}, quick, []netip.Addr{spare}, map[netip.Addr]foreigner{
			sought: {mac: highMAC, iface: "eth0", since: ms(150), last: ms(150), asked: ms(60_499)}}}},
	} {
		if step.at == 199 {
			l.heard("eth0", responder.Sighting{Addr: sought, MAC: highMAC, Kind: responder.Claimed}, ms(150))
			step.want.Asks = nil
		}
		var got moment
		got.Asks, got.Again = l.due(ms(step.at))
		got.Foreign, got.Free = l.found()
		if diff := cmp.Diff(step.want, got, cmp.AllowUnexported(host{}, foreigner{}), compareValues); diff != "" {
			t.Errorf("after %d ms (-want +got):\n%s", step.at, diff)
		}
	}
}

// TestWhoIsForeign: a host that claims an address of a pool, unless it is this node or a speaker that is heard.
func TestWhoIsForeign(t *testing.T) {
	said := func(mac responder.MAC, kind responder.SightingKind, addr string) responder.Sighting {
		return responder.Sighting{Addr: netip.MustParseAddr(addr), MAC: mac, Kind: kind}
	}
	for name, tc := range map[string]struct {
		says    responder.Sighting
		foreign bool
	}{
		"a stranger has an address of the pool":            {said(highMAC, responder.Claimed, "192.168.1.205"), true},
		"a stranger asks whether anybody has one":          {said(highMAC, responder.Probed, "192.168.1.205"), false},
		"a stranger has an address of its own":             {said(highMAC, responder.Claimed, "192.168.1.50"), false},
		"a speaker that is heard announces one":            {said(peerMAC, responder.Claimed, "192.168.1.205"), false},
		"this node's other interface, on the same LAN":     {said(eth1, responder.Claimed, "192.168.1.205"), false},
		"a stranger has the last address of the pool":      {said(highMAC, responder.Claimed, "192.168.1.210"), true},
		"a stranger has the one after the pool's last one": {said(highMAC, responder.Claimed, "192.168.1.211"), false},
	} {
		t.Run(name, func(t *testing.T) {
			signals := make(chan struct{}, 1)
			l := newLookout(signals)
			l.watch(lanPool(), vantage(), nil, func(host) {})
			l.heard("eth0", tc.says, ms(0))
			foreign, _ := l.found()
			_, is := foreign[tc.says.Addr]
			if is != tc.foreign || len(signals) == 1 != tc.foreign {
				t.Errorf("foreign: %v, told: %v, want %v", is, len(signals) == 1, tc.foreign)
			}
		})
	}
}

// TestAForeignHostIsForgotten ten minutes after it was seen last, or as soon as it turns out to be a speaker, or the pool is gone.
func TestAForeignHostIsForgotten(t *testing.T) {
	claims := responder.Sighting{Addr: sought, MAC: highMAC, Kind: responder.Claimed}
	peers := neighbours{peers: map[responder.MAC]membership.Member{highMAC: {}}}
	for name, tc := range map[string]struct {
		then func(l *lookout)
		left int
	}{
		"it was seen a moment ago":    {func(l *lookout) { l.due(ms(599_999)) }, 1},
		"it was seen ten minutes ago": {func(l *lookout) { l.due(ms(600_000)) }, 0},
		"it was seen again meanwhile": {func(l *lookout) { l.heard("eth0", claims, ms(1000)); l.due(ms(600_000)) }, 1},
		"it is a speaker":             {func(l *lookout) { l.watch(lanPool(), peers, nil, func(host) {}) }, 0},
		"the pool is gone":            {func(l *lookout) { l.watch(nil, vantage(), nil, func(host) {}) }, 0},
		"another host has it by now too": {func(l *lookout) {
			l.heard("eth0", responder.Sighting{Addr: sought, MAC: lowMAC, Kind: responder.Claimed}, ms(9))
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLookout(make(chan struct{}, 1))
			l.watch(lanPool(), vantage(), nil, func(host) {})
			l.heard("eth0", claims, ms(0))
			tc.then(l)
			if foreign, _ := l.found(); len(foreign) != tc.left {
				t.Errorf("known: %v, want %d", foreign, tc.left)
			}
		})
	}
}

// TestOneThatClaimsEverything costs no more than foreignersKept entries.
func TestOneThatClaimsEverything(t *testing.T) {
	l := newLookout(make(chan struct{}, 1))
	wide := []ipam.Pool{{Ranges: []ipam.Range{{First: netip.MustParseAddr("10.0.0.0"), Last: netip.MustParseAddr("10.255.255.255")}}}}
	l.watch(wide, vantage(), nil, func(host) {})
	addr := netip.MustParseAddr("10.0.0.0")
	for range 2 * foreignersKept {
		l.heard("eth0", responder.Sighting{Addr: addr, MAC: highMAC, Kind: responder.Claimed}, ms(0))
		addr = addr.Next()
	}
	if foreign, _ := l.found(); len(foreign) != foreignersKept {
		t.Errorf("it keeps %d, want %d", len(foreign), foreignersKept)
	}
}

// TestAhead: the lowest free addresses of each pool are asked for, by one node on the segment.
func TestAhead(t *testing.T) {
	lan, beyond := on("eth0", "192.168.1.0/24"), on("eth1", "10.0.0.0/8")
	wide := ipam.Pool{Name: "wide", Ranges: []ipam.Range{
		{First: netip.MustParseAddr("10.0.0.1"), Last: netip.MustParseAddr("10.0.0.4")}, {First: netip.MustParseAddr("10.0.1.1"), Last: netip.MustParseAddr("10.9.9.9")}}}
	onLAN := func(from, to int) (all []string) {
		for i := from; i <= to; i++ {
			all = append(all, fmt.Sprintf("eth0 192.168.1.%d", i))
		}
		return all
	}
	var inWide []string
	for _, text := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"} {
		inWide = append(inWide, "eth1 "+text)
	}
	for i := range lookAhead - 4 {
		inWide = append(inWide, fmt.Sprintf("eth1 10.0.1.%d", i+1))
	}
	var reserved []string
	for addr := netip.MustParseAddr("10.0.1.251"); len(reserved) < 1+lookAhead; addr = addr.Next() {
		reserved = append(reserved, "eth1 "+addr.String())
	}
	for name, tc := range map[string]struct {
		s       snapshot
		foreign map[netip.Addr]foreigner
		want    []string
	}{
		"all of a small pool": {
			s: snapshot{pools: lanPool(), members: map[string]membership.Member{"w1": {Segments: []membership.Segment{lan}}}}, want: onLAN(200, 210)},
		"the first of a large one, over its ranges": {
			s: snapshot{pools: []ipam.Pool{wide}, members: map[string]membership.Member{"w1": {Segments: []membership.Segment{lan, beyond}}}}, want: inWide},
		"not what Services and nodes have, nor foreign hosts": {
			s: snapshot{pools: lanPool(), services: []service{{addrs: addrs("192.168.1.200", "192.168.1.202")}}, nodes: []node{{addrs: addrs("192.168.1.203")}},
				members: map[string]membership.Member{"w1": {Segments: []membership.Segment{lan}}}},
			foreign: map[netip.Addr]foreigner{netip.MustParseAddr("192.168.1.204"): {}},
			want:    slices.Concat(onLAN(201, 201), onLAN(205, 210))},
		"what is reserved besides, and what is excluded never": {
			s: snapshot{pools: []ipam.Pool{{Name: "wide", Ranges: wide.Ranges[1:], Exclude: []ipam.Range{{First: netip.MustParseAddr("10.0.1.1"), Last: netip.MustParseAddr("10.0.1.250")}},
				Reservations: []ipam.Reservation{{Addr: netip.MustParseAddr("10.0.1.251"), For: "a/1"}}}},
				members: map[string]membership.Member{"w1": {Segments: []membership.Segment{beyond}}}},
			want: reserved},
		"another asks, who comes first by name": {
			s: snapshot{pools: lanPool(), members: map[string]membership.Member{"w1": {Segments: []membership.Segment{lan}}, "w0": {Segments: []membership.Segment{lan}}}}},
		"one that comes first and is not on the segment asks for nothing": {
			s: snapshot{pools: lanPool(), members: map[string]membership.Member{
				"w1": {Segments: []membership.Segment{lan}}, "w0": {Segments: []membership.Segment{beyond}}, "w2": {Segments: []membership.Segment{lan}}}},
			want: onLAN(200, 210)},
		"nobody is on the segment": {s: snapshot{pools: lanPool(), members: map[string]membership.Member{"w1": {}}}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.s.self = "w1"
			var got []string
			for _, h := range ahead(tc.s, tc.foreign) {
				got = append(got, h.iface+" "+h.addr.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("asked for (-want +got):\n%s", diff)
			}
		})
	}
}
