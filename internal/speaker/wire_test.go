package speaker

import (
	"maps"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/internal/election"
	"github.com/lanyard-dev/lanyard/internal/links"
	"github.com/lanyard-dev/lanyard/internal/membership"
	"github.com/lanyard-dev/lanyard/internal/responder"
)

var (
	sought = netip.MustParseAddr("192.168.1.200")
	spare  = netip.MustParseAddr("192.168.1.201")

	eth0, eth1 = responder.MAC{2, 0, 0, 0, 0, 5}, responder.MAC{2, 0, 0, 0, 0, 6} // this node's
	peerMAC    = responder.MAC{2, 0, 0, 0, 0, 7}                                  // w2's, which is heard
	lowMAC     = responder.MAC{2, 0, 0, 0, 0, 1}                                  // strangers', lower and higher than eth0's
	highMAC    = responder.MAC{2, 0, 0, 0, 0, 9}
)

// vantage is what this node has and whom it hears.
func vantage() neighbours {
	return neighboursOf([]links.Interface{
		{Name: "eth0", MAC: net.HardwareAddr(eth0[:])}, {Name: "eth1", MAC: net.HardwareAddr(eth1[:])}, {Name: "wg0"}, // which is not Ethernet
	}, map[string]membership.Member{"w1": {}, "w2": {Segments: []membership.Segment{{Interface: "eth0", MAC: membership.MAC(peerMAC)}}}})
}

// ms is a moment, by milliseconds.
func ms(n int) time.Time { return time.Unix(1000, 0).Add(time.Duration(n) * time.Millisecond) }

// claiming is what this node decided: a claim to an address, on an interface.
func claiming(addr netip.Addr, iface string, stage election.Stage) verdict {
	return verdict{addr: addr, iface: iface, decision: election.Decision{Claim: election.Claim{Epoch: 3, Stage: stage}}}
}

// TestWhatIsSeenWhileTaking decides whether the address is somebody else's.
func TestWhatIsSeenWhileTaking(t *testing.T) {
	type wire struct {
		Fence    election.Fence
		Occupant election.Occupant
	}
	for name, tc := range map[string]struct {
		seen    map[responder.Sighting]bool
		offered bool
		want    wire
	}{
		"nothing": {},
		"a stranger answers: it has the address": {
			seen: saw(highMAC, responder.Claimed, sought), want: wire{election.Occupied, election.Occupant{MAC: "02:00:00:00:00:09", As: election.Stranger}}},
		"a stranger answers, and that another offers the address does not matter": {
			seen: saw(highMAC, responder.Claimed, sought), offered: true, want: wire{election.Occupied, election.Occupant{MAC: "02:00:00:00:00:09", As: election.Stranger}}},
		"another speaker answers: its claim may not have been heard yet": {
			seen: saw(peerMAC, responder.Claimed, sought), want: wire{election.Occupied, election.Occupant{MAC: "02:00:00:00:00:07", As: election.Speaker}}},
		"another speaker answers, as it should while it offers the address": {
			seen: saw(peerMAC, responder.Claimed, sought), offered: true},
		"a stranger asks as well, with the higher hardware address: this one steps back": {
			seen: saw(highMAC, responder.Probed, sought), want: wire{election.Occupied, election.Occupant{MAC: "02:00:00:00:00:09", As: election.Contender}}},
		"a stranger asks as well, with the lower hardware address: it is the one to step back": {
			seen: saw(lowMAC, responder.Probed, sought)},
		"another speaker asks as well: claims settle that": {
			seen: saw(peerMAC, responder.Probed, sought)},
		"this node's other interface, which lies on the same LAN, answers": {
			seen: saw(eth1, responder.Claimed, sought)},
		"this node's other interface asks": {
			seen: saw(eth1, responder.Probed, sought)},
		"a stranger has another address": {
			seen: saw(highMAC, responder.Claimed, spare)},
	} {
		t.Run(name, func(t *testing.T) {
			takes := claiming(sought, "eth0", election.Taking)
			takes.offered = tc.offered
			c := deciding(ms(0), takes)
			again := c.see(tc.seen, vantage(), ms(15))
			var got wire
			got.Fence, got.Occupant = c.ask(sought, tc.offered, ms(20))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the wire says (-want +got):\n%s", diff)
			}
			if len(again) > 0 {
				t.Errorf("it announces %v, for which it does not answer", again)
			}
		})
	}
}

