package election

import (
	"fmt"
	"net/netip"
	"slices"
)

// View is what one node knows when it decides.
type View struct {
	// Self is the node.
	Self   string
	Quorum Quorum
	// Departing means that the node's speaker ends: it hands over what it has, and takes nothing.
	Departing bool
	// Addresses are all that somebody has to announce, in an order that is the same everywhere.
	Addresses []Address

	// off are safeguards that the simulation takes away, to show that it would miss them.
	off safeguard
}

// Address is an address with what is known of it.
type Address struct {
	Addr netip.Addr
	// Candidates are the cluster's nodes and those whose speakers are heard, in any order.
	Candidates []Candidate
	// Epoch is the highest that was heard of for the address.
	Epoch uint64
	// Fence is what the wire says while this node is taking it over, and for some time after it found somebody there.
	Fence Fence
	// Occupant is whom the fence found, if it found somebody.
	Occupant Occupant

	off safeguard
}

// Fence is what a node that takes an address over has heard on the wire since it began to ask.
type Fence int

// What the wire says.
const (
	// Asking: the time to answer is not over yet.
	Asking Fence = iota
	// Clear: nobody answered.
	Clear
	// Occupied: somebody else has the address, or takes it.
	Occupied
)

// Quorum says how much of the group of speakers this node hears.
type Quorum struct {
	// Heard are the speakers that it hears, itself included; Known those and the ones that it has lost.
	Heard, Known int
	// Wire is what the hosts around say, in case it hears exactly half.
	Wire Wire
}

// Wire says whether hosts other than speakers answer a node on its LAN.
type Wire int

// What the hosts around say.
const (
	// NobodyToAsk: there is no host that would answer.
	NobodyToAsk Wire = iota
	// Unanswered: none of those that should answer does: it is this node that is cut off.
	Unanswered
	// Answered: somebody does.
	Answered
)

// Suffices says whether the node may take anything over. The smaller part of a group that fell apart may not; of two equal parts the one
// may that is not cut off from its LAN.
func (q Quorum) Suffices() bool {
	return 2*q.Heard > q.Known || 2*q.Heard == q.Known && q.Wire != Unanswered
}

// Reason is why a decision is what it is, as a machine reads it.
type Reason string

// The reasons.
const (
	// Elected: the node has it, or is the one to take it over.
	Elected Reason = "Elected"
	// ElectedExcluded: as Elected, but all that can are excluded by label.
	ElectedExcluded Reason = "ElectedExcluded"
	// NoCandidate: no node can.
	NoCandidate Reason = "NoCandidate"
	// AnswersElsewhere: this node would take it over, but somebody answers for it on the LAN, or takes it, whose claim it does not hear.
	AnswersElsewhere Reason = "AnswersElsewhere"
	// HearsTooFew: this node would take it over, but it hears so few other speakers that it may be the one that is cut off.
	HearsTooFew Reason = "HearsTooFew"
)

// Decision is who announces an address.
type Decision struct {
	// Node is empty when nobody does, as far as this node knows.
	Node   string
	Reason Reason
	// Message says what is unusual; empty when nothing is.
	Message string
	// Claim is what this node claims from now on.
	Claim Claim
}

// excludeLabel is Kubernetes' well-known label.
const excludeLabel = "node.kubernetes.io/exclude-from-external-load-balancers"

// Decide says for each address who announces it, and what this node claims.
func Decide(v View) []Decision {
	decisions := make([]Decision, len(v.Addresses))
	addresses := slices.Clone(v.Addresses)
	for i := range addresses {
		addresses[i].off = v.off
	}
	placed := newPlacement(addresses, v.off)
	for i, a := range addresses {
		n := &next{address: a, placed: placed}
		if !a.taken() && n.choose() {
			placed.load[n.Node]++
		}
		claim := v.claim(a, n)
		decisions[i] = v.report(a, claim, n)
		decisions[i].Claim = claim
	}
	return decisions
}

