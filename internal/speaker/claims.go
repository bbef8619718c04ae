package speaker

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"github.com/lanyard-dev/lanyard/internal/election"
	"github.com/lanyard-dev/lanyard/internal/links"
	"github.com/lanyard-dev/lanyard/internal/membership"
	"github.com/lanyard-dev/lanyard/internal/responder"
)

// announceAgain is how often an address is announced at most because somebody else was seen to have it. An announcement is repeated for
// three seconds as it is.
const announceAgain = time.Second

// While this node hears so few others that it may be cut off, it asks the wire every doubtEvery whether somebody else answers for what it
// has, for doubtAtOnce addresses at a time: once it is connected again, it lets go before gossip has found the others.
const (
	doubtEvery  = 100 * time.Millisecond
	doubtAtOnce = 20
)

// claims are what this node claims, and what the wire says of it. Only the speaker's loop uses them.
type claims struct {
	mine map[netip.Addr]election.Claim
	// questions are those about addresses that are being taken over, or were found to be somebody else's a moment ago.
	questions map[netip.Addr]*election.Question
	// found are the hardware addresses that answered.
	found map[netip.Addr]responder.MAC
	// rivals are the addresses that another speaker was heard to answer for, while this one did.
	rivals map[netip.Addr]bool
	// announced is when an address was announced again because somebody else was seen to have it.
	announced map[netip.Addr]time.Time
	// fences are what was last said of the wire, and at the hardware addresses with which it was asked.
	fences map[netip.Addr]election.Fence
	at     map[netip.Addr]responder.MAC
	// ends is when an answer of the wire is due.
	ends time.Time
	// cutOff says that too few others are heard, doubted is when the wire was asked for that reason and last about which address.
	cutOff  bool
	doubted time.Time
	last    netip.Addr
}

func newClaims() *claims {
	return &claims{mine: map[netip.Addr]election.Claim{}, questions: map[netip.Addr]*election.Question{}, found: map[netip.Addr]responder.MAC{},
		rivals: map[netip.Addr]bool{}, announced: map[netip.Addr]time.Time{},
		fences: map[netip.Addr]election.Fence{}, at: map[netip.Addr]responder.MAC{}}
}

// resume takes up again what this node answered for before its speaker was started anew, and the others have kept for it.
func (c *claims) resume(former map[netip.Addr]membership.Claim) {
	for addr, claim := range former {
		if stage := stages[claim.Stage]; stage.Answers() {
			c.mine[addr] = election.Claim{Epoch: claim.Epoch, Stage: election.Held}
		}
	}
}

// neighbours are the hardware addresses of this node, by interface, and those of the speakers that are heard.
type neighbours struct {
	own   map[string]responder.MAC
	peers map[responder.MAC]bool
}

func neighboursOf(interfaces []links.Interface, members map[string]membership.Member) neighbours {
	n := neighbours{own: map[string]responder.MAC{}, peers: map[responder.MAC]bool{}}
	for _, i := range interfaces {
		if len(i.MAC) == len(responder.MAC{}) {
			n.own[i.Name] = responder.MAC(i.MAC)
		}
	}
	for _, member := range members {
		for _, segment := range member.Segments {
			n.peers[responder.MAC(segment.MAC)] = true
		}
	}
	return n
}

// ours says whether a hardware address is this node's.
func (n neighbours) ours(mac responder.MAC) bool {
	for _, own := range n.own {
		if own == mac {
			return true
		}
	}
	return false
}

// see takes in what others said on the wire, and returns the addresses that have to be announced again: caches may hold the other's hardware
// address.
func (c *claims) see(seen map[responder.Sighting]bool, around neighbours, now time.Time) (again []netip.Addr) {
	for sighting := range seen {
		claim, claimed := c.mine[sighting.Addr]
		if around.ours(sighting.MAC) || !claimed {
			continue
		}
		peer := around.peers[sighting.MAC]
		switch question := c.questions[sighting.Addr]; {
		case claim.Stage == election.Taking && question != nil && sighting.Kind == responder.Claimed:
			question.Heard(peer)
			c.found[sighting.Addr] = sighting.MAC
		case claim.Stage == election.Taking && question != nil && !peer:
			at := c.at[sighting.Addr]
			question.Crossed(bytes.Compare(at[:], sighting.MAC[:]) < 0) // both see the same two hardware addresses
			c.found[sighting.Addr] = sighting.MAC
		case claim.Stage == election.Offered && sighting.Kind == responder.Claimed && peer:
			delete(c.mine, sighting.Addr) // it is taken over, though gossip has not said so yet
		case claim.Stage == election.Held && sighting.Kind == responder.Claimed && c.cutOff && !peer:
			delete(c.mine, sighting.Addr) // those who hear each other have taken it over
		case claim.Stage == election.Held && sighting.Kind == responder.Claimed && now.Sub(c.announced[sighting.Addr]) >= announceAgain:
			c.announced[sighting.Addr] = now
			again = append(again, sighting.Addr)
		}
	}
	return again
}

