package election

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Obstacle is why a node cannot announce an address. The order is the order in which they are looked at: a node has the first that holds.
type Obstacle int

// The obstacles.
const (
	// None: the node can announce it.
	None Obstacle = iota
	// Silent: no speaker is heard from the node.
	Silent
	// NotSelected: the advertisement's node selector leaves the node out.
	NotSelected
	// NetworkUnavailable: the node's pod network is not set up.
	NetworkUnavailable
	// NoInterface: the node has no interface with carrier in the address's subnet that the advertisement allows.
	NoInterface
	// NoEndpoint: the Service sends traffic only to pods on the node that received it, and this node has none.
	NoEndpoint
)

// describe completes a sentence that begins with the number of nodes.
func (o Obstacle) describe() string {
	return [...]string{
		"can announce it",
		"without a speaker that is heard",
		"not selected by the advertisement's nodeSelector",
		"with the condition NetworkUnavailable",
		"without an interface with carrier in the address's subnet",
		"without a ready endpoint, which externalTrafficPolicy Local needs",
	}[o]
}

// Candidate is a node that may announce.
type Candidate struct {
	Node     string
	Obstacle Obstacle
	// Excluded means that the node carries the label that asks load balancers to leave it out. It counts while another node is left.
	Excluded bool
	// Away means that the node's kube-proxy is about to be restarted, or has not come up as asked yet. It counts while a node is left that
	// is not excluded.
	Away bool
}

// Reason is why a decision is what it is, as a machine reads it.
type Reason string

// The reasons.
const (
	// Elected: the node has the highest score of those that can.
	Elected Reason = "Elected"
	// ElectedExcluded: as Elected, but all that can are excluded by label.
	ElectedExcluded Reason = "ElectedExcluded"
	// NoCandidate: no node can.
	NoCandidate Reason = "NoCandidate"
)

// Decision is who announces an address.
type Decision struct {
	// Node is empty when nobody can.
	Node   string
	Reason Reason
	// Message says what is unusual; empty when nothing is.
	Message string
}

// excludeLabel is Kubernetes' well-known label.
const excludeLabel = "node.kubernetes.io/exclude-from-external-load-balancers"

// Announcer chooses the node that announces the address: the one with the highest rendezvous score among those that can. When a node goes,
// only its addresses move (Thaler and Ravishankar, "A Name-Based Mapping Scheme for Rendezvous", 1996).
func Announcer(addr netip.Addr, candidates []Candidate) Decision {
	var able, preferred []Candidate
	for _, c := range candidates {
		if c.Obstacle != None {
			continue
		}
		able = append(able, c)
		if !c.Excluded {
			preferred = append(preferred, c)
		}
	}
	switch {
	case len(able) == 0:
		return Decision{Reason: NoCandidate, Message: explain(candidates)}
	case len(preferred) == 0:
		node := highest(addr, able)
		return Decision{Node: node, Reason: ElectedExcluded, Message: fmt.Sprintf(
			"every node that can announce it carries the label %s; %s announces it all the same", excludeLabel, node)}
	}
	if present := slices.DeleteFunc(slices.Clone(preferred), func(c Candidate) bool { return c.Away }); len(present) > 0 {
		preferred = present
	}
	return Decision{Node: highest(addr, preferred), Reason: Elected}
}

// highest returns the candidate with the highest score; the name decides between equal ones.
func highest(addr netip.Addr, candidates []Candidate) string {
	best, bestScore := "", uint64(0)
	for _, c := range candidates {
		s := score(addr, c.Node)
		if best == "" || s > bestScore || s == bestScore && c.Node > best {
			best, bestScore = c.Node, s
		}
	}
	return best
}

func score(addr netip.Addr, node string) uint64 {
	sum := sha256.Sum256([]byte(addr.String() + "\x00" + node))
	return binary.BigEndian.Uint64(sum[:])
}

// explain says what keeps the nodes from announcing.
func explain(candidates []Candidate) string {
	if len(candidates) == 0 {
		return "no node can announce it: there are no nodes"
	}
	byObstacle := map[Obstacle][]string{}
	for _, c := range candidates {
		byObstacle[c.Obstacle] = append(byObstacle[c.Obstacle], c.Node)
	}
	var parts []string
	for o := Silent; o <= NoEndpoint; o++ {
		if nodes := byObstacle[o]; len(nodes) > 0 {
			slices.Sort(nodes)
			parts = append(parts, fmt.Sprintf("%d %s (%s)", len(nodes), o.describe(), shorten(nodes)))
		}
	}
	return "no node can announce it: " + strings.Join(parts, "; ")
}

// shorten names the first few nodes and counts the rest.
func shorten(nodes []string) string {
	const few = 5
	if len(nodes) <= few {
		return strings.Join(nodes, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(nodes[:few], ", "), len(nodes)-few)
}