// next is the candidate that is to announce an address that nobody has. It is chosen once it matters: most addresses have an owner, and keep it.
type next struct {
	Candidate
	address       Address
	placed        placement
	asked, chosen bool
}

// choose chooses it, and says whether there is one.
func (n *next) choose() bool {
	if !n.asked {
		n.asked = true
		n.Candidate, n.chosen = n.placed.choose(n.address, "")
	}
	return n.chosen
}

// report says who announces the address now that this node claims this: who has it, or else who is to take it over next.
func (v View) report(a Address, claim Claim, n *next) Decision {
	after := a.with(v.Self, claim)
	announcer, owned := after.best(after.claiming)
	switch {
	case owned:
	case !n.choose():
		return Decision{Reason: NoCandidate, Message: explain(a.Candidates)}
	case a.Fence == Occupied:
		return Decision{Reason: AnswersElsewhere, Message: v.Self + " would take it over, but " + a.Occupant.does(v.Self) +
			". It is asked again every second"}
	case n.Node == v.Self && !v.Quorum.Suffices():
		return Decision{Reason: HearsTooFew, Message: fmt.Sprintf("%s would take it over, but hears only %d of %d speakers, itself included: it "+
			"may be the one that is cut off. Check the network between the nodes (spec.speaker.membershipPort, TCP and UDP), or remove nodes that "+
			"are gone for good from the cluster", v.Self, v.Quorum.Heard, v.Quorum.Known)}
	default:
		announcer = n.Candidate
	}
	if announcer.Excluded && !slices.ContainsFunc(a.Candidates, func(c Candidate) bool { return c.fitness() > excluded }) {
		return Decision{Node: announcer.Node, Reason: ElectedExcluded, Message: fmt.Sprintf(
			"every node that can announce it carries the label %s; %s announces it all the same", excludeLabel, announcer.Node)}
	}
	return Decision{Node: announcer.Node, Reason: Elected}
}

// does says what an occupant does that keeps a node from taking an address over.
func (o Occupant) does(self string) string {
	switch o.As {
	case Contender:
		return fmt.Sprintf("%s asks for it on the LAN as well, and is no speaker that %s hears: a host that is about to take it, or a node whose "+
			"speaker is cut off from the others", o.MAC, self)
	case Speaker:
		return fmt.Sprintf("the node with %s answers for it on the LAN, whose speaker is heard and does not claim it: its kernel has the address "+
			"(kube-proxy in mode ipvs without strictARP, an address on an interface)", o.MAC)
	case Nobody, Stranger:
	}
	return fmt.Sprintf("%s answers for it on the LAN, and is no speaker that %s hears: a node whose speaker is cut off from the others, or a "+
		"foreign host", o.MAC, self)
}

// claim is what this node claims from now on.
func (v View) claim(a Address, n *next) Claim {
	me := a.candidate(v.Self)
	rival, contested := a.best(func(c Candidate) bool { return c.Node != v.Self && a.claiming(c) })
	switch {
	case me.Obstacle.mutes():
		return Claim{}
	case me.Claim.Stage.Answers():
		return v.hold(a, me, rival, contested)
	case me.Claim.Stage == Taking:
		return v.take(a, me, rival, contested)
	case a.taken() && v.holds(keepOwners):
		return Claim{}
	case n.choose() && n.Node == v.Self:
		return v.begin(a)
	}
	return Claim{}
}

// hold decides for a node that answers. Whether it hears enough others does not matter: who is cut off hurts nobody by answering.
func (v View) hold(a Address, me, rival Candidate, contested bool) Claim {
	other := a.fittest(v.Self)
	replaceable := other != unable
	switch {
	case contested && rival.Claim.Stage.Answers() && a.better(rival, me) && v.holds(yieldToBetter):
		return Claim{}
	case !replaceable && me.Obstacle != Able:
		return Claim{}
	case !replaceable || !v.Departing && me.fitness() >= other:
		return Claim{Epoch: me.Claim.Epoch, Stage: Held}
	case !v.holds(handOver):
		return Claim{}
	}
	return Claim{Epoch: me.Claim.Epoch, Stage: Offered}
}

