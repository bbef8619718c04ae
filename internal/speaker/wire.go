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

// How often an address is announced at most because somebody else was seen to have it: another speaker, which lets go within a moment, or a
// foreign host, which may never do (RFC 5227, sections 1.1 and 2.4, case c). An announcement is repeated for three seconds as it is.
const (
	announceAgain  = time.Second
	defendInterval = 10 * time.Second
)

// While this node hears so few others that it may be cut off, it asks the wire every doubtEvery whether somebody else answers for what it
// has, for doubtAtOnce addresses at a time: once it is connected again, it lets go before gossip has found the others. When somebody does for one
// address, it asks about all others within a moment, for relievedFor.
const (
	doubtEvery     = 100 * time.Millisecond
	doubtAtOnce    = 20
	relievedEvery  = 20 * time.Millisecond
	relievedAtOnce = 200
	relievedFor    = time.Second
)

// doubting is how often the wire is asked while this node may be cut off, and about how many addresses at a time.
func (c *claims) doubting(now time.Time) (every time.Duration, atOnce int) {
	if now.Sub(c.relieved) < relievedFor {
		return relievedEvery, relievedAtOnce
	}
	return doubtEvery, doubtAtOnce
}

// neighbours are the hardware addresses of this node, by interface, and those of the speakers that are heard, with what each claims.
type neighbours struct {
	own   map[string]responder.MAC
	peers map[responder.MAC]membership.Member
}

func neighboursOf(interfaces []links.Interface, members map[string]membership.Member) neighbours {
	n := neighbours{own: map[string]responder.MAC{}, peers: map[responder.MAC]membership.Member{}}
	for _, i := range interfaces {
		if len(i.MAC) == len(responder.MAC{}) {
			n.own[i.Name] = responder.MAC(i.MAC)
		}
	}
	for _, member := range members {
		for _, segment := range member.Segments {
			n.peers[responder.MAC(segment.MAC)] = member
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
		k := c.known[sighting.Addr]
		if k == nil || around.ours(sighting.MAC) {
			continue
		}
		peer, heard := around.peers[sighting.MAC]
		claimed := sighting.Kind == responder.Claimed
		switch {
		case k.claim.Stage == election.Taking && k.question != nil:
			k.question.Heard(occupant(sighting, k.at, heard))
		case k.claim.Stage == election.Offered && claimed && heard && peer.Claims[sighting.Addr].Epoch > k.claim.Epoch:
			k.claim = election.Claim{} // it is taken over by whom gossip said to take it: that it has it, gossip may say later
		case k.claim.Stage == election.Held && claimed && c.cutOff && !heard:
			k.claim, c.relieved = election.Claim{}, now // those who hear each other have taken it over
		case k.claim.Stage == election.Held && claimed && now.Sub(k.announced) >= pauseOf(heard):
			k.announced = now
			again = append(again, sighting.Addr)
		}
	}
	return again
}

// pauseOf is how long an address is not announced again because of a speaker that is heard, or of somebody else.
func pauseOf(heard bool) time.Duration {
	if heard {
		return announceAgain
	}
	return defendInterval
}

// occupant is what a sighting says of an address that is being taken over, asked for from the hardware address at. Of two strangers that ask,
// the one with the lower hardware address steps back: both see the same two. Peers settle it by their claims.
func occupant(s responder.Sighting, at responder.MAC, heard bool) election.Occupant {
	o := election.Occupant{MAC: s.MAC.String()}
	switch {
	case s.Kind == responder.Claimed && heard:
		o.As = election.Speaker
	case s.Kind == responder.Claimed:
		o.As = election.Stranger
	case !heard && bytes.Compare(at[:], s.MAC[:]) < 0:
		o.As = election.Contender
	}
	return o
}

// ask says what the wire has said of an address by now, and notes when to look again.
func (c *claims) ask(addr netip.Addr, offered bool, now time.Time) (election.Fence, election.Occupant) {
	k := c.known[addr]
	if k == nil || k.question == nil {
		return election.Asking, election.Occupant{}
	}
	var next time.Time
	k.fence, next = k.question.Answer(now, offered)
	c.comeBack(next)
	return k.fence, k.question.Occupant()
}

// due returns the addresses of which the wire is to be asked now.
func (c *claims) due(verdicts []verdict, around neighbours, now time.Time) (ask []verdict) {
	for _, v := range verdicts {
		if !v.seeks() {
			continue
		}
		k := c.known[v.addr]
		if k.question == nil {
			k.question = &election.Question{}
		}
		if k.question.Due(now, v.offered) {
			k.at = around.own[v.iface]
			ask = append(ask, v)
		}
		c.comeBack(k.question.Next())
	}
	return ask
}

// doubts returns the addresses of which the wire is to be asked because this node may be cut off: all in turn.
func (c *claims) doubts(verdicts []verdict, now time.Time) (ask []verdict) {
	every, atOnce := c.doubting(now)
	if !c.cutOff || now.Sub(c.doubted) < every {
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
	for i := range min(len(held), atOnce) {
		ask = append(ask, held[(next+i)%len(held)])
	}
	if len(ask) > 0 {
		c.last = ask[len(ask)-1].addr
	}
	return ask
}

// comeBack notes that the wire has to be looked at then at the latest.
func (c *claims) comeBack(at time.Time) {
	if c.ends.IsZero() || at.Before(c.ends) {
		c.ends = at
	}
}

// retryIn is when the wire has to be looked at again at the latest.
func (c *claims) retryIn(now time.Time) time.Duration {
	next := lookAgain
	if !c.ends.IsZero() {
		next = max(0, c.ends.Sub(now))
	}
	if every, _ := c.doubting(now); c.cutOff && len(c.known) > 0 {
		next = min(next, every)
	}
	return next
}
