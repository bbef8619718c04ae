package speaker

import (
	"net/netip"
	"slices"
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/election"
)

// move is how an address came to this node.
type move struct {
	// from is the node that answered before; empty when none is known.
	from   string
	reason v1alpha1.MoveReason
	// silence is how long nobody answered at most: from when the node before was heard for the last time. It is zero when that one went on
	// answering until this one did.
	silence time.Duration
}

// told is the move as it is reported; nil for the zero move.
func (m move) told() *v1alpha1.AddressMove {
	if m.reason == "" {
		return nil
	}
	return &v1alpha1.AddressMove{From: m.from, Reason: m.reason, FailoverMilliseconds: m.silence.Milliseconds()}
}

// owners are the nodes that were heard last to answer for each address.
type owners map[netip.Addr]string

// note remembers who answers for the addresses now. Those of which nothing was decided are forgotten.
func (o owners) note(verdicts []verdict, s snapshot) {
	known := make(map[netip.Addr]bool, len(verdicts))
	for _, v := range verdicts {
		known[v.addr] = true
		if v.answers() {
			o[v.addr] = s.self
			continue
		}
		for name := range s.members {
			if s.claim(name, v.addr).Stage.Answers() && name != s.self {
				o[v.addr] = name
			}
		}
	}
	for addr := range o {
		if !known[addr] {
			delete(o, addr)
		}
	}
}

// moveOf says how an address came here that this node answers for from now on. It is given what reaches the node before.
func (s snapshot) moveOf(v verdict, from string, answered func(node string) time.Time, now time.Time) move {
	switch from {
	case s.self:
		return move{} // it never went
	case "":
		return move{reason: v1alpha1.MoveUnowned}
	}
	m := move{from: from, reason: s.whyNot(from, v)}
	silent := m.reason == v1alpha1.MoveNodeSilent || m.reason == v1alpha1.MoveNoInterface
	if last := answered(from); silent && !last.IsZero() {
		m.silence = now.Sub(last)
	}
	return m
}

// whyNot says what keeps a node from announcing an address that it had.
func (s snapshot) whyNot(name string, v verdict) v1alpha1.MoveReason {
	if _, heard := s.members[name]; !heard && !slices.Contains(s.lost, name) {
		return v1alpha1.MoveSpeakerStopped // it has said that it goes
	}
	at := slices.IndexFunc(v.candidates, func(c election.Candidate) bool { return c.Node == name })
	if at < 0 {
		return v1alpha1.MoveNodeSilent // nor is it a node any more
	}
	switch c := v.candidates[at]; {
	case c.Obstacle != election.Able:
		return hindrances[c.Obstacle]
	case c.Excluded:
		return v1alpha1.MoveExcluded
	case c.Away:
		return v1alpha1.MoveKubeProxyRestart
	case c.Claim.Stage == election.Offered:
		return v1alpha1.MoveSpeakerStopped
	}
	return v1alpha1.MoveGivenUp
}

// hindrances are the reasons of a move that the election has for leaving a node out.
var hindrances = map[election.Obstacle]v1alpha1.MoveReason{
	election.Silent: v1alpha1.MoveNodeSilent, election.NotSelected: v1alpha1.MoveNotSelected,
	election.NetworkUnavailable: v1alpha1.MoveNetworkUnavailable, election.NoInterface: v1alpha1.MoveNoInterface,
	election.NoEndpoint: v1alpha1.MoveNoEndpoint, election.Unlisted: v1alpha1.MoveUnlisted,
}
