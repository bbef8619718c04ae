package speaker

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/internal/election"
	"github.com/lanyard-dev/lanyard/internal/membership"
	"github.com/lanyard-dev/lanyard/internal/responder"
)

// claimed are the claims, by address.
func (c *claims) claimed() map[netip.Addr]election.Claim {
	claimed := map[netip.Addr]election.Claim{}
	for addr, k := range c.known {
		if k.claim.Stage != election.None {
			claimed[addr] = k.claim
		}
	}
	return claimed
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
		if diff := cmp.Diff(step.want, c.claimed(), compareValues); diff != "" {
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
	if len(c.known) > 0 {
		t.Errorf("it still knows something of %v, which are not its own", slices.Collect(maps.Keys(c.known)))
	}
}

// TestNothingIsKeptOfAnAddressThatIsGone: while somebody else has it, it would be remembered for ever.
func TestNothingIsKeptOfAnAddressThatIsGone(t *testing.T) {
	c := deciding(ms(0), claiming(sought, "eth0", election.Taking))
	c.see(saw(highMAC, responder.Claimed, sought), vantage(), ms(15))
	if fence, _ := c.ask(sought, false, ms(15)); fence != election.Occupied {
		t.Fatalf("the wire says %v, want %v", fence, election.Occupied)
	}
	c.settle([]verdict{{addr: sought}}, snapshot{self: "w1"}) // it is left alone
	if len(c.known) != 1 {
		t.Errorf("who has it is not remembered")
	}
	c.settle(nil, snapshot{self: "w1"}) // the Service is deleted
	if len(c.known) > 0 {
		t.Errorf("it is remembered")
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
	if diff := cmp.Diff(want, c.claimed(), compareValues); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

// TestTheOthersAreToldWhatIsClaimed, and understand it as it was meant.
func TestTheOthersAreToldWhatIsClaimed(t *testing.T) {
	c := newClaims()
	for i, stage := range []election.Stage{election.Taking, election.Held, election.Offered, election.None} {
		c.known[netip.AddrFrom4([4]byte{192, 168, 1, byte(i)})] = &known{claim: election.Claim{Epoch: uint64(10 + i), Stage: stage}}
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
	for addr, k := range c.known {
		claim := k.claim
		if claim.Stage == election.None {
			claim = election.Claim{} // to claim nothing is no news
		}
		if diff := cmp.Diff(claim, heard.claim("w1", addr)); diff != "" {
			t.Errorf("%s: the others understand (-want +got):\n%s", addr, diff)
		}
	}
}
