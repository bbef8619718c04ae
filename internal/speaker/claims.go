package speaker

import (
	"net/netip"
	"time"

	"github.com/lanyard-dev/lanyard/internal/election"
	"github.com/lanyard-dev/lanyard/internal/membership"
	"github.com/lanyard-dev/lanyard/internal/responder"
)

// claims are what this node claims, and what the wire says of it. Only the speaker's loop uses them.
type claims struct {
	// known is what is known of each address that this node claims, or that it found to be somebody else's a moment ago.
	known map[netip.Addr]*known
	// ends is when an answer of the wire is due.
	ends time.Time
	// cutOff says that too few others are heard, doubted is when the wire was asked for that reason and last about which address; relieved when
	// somebody was seen to have taken one over.
	cutOff   bool
	doubted  time.Time
	last     netip.Addr
	relieved time.Time
}

// known is what is known of an address.
type known struct {
	// claim is what this node claims; nothing while the address is left to whom the wire has shown.
	claim election.Claim
	// question is what the wire is asked while the address is taken over, from the hardware address at; fence is what it said last.
	question *election.Question
	at       responder.MAC
	fence    election.Fence
	// rival says that another speaker was heard to answer for it, while this one did.
	rival bool
	// announced is when it was announced again because somebody else was seen to have it.
	announced time.Time
}

func newClaims() *claims { return &claims{known: map[netip.Addr]*known{}} }

// resume takes up again what this node answered for before its speaker was started anew, and the others have kept for it.
func (c *claims) resume(former map[netip.Addr]membership.Claim) {
	for addr, claim := range former {
		if stage := stages[claim.Stage]; stage.Answers() {
			c.known[addr] = &known{claim: election.Claim{Epoch: claim.Epoch, Stage: election.Held}}
		}
	}
}

// settle takes over what was decided, and returns the addresses whose neighbours are to be told again because a rival has let go. Of an
// address that nothing was decided of, nothing stays known.
func (c *claims) settle(verdicts []verdict, s snapshot) (again []netip.Addr) {
	before := c.known
	c.known = make(map[netip.Addr]*known, len(before))
	for _, v := range verdicts {
		k := before[v.addr]
		if k == nil {
			k = &known{}
		}
		claim := v.decision.Claim
		if v.iface == "" {
			claim = election.Claim{}
		}
		rival := v.answers() && s.contested(v.addr)
		if v.answers() && k.rival && !rival {
			again = append(again, v.addr)
		}
		k.claim, k.rival = claim, rival
		if claim.Stage != election.Taking && k.fence != election.Occupied {
			k.question, k.fence = nil, election.Asking
		}
		if claim.Stage != election.None || k.question != nil {
			c.known[v.addr] = k
		}
	}
	return again
}

// told are the claims as the others are told them.
func (c *claims) told() map[netip.Addr]membership.Claim {
	told := make(map[netip.Addr]membership.Claim, len(c.known))
	for addr, k := range c.known {
		if stage, claimed := toldStages[k.claim.Stage]; claimed {
			told[addr] = membership.Claim{Epoch: k.claim.Epoch, Stage: stage}
		}
	}
	return told
}

// addresses are those that this node claims.
func (c *claims) addresses() map[netip.Addr]bool {
	all := make(map[netip.Addr]bool, len(c.known))
	for addr, k := range c.known {
		if k.claim.Stage != election.None {
			all[addr] = true
		}
	}
	return all
}

// contested is how many addresses another speaker is heard to answer for as well.
func (c *claims) contested() (n int) {
	for _, k := range c.known {
		if k.rival {
			n++
		}
	}
	return n
}

// stages are the stages of a claim as the speakers tell them each other.
var stages = map[membership.Stage]election.Stage{
	0: election.None, membership.Taking: election.Taking, membership.Held: election.Held, membership.Offered: election.Offered,
}

// toldStages are the stages that are told.
var toldStages = map[election.Stage]membership.Stage{
	election.Taking: membership.Taking, election.Held: membership.Held, election.Offered: membership.Offered,
}