// ask says what the wire has said of an address by now, and notes when to look again.
func (c *claims) ask(addr netip.Addr, offered bool, now time.Time) (fence election.Fence, answering string) {
	question := c.questions[addr]
	if question == nil {
		return election.Asking, ""
	}
	fence, next := question.Answer(now, offered)
	c.fences[addr] = fence
	if c.ends.IsZero() || next.Before(c.ends) {
		c.ends = next
	}
	if fence == election.Occupied {
		return fence, c.found[addr].String()
	}
	return fence, ""
}

// settle takes over what was decided, and returns the addresses whose neighbours are to be told again because a rival has let go.
func (c *claims) settle(verdicts []verdict, s snapshot) (again []netip.Addr) {
	before := c.rivals
	c.mine, c.rivals = map[netip.Addr]election.Claim{}, map[netip.Addr]bool{}
	for _, v := range verdicts {
		if v.iface != "" {
			c.mine[v.addr] = v.decision.Claim
		}
		if v.answers() && s.contested(v.addr) {
			c.rivals[v.addr] = true
		} else if v.answers() && before[v.addr] {
			again = append(again, v.addr)
		}
	}
	for addr := range c.questions {
		if c.mine[addr].Stage != election.Taking && c.fences[addr] != election.Occupied {
			delete(c.questions, addr)
			delete(c.found, addr)
			delete(c.fences, addr)
			delete(c.at, addr)
		}
	}
	for addr := range c.announced {
		if _, claimed := c.mine[addr]; !claimed {
			delete(c.announced, addr)
		}
	}
	return again
}

// due returns the addresses of which the wire is to be asked now.
func (c *claims) due(verdicts []verdict, around neighbours, now time.Time) (ask []verdict) {
	for _, v := range verdicts {
		if v.iface == "" || v.decision.Claim.Stage != election.Taking {
			continue
		}
		question := c.questions[v.addr]
		if question == nil {
			question = &election.Question{}
			c.questions[v.addr] = question
		}
		if question.Due(now) {
			c.at[v.addr] = around.own[v.iface]
			ask = append(ask, v)
		}
		if next := question.Next(); c.ends.IsZero() || next.Before(c.ends) {
			c.ends = next
		}
	}
	return ask
}

// doubts returns the addresses of which the wire is to be asked because this node may be cut off: all in turn.
func (c *claims) doubts(verdicts []verdict, now time.Time) (ask []verdict) {
	if !c.cutOff || now.Sub(c.doubted) < doubtEvery {
		return nil
	}
	c.doubted = now
	var held []verdict
	for _, v := range verdicts { // in the order of addresses
		if v.answers() {
			held = append(held, v)
		}
	}
	next, _ := slices.BinarySearchFunc(held, c.last, func(v verdict, last netip.Addr) int {
		if v.addr.Compare(last) <= 0 {
			return -1
		}
		return 1
	})
	for i := range min(len(held), doubtAtOnce) {
		ask = append(ask, held[(next+i)%len(held)])
	}
	if len(ask) > 0 {
		c.last = ask[len(ask)-1].addr
	}
	return ask
}

// told are the claims as the others are told them.
func (c *claims) told() map[netip.Addr]membership.Claim {
	told := make(map[netip.Addr]membership.Claim, len(c.mine))
	for addr, claim := range c.mine {
		for stage, same := range stages {
			if same == claim.Stage && claim.Stage != election.None {
				told[addr] = membership.Claim{Epoch: claim.Epoch, Stage: stage}
			}
		}
	}
	return told
}

// addresses are those that this node claims.
func (c *claims) addresses() map[netip.Addr]bool {
	all := make(map[netip.Addr]bool, len(c.mine))
	for addr := range c.mine {
		all[addr] = true
	}
	return all
}

// retryIn is when the wire has to be looked at again at the latest.
func (c *claims) retryIn(now time.Time) time.Duration {
	next := lookAgain
	if !c.ends.IsZero() {
		next = max(0, c.ends.Sub(now))
	}
	if c.cutOff && len(c.mine) > 0 {
		next = min(next, doubtEvery)
	}
	return next
}
