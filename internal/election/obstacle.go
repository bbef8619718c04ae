package election

import (
	"fmt"
	"slices"
	"strings"
)

// Obstacle is why a node cannot announce an address. The order is the order in which they are looked at: a node has the first that holds.
type Obstacle int

// The obstacles.
const (
	// Able: nothing is in the way.
	Able Obstacle = iota
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
	// Unlisted: its speaker is heard, but the cluster has no such node, or not any more.
	Unlisted
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
		"with a speaker that is heard, but not a node of the cluster any more",
	}[o]
}

// mutes says whether a node with this obstacle cannot answer on the wire, whatever it claims.
func (o Obstacle) mutes() bool { return o == Silent || o == NoInterface }

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
	for o := Silent; o <= Unlisted; o++ {
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
