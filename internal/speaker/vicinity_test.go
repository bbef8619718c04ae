package speaker

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/internal/election"
	"github.com/lanyard-dev/lanyard/internal/links"
	"github.com/lanyard-dev/lanyard/internal/membership"
	"github.com/lanyard-dev/lanyard/internal/responder"
)

var (
	router = host{"eth0", netip.MustParseAddr("192.168.1.1"), netip.MustParseAddr("192.168.1.11")}
	peer   = host{"eth0", netip.MustParseAddr("192.168.1.12"), netip.MustParseAddr("192.168.1.11")}
	beside = host{"eth1", netip.MustParseAddr("10.0.0.12"), netip.MustParseAddr("10.0.0.11")}
	// router6 and peer6 are the same hosts by IPv6.
	router6 = host{"eth0", netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::11")}
	peer6   = host{"eth0", netip.MustParseAddr("fd00::12"), netip.MustParseAddr("fd00::11")}
)

// TestHostsAround: a node that has two addresses in a subnet is one witness there.
func TestHostsAround(t *testing.T) {
	s := rack()
	s.nodes[1].addrs, s.nodes[2].addrs, s.nodes[0].addrs = addrs("192.168.1.11"), addrs("192.168.1.12", "10.0.0.12"), addrs("192.168.1.10")
	s.members = map[string]membership.Member{ // cp is not heard
		"w1": {Segments: []membership.Segment{on("eth0", "192.168.1.11/24")}},
		"w2": {Segments: []membership.Segment{on("eth0", "192.168.1.12/24"), on("eth0", "fd00::12/64"), on("eth2", "10.0.0.112/24"), on("eth3", "172.16.0.12/24")}},
	}
	interfaces := []links.Interface{
		{Name: "eth0", Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.1.11/24"), netip.MustParsePrefix("fd00::11/64")}},
		{Name: "eth1", Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.11/24")}},
	}
	got := hostsAround(interfaces, addrs("192.168.1.1", "172.16.0.1", "fd00::1"), s)
	if diff := cmp.Diff([]host{router, router6, peer, peer6, beside}, got, cmp.AllowUnexported(host{}), compareValues); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
}

// TestFewPeersAreAsked: in a large cluster, each node by those three before it.
func TestFewPeersAreAsked(t *testing.T) {
	asked := map[string]int{}
	members := map[string]membership.Member{}
	for i := range 20 {
		members[fmt.Sprintf("w%02d", i)] = membership.Member{Segments: []membership.Segment{on("eth0", fmt.Sprintf("192.168.1.%d/24", 10+i))}}
	}
	for i := range 20 {
		own := []links.Interface{{Name: "eth0", Addresses: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("192.168.1.%d/24", 10+i))}}}
		for _, h := range hostsAround(own, addrs("192.168.1.1"), snapshot{self: fmt.Sprintf("w%02d", i), members: members}) {
			asked[h.addr.String()]++
		}
	}
	want := map[string]int{"192.168.1.1": 20}
	for i := range 20 {
		want[fmt.Sprintf("192.168.1.%d", 10+i)] = 3
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("how often each is asked (-want +got):\n%s", diff)
	}
}

// TestDeaf: an interface is of no use once several hosts that answered there before do not any more.
func TestDeaf(t *testing.T) {
	const why = "it has carrier, but none of 192.168.1.1, 192.168.1.12 has answered ARP on it for 3 seconds, as each did before: look at the " +
		"switch's port and VLAN"
	const why6 = "it has carrier, but none of fd00::1, fd00::12 has answered NDP on it for 3 seconds, as each did before: look at the switch's port and VLAN"
	for name, tc := range map[string]struct {
		// answered are the hosts that answered once, asked is how many questions went unanswered since by those that are silent.
		answered, silent []host
		asked            int
		want, want6      string
	}{
		"all answer":                                {answered: []host{router, peer}, asked: 9},
		"one of two is silent":                      {answered: []host{router, peer}, silent: []host{peer}, asked: 9},
		"both are silent for too short a time":      {answered: []host{router, peer}, silent: []host{router, peer}, asked: 3},
		"both are silent":                           {answered: []host{router, peer}, silent: []host{router, peer}, asked: 4, want: why},
		"the only one that ever answered is silent": {answered: []host{router}, silent: []host{router, peer}, asked: 9},
		"nobody ever answered":                      {silent: []host{router, peer}, asked: 9},
		"those on another interface do not count":   {answered: []host{router, beside}, silent: []host{router, beside}, asked: 9},
		"one host is silent by both protocols": {
			answered: []host{router, router6, peer, peer6}, silent: []host{peer, peer6}, asked: 9},
		"both are silent by ARP and answer by NDP": {
			answered: []host{router, router6, peer, peer6}, silent: []host{router, peer}, asked: 9, want: why},
		"both are silent by NDP and answer by ARP": {
			answered: []host{router, router6, peer, peer6}, silent: []host{router6, peer6}, asked: 9, want6: why6},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(0, 0)
			v := newVicinity(make(chan struct{}, 1))
			v.watch([]host{router, peer, beside, router6, peer6}, func(host) {})
			answer := func(h host) { v.heard(responder.Sighting{Addr: h.addr, Kind: responder.Claimed}, now) }
			for _, h := range tc.answered {
				answer(h)
			}
			for range tc.asked {
				v.count()
				for _, h := range tc.answered {
					if !slices.Contains(tc.silent, h) {
						answer(h)
					}
				}
			}
			got := map[protocol]string{byARP: v.deaf(outlet{"eth0", byARP}), byNDP: v.deaf(outlet{"eth0", byNDP})}
			if diff := cmp.Diff(map[protocol]string{byARP: tc.want, byNDP: tc.want6}, got); diff != "" {
				t.Errorf("deaf (-want +got):\n%s", diff)
			}
			for _, h := range tc.silent {
				answer(h)
			}
			got = map[protocol]string{byARP: v.deaf(outlet{"eth0", byARP}), byNDP: v.deaf(outlet{"eth0", byNDP})}
			if diff := cmp.Diff(map[protocol]string{byARP: "", byNDP: ""}, got); diff != "" {
				t.Errorf("after an answer it is still deaf (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWire: who hears exactly half of the speakers asks the hosts around whether it is the one that is cut off.
func TestWire(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	answer := func(v *vicinity, kind responder.SightingKind, ms int) {
		v.heard(responder.Sighting{Addr: router.addr, Kind: kind}, at(ms))
	}
	for name, tc := range map[string]struct {
		happens func(v *vicinity) // half is heard from 1000 ms on
		want    election.Wire
	}{
		"nobody around has ever answered": {happens: func(*vicinity) {}, want: election.NobodyToAsk},
		"the router answered before, and not since": {
			happens: func(v *vicinity) { answer(v, responder.Claimed, 900) }, want: election.Unanswered},
		"the router answers": {
			happens: func(v *vicinity) { v.wire(true, at(1000)); answer(v, responder.Claimed, 1010) }, want: election.Answered},
		"who only asks for the router's address is not the router": {
			happens: func(v *vicinity) {
				answer(v, responder.Claimed, 900)
				v.wire(true, at(1000))
				answer(v, responder.Probed, 1010)
			}, want: election.Unanswered},
		"it answered the last time that half was heard": {
			happens: func(v *vicinity) {
				v.wire(true, at(500))
				answer(v, responder.Claimed, 510)
				v.wire(false, at(600))
			}, want: election.Unanswered},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVicinity(make(chan struct{}, 1))
			v.watch([]host{router}, func(host) {})
			tc.happens(v)
			v.wire(true, at(1000))
			if got := v.wire(true, at(1020)); got != tc.want {
				t.Errorf("the wire says %v, want %v", got, tc.want)
			}
			if !v.doubts(at(1030)) || v.doubts(at(9000)) {
				t.Error("it is to ask at once while that is open, and not for ever")
			}
		})
	}
}