// TestOneHardwareAddressOfTwoIsTheLower: two speakers that do not hear each other take one address over at the same time. Exactly one of them
// steps back, whichever interface each asks on.
func TestOneHardwareAddressOfTwoIsTheLower(t *testing.T) {
	for name, tc := range map[string]struct {
		iface string
		other responder.MAC
	}{
		"asking on eth0": {"eth0", eth1}, "asking on eth1": {"eth1", eth0},
	} {
		t.Run(name, func(t *testing.T) {
			there := neighbours{own: map[string]responder.MAC{"there": tc.other}}
			here := neighbours{own: map[string]responder.MAC{tc.iface: vantage().own[tc.iface]}}
			back := 0
			for _, side := range []struct {
				iface string
				own   neighbours
				sees  responder.MAC
			}{{tc.iface, here, tc.other}, {"there", there, here.own[tc.iface]}} {
				c, verdicts := newClaims(), []verdict{claiming(sought, side.iface, election.Taking)}
				c.settle(verdicts, snapshot{self: "w1"})
				c.due(verdicts, side.own, ms(0))
				c.see(saw(side.sees, responder.Probed, sought), side.own, ms(15))
				if fence, _ := c.ask(sought, false, ms(20)); fence == election.Occupied {
					back++
				}
			}
			if back != 1 {
				t.Errorf("%d of the two step back, want 1", back)
			}
		})
	}
}

