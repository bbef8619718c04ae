package speaker

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/internal/election"
	"github.com/lanyard-dev/lanyard/internal/membership"
	"github.com/lanyard-dev/lanyard/internal/responder"
)

var (
	stranger = responder.MAC{2, 0, 0, 0, 0, 0x99}
	heardOne = responder.MAC{2, 0, 0, 0, 0, 0x12}
	lan      = neighbours{own: map[string]responder.MAC{"eth0": {2, 0, 0, 0, 0, 0x11}}, peers: map[responder.MAC]membership.Member{heardOne: {}}}
)

// TestWhoIsCutOffLetsGo of what a speaker that it does not hear answers for: those who hear each other have taken it over. One that hears
// the others announces again instead, and leaves it to the claims who goes on.
func TestWhoIsCutOffLetsGo(t *testing.T) {
	addr := netip.MustParseAddr("192.168.1.200")
	for name, tc := range map[string]struct {
		cutOff bool
		seen   responder.Sighting
		keeps  bool
		again  []netip.Addr
	}{
		"cut off, and a stranger answers":     {cutOff: true, seen: responder.Sighting{Addr: addr, MAC: stranger, Kind: responder.Claimed}},
		"cut off, and a stranger asks":        {cutOff: true, seen: responder.Sighting{Addr: addr, MAC: stranger, Kind: responder.Probed}, keeps: true},
		"cut off, and a peer answers":         {cutOff: true, seen: responder.Sighting{Addr: addr, MAC: heardOne, Kind: responder.Claimed}, keeps: true, again: []netip.Addr{addr}},
		"not cut off, and a stranger answers": {seen: responder.Sighting{Addr: addr, MAC: stranger, Kind: responder.Claimed}, keeps: true, again: []netip.Addr{addr}},
		"its own answer on another interface": {cutOff: true, seen: responder.Sighting{Addr: addr, MAC: lan.own["eth0"], Kind: responder.Claimed}, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClaims()
			c.known[addr], c.cutOff = &known{claim: election.Claim{Epoch: 3, Stage: election.Held}}, tc.cutOff
			again := c.see(map[responder.Sighting]bool{tc.seen: true}, lan, time.Unix(9, 0))
			if diff := cmp.Diff(tc.again, again, compareValues); diff != "" {
				t.Errorf("announced again (-want +got):\n%s", diff)
			}
			if keeps := c.addresses()[addr]; keeps != tc.keeps {
				t.Errorf("it keeps the address: %v, want %v", keeps, tc.keeps)
			}
		})
	}
}

// TestDoubtsGoRound: every address has its turn, some at a time, however many there are.
func TestDoubtsGoRound(t *testing.T) {
	var verdicts []verdict
	for i := range 45 {
		verdicts = append(verdicts, held(fmt.Sprintf("10.0.0.%d", i+1), "w1", "eth0"))
	}
	c := newClaims()
	now := time.Unix(9, 0)
	if asked := c.doubts(verdicts, now); len(asked) > 0 {
		t.Errorf("who hears enough others asks about %d addresses", len(asked))
	}
	c.cutOff = true
	asked := map[netip.Addr]int{}
	for range 9 { // 180 questions in all
		batch := c.doubts(verdicts, now)
		if len(batch) != doubtAtOnce || len(c.doubts(verdicts, now)) > 0 {
			t.Errorf("%d at once, and more at the same time; want %d", len(batch), doubtAtOnce)
		}
		for _, v := range batch {
			asked[v.addr]++
		}
		now = now.Add(doubtEvery)
	}
	for _, v := range verdicts {
		if asked[v.addr] != 4 {
			t.Errorf("%s was asked about %d times of 4", v.addr, asked[v.addr])
		}
	}
}

// TestWhoIsRelievedOfOneAsksAboutAll, within a tenth of a second, and about some at a time a second later.
func TestWhoIsRelievedOfOneAsksAboutAll(t *testing.T) {
	var verdicts []verdict
	for i := range 1000 {
		verdicts = append(verdicts, held(fmt.Sprintf("10.0.%d.%d", i/250, i%250+1), "w1", "eth0"))
	}
	c, now, lost := newClaims(), time.Unix(9, 0), netip.MustParseAddr("10.0.0.1")
	c.cutOff = true
	c.known[lost] = &known{claim: election.Claim{Epoch: 3, Stage: election.Held}}
	c.doubts(verdicts, now)
	c.see(map[responder.Sighting]bool{{Addr: lost, MAC: stranger, Kind: responder.Claimed}: true}, lan, now)
	asked := map[netip.Addr]bool{}
	for range 5 {
		now = now.Add(c.retryIn(now))
		for _, v := range c.doubts(verdicts[1:], now) {
			asked[v.addr] = true
		}
	}
	if len(asked) != 999 || now.Sub(time.Unix(9, 0)) > 100*time.Millisecond {
		t.Errorf("%d of 999 were asked about after %v", len(asked), now.Sub(time.Unix(9, 0)))
	}
	now = now.Add(relievedFor)
	if got := len(c.doubts(verdicts[1:], now)); got != doubtAtOnce {
		t.Errorf("%d were asked about at once a second later, want %d", got, doubtAtOnce)
	}
}

// TestAnOffererMayAnswer: its answers keep nobody from taking over what it offers, however often the wire is asked meanwhile.
func TestAnOffererMayAnswer(t *testing.T) {
	addr := netip.MustParseAddr("192.168.1.200")
	for name, tc := range map[string]struct {
		offered bool
		want    election.Fence
	}{
		"offered":     {offered: true, want: election.Clear},
		"not offered": {want: election.Occupied},
	} {
		t.Run(name, func(t *testing.T) {
			c, now := newClaims(), time.Unix(9, 0)
			taken := held(addr.String(), "w1", "eth0")
			taken.decision.Claim.Stage, taken.offered = election.Taking, tc.offered
			fence := election.Asking
			for range 7 { // 10 ms each
				c.settle([]verdict{taken}, snapshot{self: "w1"})
				if fence, _ = c.ask(addr, tc.offered, now); fence != election.Asking {
					break
				}
				for range c.due([]verdict{taken}, lan, now) {
					c.see(map[responder.Sighting]bool{{Addr: addr, MAC: heardOne, Kind: responder.Claimed}: true}, lan, now)
				}
				now = now.Add(10 * time.Millisecond)
			}
			if fence != tc.want {
				t.Errorf("the wire says %v, want %v", fence, tc.want)
			}
		})
	}
}