// take decides for a node that is taking the address over: it goes on until the wire has been asked, unless somebody has it or will.
func (v View) take(a Address, me, rival Candidate, contested bool) Claim {
	offered := contested && rival.Claim.Stage == Offered
	fence := a.Fence
	if !v.holds(askTheWire) {
		fence = Clear
	}
	switch {
	case me.Obstacle != Able || v.Departing || !v.mayTake() || fence == Occupied:
		return Claim{}
	case contested && !offered && a.better(rival, me):
		return Claim{}
	case offered && rival.Claim.Epoch >= me.Claim.Epoch: // it would not let go: begin anew
		return Claim{}
	case fence == Clear:
		return Claim{Epoch: me.Claim.Epoch, Stage: Held}
	}
	return me.Claim
}

// begin decides for the node that is chosen and claims nothing yet.
func (v View) begin(a Address) Claim {
	if v.Departing || !v.mayTake() || a.Fence == Occupied && v.holds(askTheWire) {
		return Claim{}
	}
	epoch := a.Epoch
	for _, c := range a.Candidates {
		epoch = max(epoch, c.Claim.Epoch)
	}
	if !v.holds(countEpochs) {
		epoch = 0
	}
	return Claim{Epoch: epoch + 1, Stage: Taking}
}

// mayTake says whether this node hears enough others to take anything over.
func (v View) mayTake() bool { return v.Quorum.Suffices() || !v.holds(needQuorum) }

// claiming says whether a candidate claims the address and can answer for it.
func (a Address) claiming(c Candidate) bool { return c.Claim.Stage != None && !c.Obstacle.mutes() }

// Offered says whether somebody offers the address and nobody holds it.
func (a Address) Offered() bool {
	owner, owned := a.best(a.claiming)
	return owned && owner.Claim.Stage == Offered
}

// taken says whether somebody claims the address and does not offer it.
func (a Address) taken() bool { return slices.ContainsFunc(a.Candidates, a.standing) }

// standing says whether a candidate claims the address and does not offer it.
func (a Address) standing(c Candidate) bool { return a.claiming(c) && c.Claim.Stage != Offered }

// best returns the candidate with the best claim of those.
func (a Address) best(of func(Candidate) bool) (best Candidate, found bool) {
	for _, c := range a.Candidates {
		if of(c) && (!found || a.better(c, best)) {
			best, found = c, true
		}
	}
	return best, found
}

// candidate returns a node's candidate: one that is not listed cannot answer.
func (a Address) candidate(node string) Candidate {
	for _, c := range a.Candidates {
		if c.Node == node {
			return c
		}
	}
	return Candidate{Node: node, Obstacle: Silent}
}

// with returns the address as it is once a node claims this.
func (a Address) with(node string, claim Claim) Address {
	if a.candidate(node).Claim == claim {
		return a
	}
	a.Candidates = slices.Clone(a.Candidates)
	for i := range a.Candidates {
		if a.Candidates[i].Node == node {
			a.Candidates[i].Claim = claim
		}
	}
	return a
}

// safeguard is a rule that keeps addresses from having two owners, none, or ever new ones.
type safeguard int

const (
	askTheWire     safeguard = 1 << iota // nobody answers before the wire was asked
	needQuorum                           // a node that is cut off takes nothing
	keepOwners                           // who has an address keeps it
	yieldToBetter                        // of two that answer one stops
	countEpochs                          // who took it later has the better claim
	answerersFirst                       // who only wants an address does not relieve who has it
	offersByEpoch                        // an offer is worth as much as its epoch
	spreadEvenly                         // addresses that nobody has go to who has fewest
	handOver                             // who is to leave an address answers until another does
)

// holds says whether a safeguard is in force.
func (v View) holds(s safeguard) bool { return v.off&s == 0 }
