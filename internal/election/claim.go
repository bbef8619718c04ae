package election

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
)

// Stage is how far a node's claim to an address is.
//
//	          fence clear                  fit no more, another is
//	Taking ───────────────▶ Held ◀──────────────────────────────▶ Offered
//	  │                      │            the reason went             │
//	  └── another answers ───┴── one with a better claim answers ─────┘──▶ None
type Stage int

// The stages.
const (
	// None: the node claims nothing.
	None Stage = iota
	// Taking: the node wants to take the address over and does not answer for it yet: it asks the wire whether anybody does.
	Taking
	// Held: the node answers for it.
	Held
	// Offered: the node answers for it until another has taken it over.
	Offered
)

// Answers says whether a node with this claim answers for the address.
func (s Stage) Answers() bool { return s == Held || s == Offered }

// Claim is a node's word that an address is its own. The epoch is one more than any that it had heard of when it began to take it: of two
// nodes that answer, the one that took it later has the better claim. It stays the same until the claim ends.
type Claim struct {
	Epoch uint64
	Stage Stage
}

// better says whether a candidate's claim goes before another's. Who answers goes before who does not; then the higher epoch, then the score
// decide. An offer goes by its epoch as well: if it went last, an owner that begins to offer and one that it never heard of would each take
// the other for the better one, and both would stop.
func (a Address) better(x, y Candidate) bool {
	if a.off&offersByEpoch != 0 && x.Claim.Stage.Answers() && y.Claim.Stage.Answers() && x.Claim.Stage != y.Claim.Stage {
		return x.Claim.Stage == Held
	}
	if first, second := x.Claim.Stage.Answers(), y.Claim.Stage.Answers(); first != second && a.off&answerersFirst == 0 {
		return first
	}
	if x.Claim.Epoch != y.Claim.Epoch {
		return x.Claim.Epoch > y.Claim.Epoch
	}
	return outranks(a.Addr, x.Node, y.Node)
}

// outranks says whether a node has the higher score for an address; the name decides between equal ones.
func outranks(addr netip.Addr, x, y string) bool {
	if first, second := score(addr, x), score(addr, y); first != second {
		return first > second
	}
	return x > y
}

// score is a node's rank for an address, the same wherever it is computed (Thaler and Ravishankar, "A Name-Based Mapping Scheme for
// Rendezvous", 1996).
func score(addr netip.Addr, node string) uint64 {
	sum := sha256.Sum256([]byte(addr.String() + "\x00" + node))
	return binary.BigEndian.Uint64(sum[:])
}