// TestWhatIsSeenOfAnAddressThatIsAnswered: caches may hold another's hardware address now; and a speaker to which the address was offered has
// it once it announces it.
func TestWhatIsSeenOfAnAddressThatIsAnswered(t *testing.T) {
	type outcome struct {
		Again  []netip.Addr
		Claims map[netip.Addr]election.Claim
	}
	kept := func(stage election.Stage) map[netip.Addr]election.Claim {
		return map[netip.Addr]election.Claim{sought: {Epoch: 3, Stage: stage}}
	}
	for name, tc := range map[string]struct {
		stage election.Stage
		seen  map[responder.Sighting]bool
		peer  uint64 // the epoch of w2's claim, if it is known
		want  outcome
	}{
		"a stranger claims what this node holds: it is announced again": {
			stage: election.Held, seen: saw(highMAC, responder.Claimed, sought), want: outcome{addrs("192.168.1.200"), kept(election.Held)}},
		"another speaker claims what this node holds: it is announced again": {
			stage: election.Held, seen: saw(peerMAC, responder.Claimed, sought), want: outcome{addrs("192.168.1.200"), kept(election.Held)}},
		"this node's other interface is no other": {
			stage: election.Held, seen: saw(eth1, responder.Claimed, sought), want: outcome{nil, kept(election.Held)}},
		"a stranger that asks gets its answer": {
			stage: election.Held, seen: saw(highMAC, responder.Probed, sought), want: outcome{nil, kept(election.Held)}},
		"of an address that this node does not claim anything may be said": {
			stage: election.Held, seen: saw(highMAC, responder.Claimed, spare), want: outcome{nil, kept(election.Held)}},
		"another speaker announces what this node offers, and was heard to take it: it has it": {
			peer: 4, stage: election.Offered, seen: saw(peerMAC, responder.Claimed, sought), want: outcome{nil, map[netip.Addr]election.Claim{}}},
		"another speaker announces what this node offers, and was not heard to take it: it may stop for this node's better claim": {
			stage: election.Offered, seen: saw(peerMAC, responder.Claimed, sought), want: outcome{nil, kept(election.Offered)}},
		"another speaker announces what this node offers, which took it after that one: it is that one that stops": {
			peer: 2, stage: election.Offered, seen: saw(peerMAC, responder.Claimed, sought), want: outcome{nil, kept(election.Offered)}},
		"another speaker asks about what this node offers: it answers until it is taken over": {
			stage: election.Offered, seen: saw(peerMAC, responder.Probed, sought), want: outcome{nil, kept(election.Offered)}},
		"a stranger announces what this node offers: that takes over nothing": {
			stage: election.Offered, seen: saw(highMAC, responder.Claimed, sought), want: outcome{nil, kept(election.Offered)}},
	} {
		t.Run(name, func(t *testing.T) {
			c, around := deciding(ms(0), claiming(sought, "eth0", tc.stage)), vantage()
			peer := around.peers[peerMAC]
			peer.Claims = map[netip.Addr]membership.Claim{sought: {Epoch: tc.peer, Stage: membership.Held}}
			around.peers[peerMAC] = peer
			got := outcome{Again: c.see(tc.seen, around, ms(15)), Claims: c.claimed()}
			if diff := cmp.Diff(tc.want, got, compareValues); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnAddressIsNotAnnouncedAgainAtOnce: of two that both insist neither would ever be silent. A speaker lets go soon, a foreign host may not.
func TestAnAddressIsNotAnnouncedAgainAtOnce(t *testing.T) {
	both := saw(highMAC, responder.Claimed, sought)
	maps.Copy(both, saw(lowMAC, responder.Claimed, sought))
	c := deciding(ms(0), claiming(sought, "eth0", election.Held), claiming(spare, "eth0", election.Held))
	for _, step := range []struct {
		what string
		at   int
		seen map[responder.Sighting]bool
		want []netip.Addr
	}{
		{"two hosts claim it at once", 0, both, addrs("192.168.1.200")},
		{"another address has a time of its own", 500, saw(lowMAC, responder.Claimed, spare), addrs("192.168.1.201")},
		{"one host claims the first again", 9999, saw(lowMAC, responder.Claimed, sought), nil},
		{"ten seconds are over", 10_000, saw(lowMAC, responder.Claimed, sought), addrs("192.168.1.200")},
		{"the next ones are not", 10_999, both, nil},
		{"a speaker claims it", 10_999, saw(peerMAC, responder.Claimed, sought), nil},
		{"a second is over", 11_000, saw(peerMAC, responder.Claimed, sought), addrs("192.168.1.200")},
	} {
		if diff := cmp.Diff(step.want, c.see(step.seen, vantage(), ms(step.at)), compareValues); diff != "" {
			t.Errorf("%s: announced again (-want +got):\n%s", step.what, diff)
		}
	}
}

// TestAQuestionEndsWithItsClaim; only that somebody has the address is remembered until it may be asked again, or the wire would be asked in
// every pass.
func TestAQuestionEndsWithItsClaim(t *testing.T) {
	nothing := verdict{addr: sought}
	takes := claiming(sought, "eth0", election.Taking)
	somebody := election.Occupant{MAC: "02:00:00:00:00:09", As: election.Stranger}
	type said struct {
		Fence    election.Fence
		Occupant election.Occupant
		Asked    bool // something is remembered of it
	}
	type step struct {
		what   string
		at     int
		seen   map[responder.Sighting]bool
		decide verdict // after the wire was looked at
		want   said    // what the wire says, and what is remembered after the decision
	}
	for name, steps := range map[string][]step{
		"nobody answers": {
			{what: "it begins", decide: takes, want: said{Asked: true}},
			{what: "it waits", at: 40, decide: takes, want: said{Asked: true}},
			{what: "it has the address", at: 60, decide: claiming(sought, "eth0", election.Held), want: said{Fence: election.Clear}},
		},
		"another takes it meanwhile": {
			{what: "it begins", decide: takes, want: said{Asked: true}},
			{what: "it leaves it to the other", at: 20, decide: nothing, want: said{}},
			{what: "it begins anew", at: 50, decide: takes, want: said{Asked: true}},
			{what: "and asks for the whole time", at: 70, decide: takes, want: said{Asked: true}},
		},
		"somebody has it": {
			{what: "it begins", decide: takes, want: said{Asked: true}},
			{what: "somebody answers", at: 15, seen: saw(highMAC, responder.Claimed, sought), decide: nothing,
				want: said{Fence: election.Occupied, Occupant: somebody, Asked: true}},
			{what: "it is left alone", at: 1014, decide: nothing, want: said{Fence: election.Occupied, Occupant: somebody, Asked: true}},
			{what: "it may be asked again, and is another's by now", at: 1015, decide: nothing, want: said{}},
		},
		"somebody had it": {
			{what: "it begins", decide: takes, want: said{Asked: true}},
			{what: "somebody answers", at: 15, seen: saw(highMAC, responder.Claimed, sought), decide: nothing,
				want: said{Fence: election.Occupied, Occupant: somebody, Asked: true}},
			{what: "it is asked again", at: 1015, decide: takes, want: said{Asked: true}},
			{what: "the whole time goes by", at: 1060, decide: takes, want: said{Asked: true}},
			{what: "nobody answers any more", at: 1075, decide: claiming(sought, "eth0", election.Held), want: said{Fence: election.Clear}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClaims()
			for _, step := range steps {
				c.see(step.seen, vantage(), ms(step.at))
				var got said
				got.Fence, got.Occupant = c.ask(sought, false, ms(step.at))
				c.settle([]verdict{step.decide}, snapshot{self: "w1"})
				c.due([]verdict{step.decide}, vantage(), ms(step.at))
				got.Asked = c.known[sought] != nil && c.known[sought].question != nil
				if diff := cmp.Diff(step.want, got); diff != "" {
					t.Errorf("%s: known (-want +got):\n%s", step.what, diff)
				}
			}
		})
	}
}

// TestTheWireIsAskedThreeTimes, on the interface that is to answer, and the loop comes back when there is something to do.
func TestTheWireIsAskedThreeTimes(t *testing.T) {
	early, late, held := claiming(sought, "eth0", election.Taking), claiming(spare, "eth1", election.Taking), claiming(spare.Next(), "eth0", election.Held)
	nowhere := claiming(spare.Next().Next(), "", election.Taking)
	c := newClaims()
	if got := c.retryIn(ms(0)); got != lookAgain {
		t.Errorf("without anything to ask it looks again in %v, want %v", got, lookAgain)
	}
	type pass struct {
		Asks []verdict
		At   map[netip.Addr]responder.MAC // with which hardware address an address was asked for last
		Next time.Duration
	}
	first := map[netip.Addr]responder.MAC{sought: eth0}
	both, last := map[netip.Addr]responder.MAC{sought: eth0, spare: eth1}, map[netip.Addr]responder.MAC{spare: eth1}
	for _, step := range []struct {
		at       int
		verdicts []verdict
		want     pass
	}{
		{0, []verdict{early, held, nowhere}, pass{[]verdict{early}, first, 20 * time.Millisecond}},
		{8, []verdict{early, late, held, nowhere}, pass{[]verdict{late}, both, 12 * time.Millisecond}},
		{19, []verdict{early, late, held, nowhere}, pass{nil, both, time.Millisecond}}, // another event
		{20, []verdict{early, late, held, nowhere}, pass{[]verdict{early}, both, 8 * time.Millisecond}},
		{28, []verdict{early, late, held, nowhere}, pass{[]verdict{late}, both, 12 * time.Millisecond}},
		{40, []verdict{early, late, held, nowhere}, pass{[]verdict{early}, both, 8 * time.Millisecond}},
		{48, []verdict{early, late, held, nowhere}, pass{[]verdict{late}, both, 12 * time.Millisecond}},
		{60, []verdict{early, late, held, nowhere}, pass{nil, both, 0}}, // the first one's time is over
		{61, []verdict{late, held, nowhere}, pass{nil, last, 7 * time.Millisecond}},
		{68, []verdict{late, held, nowhere}, pass{nil, last, 0}},
		{69, []verdict{held, nowhere}, pass{nil, map[netip.Addr]responder.MAC{}, lookAgain}},
	} {
		c.ends = time.Time{} // as each pass begins
		c.settle(step.verdicts, snapshot{self: "w1"})
		got := pass{Asks: c.due(step.verdicts, vantage(), ms(step.at)), At: map[netip.Addr]responder.MAC{}, Next: c.retryIn(ms(step.at))}
		for addr, k := range c.known {
			if k.question != nil {
				got.At[addr] = k.at
			}
		}
		if diff := cmp.Diff(step.want, got, compareValues); diff != "" {
			t.Errorf("after %d ms (-want +got):\n%s", step.at, diff)
		}
	}
	c.ends = ms(100)
	if got := c.retryIn(ms(107)); got != 0 {
		t.Errorf("what is overdue is looked at in %v, want at once", got)
	}
}

// TestTheLoopComesBackForTheFirstOfAll: an address that was found to be somebody else's may be asked for again in a second. Others do not wait
// for that.
func TestTheLoopComesBackForTheFirstOfAll(t *testing.T) {
	third := spare.Next()
	c := deciding(ms(0), claiming(sought, "eth0", election.Taking), claiming(spare, "eth0", election.Taking), claiming(third, "eth0", election.Taking))
	c.see(saw(highMAC, responder.Claimed, sought), vantage(), ms(15))
	c.see(saw(highMAC, responder.Claimed, third), vantage(), ms(15))
	c.ends = time.Time{} // as each pass begins
	for _, step := range []struct {
		what string
		addr netip.Addr
		want time.Duration
	}{
		{"somebody has it", sought, time.Second},
		{"nobody has answered yet", spare, 5 * time.Millisecond},
		{"somebody has it as well", third, 5 * time.Millisecond},
		{"nothing is asked of it", third.Next(), 5 * time.Millisecond},
	} {
		c.ask(step.addr, false, ms(15))
		if got := c.retryIn(ms(15)); got != step.want {
			t.Errorf("%s: it looks again in %v, want %v", step.what, got, step.want)
		}
	}
}
