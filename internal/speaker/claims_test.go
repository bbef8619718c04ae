package speaker

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

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

// deciding are claims after this was decided at a moment.
func deciding(now time.Time, verdicts ...verdict) *claims {
	c := newClaims()
	c.settle(verdicts, snapshot{self: "w1"})
	c.due(verdicts, vantage(), now)
	return c
}

// saw is what one host said.
func saw(mac responder.MAC, kind responder.SightingKind, addr netip.Addr) map[responder.Sighting]bool {
	return map[responder.Sighting]bool{{Addr: addr, MAC: mac, Kind: kind}: true}
}

// TestWhatIsSeenWhileTaking decides whether the address is somebody else's.
func TestWhatIsSeenWhileTaking(t *testing.T) {
	type wire struct {
		Fence     election.Fence
		Answering string
	}
	for name, tc := range map[string]struct {
		seen    map[responder.Sighting]bool
		offered bool
		want    wire
	}{
		"nothing": {},
		"a stranger answers: it has the address": {
			seen: saw(highMAC, responder.Claimed, sought), want: wire{election.Occupied, "02:00:00:00:00:09"}},
		"a stranger answers, and that another offers the address does not matter": {
			seen: saw(highMAC, responder.Claimed, sought), offered: true, want: wire{election.Occupied, "02:00:00:00:00:09"}},
		"another speaker answers: its claim may not have been heard yet": {
			seen: saw(peerMAC, responder.Claimed, sought), want: wire{election.Occupied, "02:00:00:00:00:07"}},
		"another speaker answers, as it should while it offers the address": {
			seen: saw(peerMAC, responder.Claimed, sought), offered: true},
		"a stranger asks as well, with the higher hardware address: this one steps back": {
			seen: saw(highMAC, responder.Probed, sought), want: wire{election.Occupied, "02:00:00:00:00:09"}},
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
			c := deciding(ms(0), claiming(sought, "eth0", election.Taking))
			again := c.see(tc.seen, vantage(), ms(15))
			var got wire
			got.Fence, got.Answering = c.ask(sought, tc.offered, ms(20))
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
		want  outcome
	}{
		"a stranger claims what this node holds: it is announced again": {
			election.Held, saw(highMAC, responder.Claimed, sought), outcome{addrs("192.168.1.200"), kept(election.Held)}},
		"another speaker claims what this node holds: it is announced again": {
			election.Held, saw(peerMAC, responder.Claimed, sought), outcome{addrs("192.168.1.200"), kept(election.Held)}},
		"this node's other interface is no other": {
			election.Held, saw(eth1, responder.Claimed, sought), outcome{nil, kept(election.Held)}},
		"a stranger that asks gets its answer": {
			election.Held, saw(highMAC, responder.Probed, sought), outcome{nil, kept(election.Held)}},
		"of an address that this node does not claim anything may be said": {
			election.Held, saw(highMAC, responder.Claimed, spare), outcome{nil, kept(election.Held)}},
		"another speaker announces what this node offers: it is taken over": {
			election.Offered, saw(peerMAC, responder.Claimed, sought), outcome{nil, map[netip.Addr]election.Claim{}}},
		"another speaker asks about what this node offers: it answers until it is taken over": {
			election.Offered, saw(peerMAC, responder.Probed, sought), outcome{nil, kept(election.Offered)}},
		"a stranger announces what this node offers: that takes over nothing": {
			election.Offered, saw(highMAC, responder.Claimed, sought), outcome{nil, kept(election.Offered)}},
	} {
		t.Run(name, func(t *testing.T) {
			c := deciding(ms(0), claiming(sought, "eth0", tc.stage))
			got := outcome{Again: c.see(tc.seen, vantage(), ms(15)), Claims: c.mine}
			if diff := cmp.Diff(tc.want, got, compareValues); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnAddressIsAnnouncedAgainOnceASecond at most: of two that both insist neither would ever be silent.
func TestAnAddressIsAnnouncedAgainOnceASecond(t *testing.T) {
	both := saw(highMAC, responder.Claimed, sought)
	maps.Copy(both, saw(lowMAC, responder.Claimed, sought))
	c := deciding(ms(0), claiming(sought, "eth0", election.Held), claiming(spare, "eth0", election.Held))
	for _, step := range []struct {
		what string
		at   int
		seen map[responder.Sighting]bool
		want []netip.Addr
	}{
		{"two claim it at once", 0, both, addrs("192.168.1.200")},
		{"another address has a second of its own", 500, saw(lowMAC, responder.Claimed, spare), addrs("192.168.1.201")},
		{"one claims the first again", 999, saw(lowMAC, responder.Claimed, sought), nil},
		{"a second is over", 1000, saw(lowMAC, responder.Claimed, sought), addrs("192.168.1.200")},
		{"the next one is not", 1999, both, nil},
	} {
		if diff := cmp.Diff(step.want, c.see(step.seen, vantage(), ms(step.at)), compareValues); diff != "" {
			t.Errorf("%s: announced again (-want +got):\n%s", step.what, diff)
		}
	}
}

// TestAnAddressThatARivalLetsGoIsAnnouncedAgain, once: the rival's announcement may have come last.
func TestAnAddressThatARivalLetsGoIsAnnouncedAgain(t *testing.T) {
	c := newClaims()
	holds, wants := claiming(sought, "eth0", election.Held), claiming(sought, "eth0", election.Taking)
	for _, step := range []struct {
		what  string
		mine  []verdict
		rival membership.Stage // w2's claim
		want  []netip.Addr
	}{
		{what: "another takes it over as well, and does not answer yet", mine: []verdict{holds}, rival: membership.Taking},
		{what: "that one gives up: nobody was told of it", mine: []verdict{holds}},
		{what: "another answers as well", mine: []verdict{holds}, rival: membership.Held},
		{what: "it goes on", mine: []verdict{holds}, rival: membership.Offered},
		{what: "it lets go", mine: []verdict{holds}, want: addrs("192.168.1.200")},
		{what: "once is enough", mine: []verdict{holds}},
		{what: "another answers as well again", mine: []verdict{holds}, rival: membership.Held},
		{what: "both stop, and this one wants it anew: it has nothing to announce", mine: []verdict{wants}},
		{what: "it has it: responders announce what is new by themselves", mine: []verdict{holds}},
		{what: "another answers as well once more", mine: []verdict{holds}, rival: membership.Held},
		{what: "the Service is gone", rival: membership.Held},
		{what: "it comes back when the other has let go", mine: []verdict{holds}},
	} {
		own := membership.Member{Claims: map[netip.Addr]membership.Claim{sought: {Epoch: 3, Stage: membership.Held}}} // no rival of itself
		others := membership.Member{Claims: map[netip.Addr]membership.Claim{sought: {Epoch: 2, Stage: step.rival}}}
		got := c.settle(step.mine, snapshot{self: "w1", members: map[string]membership.Member{"w1": own, "w2": others}})
		if diff := cmp.Diff(step.want, got, compareValues); diff != "" {
			t.Errorf("%s: announced again (-want +got):\n%s", step.what, diff)
		}
	}
}

// TestOnlyWhatIsDecidedIsClaimed: the claims are those of the last decision.
func TestOnlyWhatIsDecidedIsClaimed(t *testing.T) {
	c := deciding(ms(0), claiming(sought, "eth0", election.Held), claiming(spare, "eth1", election.Held))
	c.see(saw(highMAC, responder.Claimed, spare), vantage(), ms(0)) // it was announced again
	for _, step := range []struct {
		what     string
		verdicts []verdict
		want     map[netip.Addr]election.Claim
	}{
		{"both are decided", []verdict{claiming(sought, "eth0", election.Held), claiming(spare, "eth1", election.Offered)},
			map[netip.Addr]election.Claim{sought: {Epoch: 3, Stage: election.Held}, spare: {Epoch: 3, Stage: election.Offered}}},
		{"a Service is gone", []verdict{claiming(sought, "eth0", election.Held)},
			map[netip.Addr]election.Claim{sought: {Epoch: 3, Stage: election.Held}}},
		{"there is no interface to answer on", []verdict{claiming(sought, "", election.Held)}, map[netip.Addr]election.Claim{}},
	} {
		c.settle(step.verdicts, snapshot{self: "w1"})
		if diff := cmp.Diff(step.want, c.mine, compareValues); diff != "" {
			t.Errorf("%s: claims (-want +got):\n%s", step.what, diff)
		}
		addresses := map[netip.Addr]bool{}
		for addr := range step.want {
			addresses[addr] = true
		}
		if diff := cmp.Diff(addresses, c.addresses(), compareValues); diff != "" {
			t.Errorf("%s: addresses (-want +got):\n%s", step.what, diff)
		}
	}
	if len(c.announced) > 0 {
		t.Errorf("it still knows when it announced %v, which are not its own", c.announced)
	}
}

// TestAQuestionEndsWithItsClaim; only that somebody has the address is remembered until it may be asked again, or the wire would be asked in
// every pass.
func TestAQuestionEndsWithItsClaim(t *testing.T) {
	nothing := verdict{addr: sought}
	takes := claiming(sought, "eth0", election.Taking)
	type known struct {
		Fence     election.Fence
		Answering string
		Asked     bool // something is remembered of it
	}
	type step struct {
		what   string
		at     int
		seen   map[responder.Sighting]bool
		decide verdict // after the wire was looked at
		want   known   // what the wire says, and what is remembered after the decision
	}
	for name, steps := range map[string][]step{
		"nobody answers": {
			{what: "it begins", decide: takes, want: known{Asked: true}},
			{what: "it waits", at: 40, decide: takes, want: known{Asked: true}},
			{what: "it has the address", at: 60, decide: claiming(sought, "eth0", election.Held), want: known{Fence: election.Clear}},
		},
		"another takes it meanwhile": {
			{what: "it begins", decide: takes, want: known{Asked: true}},
			{what: "it leaves it to the other", at: 20, decide: nothing, want: known{}},
			{what: "it begins anew", at: 50, decide: takes, want: known{Asked: true}},
			{what: "and asks for the whole time", at: 70, decide: takes, want: known{Asked: true}},
		},
		"somebody has it": {
			{what: "it begins", decide: takes, want: known{Asked: true}},
			{what: "somebody answers", at: 15, seen: saw(highMAC, responder.Claimed, sought), decide: nothing,
				want: known{Fence: election.Occupied, Answering: "02:00:00:00:00:09", Asked: true}},
			{what: "it is left alone", at: 1014, decide: nothing, want: known{Fence: election.Occupied, Answering: "02:00:00:00:00:09", Asked: true}},
			{what: "it may be asked again, and is another's by now", at: 1015, decide: nothing, want: known{}},
		},
		"somebody had it": {
			{what: "it begins", decide: takes, want: known{Asked: true}},
			{what: "somebody answers", at: 15, seen: saw(highMAC, responder.Claimed, sought), decide: nothing,
				want: known{Fence: election.Occupied, Answering: "02:00:00:00:00:09", Asked: true}},
			{what: "it is asked again", at: 1015, decide: takes, want: known{Asked: true}},
			{what: "the whole time goes by", at: 1060, decide: takes, want: known{Asked: true}},
			{what: "nobody answers any more", at: 1075, decide: claiming(sought, "eth0", election.Held), want: known{Fence: election.Clear}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClaims()
			for _, step := range steps {
				c.see(step.seen, vantage(), ms(step.at))
				var got known
				got.Fence, got.Answering = c.ask(sought, false, ms(step.at))
				c.settle([]verdict{step.decide}, snapshot{self: "w1"})
				c.due([]verdict{step.decide}, vantage(), ms(step.at))
				got.Asked = len(c.questions)+len(c.fences)+len(c.found)+len(c.at) > 0
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
	both := map[netip.Addr]responder.MAC{sought: eth0, spare: eth1}
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
		{61, []verdict{late, held, nowhere}, pass{nil, both, 7 * time.Millisecond}},
		{68, []verdict{late, held, nowhere}, pass{nil, both, 0}},
		{69, []verdict{held, nowhere}, pass{nil, both, lookAgain}},
	} {
		c.ends = time.Time{} // as each pass begins
		got := pass{Asks: c.due(step.verdicts, vantage(), ms(step.at)), At: c.at, Next: c.retryIn(ms(step.at))}
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

// TestWhatWasAnsweredIsResumed: of what the others have kept only that which this node answered for; whether it still offers it is decided
// anew. The epoch stays: it is the same claim.
func TestWhatWasAnsweredIsResumed(t *testing.T) {
	c := newClaims()
	former := map[netip.Addr]membership.Claim{}
	for i := range 5 { // the last is a newer speaker's stage
		former[netip.AddrFrom4([4]byte{192, 168, 1, byte(i)})] = membership.Claim{Epoch: uint64(10 + i), Stage: membership.Stage(i)}
	}
	c.resume(former)
	want := map[netip.Addr]election.Claim{
		netip.MustParseAddr("192.168.1.2"): {Epoch: 12, Stage: election.Held},
		netip.MustParseAddr("192.168.1.3"): {Epoch: 13, Stage: election.Held},
	}
	if diff := cmp.Diff(want, c.mine, compareValues); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

// TestTheOthersAreToldWhatIsClaimed, and understand it as it was meant.
func TestTheOthersAreToldWhatIsClaimed(t *testing.T) {
	c := newClaims()
	for i, stage := range []election.Stage{election.Taking, election.Held, election.Offered, election.None} {
		c.mine[netip.AddrFrom4([4]byte{192, 168, 1, byte(i)})] = election.Claim{Epoch: uint64(10 + i), Stage: stage}
	}
	told := c.told()
	want := map[netip.Addr]membership.Claim{
		netip.MustParseAddr("192.168.1.0"): {Epoch: 10, Stage: membership.Taking},
		netip.MustParseAddr("192.168.1.1"): {Epoch: 11, Stage: membership.Held},
		netip.MustParseAddr("192.168.1.2"): {Epoch: 12, Stage: membership.Offered},
	}
	if diff := cmp.Diff(want, told, compareValues); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	heard := snapshot{members: map[string]membership.Member{"w1": {Claims: told}}}
	for addr, claim := range c.mine {
		if claim.Stage == election.None {
			claim = election.Claim{} // to claim nothing is no news
		}
		if diff := cmp.Diff(claim, heard.claim("w1", addr)); diff != "" {
			t.Errorf("%s: the others understand (-want +got):\n%s", addr, diff)
		}
	}
}

// chronicle is a group that notes each change of what the node claims, and remembers epochs.
type chronicle struct {
	*gossip
	epochs map[netip.Addr]uint64
	told   []map[netip.Addr]membership.Claim
}

func (c *chronicle) Epochs() map[netip.Addr]uint64 { return c.epochs }

func (c *chronicle) Claim(claims map[netip.Addr]membership.Claim) {
	if len(c.told) == 0 || !maps.Equal(c.told[len(c.told)-1], claims) {
		c.told = append(c.told, claims)
	}
	c.gossip.Claim(claims)
}

// foreign is a host at the far end of the cable, with a hardware address that is none of this machine's, that answers for the address.
func foreign(t *testing.T) {
	t.Helper()
	far, err := net.InterfaceByName("far")
	if err != nil {
		t.Fatal(err)
	}
	h, err := responder.ListenARP(far.Index, highMAC[:], responder.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Hear([]responder.Range{{First: sought, Last: sought}}); err != nil {
		t.Fatal(err)
	}
	h.Own([]netip.Addr{sought}, time.Now().Add(time.Hour)) // when it announces that: until then only who asks hears of it
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the host ended with %v", err)
		}
	})
}

// TestAnAddressGoesFromNodeToNode: the speaker of w1 on a LAN with w2 and with another host.
func TestAnAddressGoesFromNodeToNode(t *testing.T) {
	type told = map[netip.Addr]membership.Claim
	claim := func(epoch uint64, stage membership.Stage) told { return told{sought: {Epoch: epoch, Stage: stage}} }
	type world struct {
		*Speaker
		*chronicle
	}
	// w2 is heard, on the same LAN, with these claims.
	w2 := func(claims told) func(*testing.T, world) {
		return func(_ *testing.T, w world) {
			w.others = map[string]membership.Member{"w2": {Segments: []membership.Segment{on("near", "192.168.1.0/24")}, Claims: claims}}
		}
	}
	type step struct {
		what   string
		change func(t *testing.T, w world)
		// answered means that another host's answer comes before the second pass.
		answered bool
		// want are the changes of what the others are told. Passes are made until the last of them; for one the first pass has to be enough.
		want []told
		// ours are the addresses that are reported as announced by this node, and why the others are announced by nobody.
		ours, why []string
		gone      bool // it may end
	}
	for name, tc := range map[string]struct {
		former told
		steps  []step
	}{
		"w2 has it, and dies": {steps: []step{
			{what: "w2 has the address: it keeps it", change: w2(claim(4, membership.Held)), want: []told{{}}},
			{what: "w2 is gone: this node asks the wire, which stays silent, and has it",
				change: func(_ *testing.T, w world) { w.others = nil },
				want:   []told{claim(5, membership.Taking), claim(5, membership.Held)}, ours: []string{"192.168.1.200"}},
			{what: "w2 comes back: who has an address keeps it", change: w2(nil), want: []told{}, ours: []string{"192.168.1.200"}},
			{what: "this speaker ends: it answers until w2 does", change: func(_ *testing.T, w world) { w.departing.Store(true) },
				want: []told{claim(5, membership.Offered)}, ours: []string{"192.168.1.200"}},
			{what: "w2 asks the wire", change: w2(claim(6, membership.Taking)), want: []told{}, ours: []string{"192.168.1.200"}},
			{what: "w2 has it", change: w2(claim(6, membership.Held)), want: []told{{}}, gone: true},
		}},
		"this speaker was started anew, and the others have kept its place": {former: claim(4, membership.Held), steps: []step{
			{what: "it answers in its first pass, and asks nobody", change: w2(nil), want: []told{claim(4, membership.Held)}, ours: []string{"192.168.1.200"}},
		}},
		"a host has the address": {steps: []step{
			{what: "this node asks the wire, and leaves it to the host",
				change:   func(t *testing.T, _ world) { foreign(t) },
				answered: true, want: []told{claim(5, membership.Taking), {}}, why: []string{"192.168.1.200: AnswersElsewhere"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inNewNetwork(t)
			near := cable(t)
			ip(t, "address", "add", "192.168.1.7/24", "dev", "near")
			g := &chronicle{gossip: &gossip{former: tc.former}, epochs: map[netip.Addr]uint64{sought: 4}}
			s := newSpeaker(t, fake.NewFakeClient(stored(), onNode("w1"), onNode("w2"), balancer("web", "192.168.1.200")), g)
			r, _ := newResponders(t)
			r.seen = s.see
			ctx, cancel := context.WithCancel(t.Context())
			defer r.wait()
			defer cancel()
			pass := func(what string) {
				if err := s.pass(ctx, r); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			for _, step := range tc.steps {
				step.change(t, world{s, g})
				before := len(g.told)
				pass(step.what)
				if step.answered {
					select {
					case <-s.dirty: // only a sighting wakes the loop here
					case <-time.After(10 * time.Second):
						t.Fatalf("%s: no answer is seen", step.what)
					}
					pass(step.what)
				}
				for late := time.Now().Add(10 * time.Second); len(g.told)-before < len(step.want) && time.Now().Before(late); {
					time.Sleep(min(s.retryIn(time.Now()), 100*time.Millisecond)) // the wire is being asked
					pass(step.what)
				}
				if diff := cmp.Diff(step.want, g.told[before:], compareValues); diff != "" {
					t.Errorf("%s: what the others are told (-want +got):\n%s", step.what, diff)
				}
				var ours, why []string
				for _, a := range s.report.latest.Announced {
					ours = append(ours, a.IP)
				}
				for _, a := range s.report.latest.Unannounced {
					why = append(why, fmt.Sprintf("%s: %s", a.IP, a.Reason))
				}
				if diff := cmp.Diff([][]string{step.ours, step.why}, [][]string{ours, why}); diff != "" {
					t.Errorf("%s: announced, and announced by nobody (-want +got):\n%s", step.what, diff)
				}
				if len(step.ours) > 0 && !t.Failed() {
					awaitAnswer(t, "192.168.1.200", near.MAC)
				}
				select {
				case <-s.gone:
					if !step.gone {
						t.Errorf("%s: it may end", step.what)
					}
				default:
					if step.gone {
						t.Errorf("%s: it may not end", step.what)
					}
				}
			}
		})
	}
}
