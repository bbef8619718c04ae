package election

import "net/netip"

// Candidate is a node that may announce.
type Candidate struct {
	Node     string
	Obstacle Obstacle
	// Excluded means that the node carries the label that asks load balancers to leave it out. It counts while another node is left.
	Excluded bool
	// Away means that the node's kube-proxy is about to be restarted, or has not come up as asked yet. It counts while a node is left that
	// is not excluded.
	Away bool
	// Claim is what the node claims, as far as this node has heard.
	Claim Claim
}

// fitness orders candidates: one of a lower rank is chosen only where nobody of a higher one is left.
type fitness int

const (
	unable fitness = iota
	excludedAndAway
	excluded
	away
	fit
)

func (c Candidate) fitness() fitness {
	switch {
	case c.Obstacle != Able:
		return unable
	case c.Excluded && c.Away:
		return excludedAndAway
	case c.Excluded:
		return excluded
	case c.Away:
		return away
	}
	return fit
}

// placement chooses nodes for addresses that nobody has, evenly. Everybody who has heard the same claims chooses the same.
type placement struct {
	// load counts the addresses that each node has or is about to have.
	load map[string]int
	off  safeguard
}

// newPlacement counts who has what by now.
func newPlacement(addresses []Address, off safeguard) placement {
	p := placement{load: map[string]int{}, off: off}
	for _, a := range addresses {
		if owner, taken := a.best(a.standing); taken {
			p.load[owner.Node]++
		}
	}
	return p
}

// choose returns the node that is to announce the address: of the fittest the one with the fewest addresses, and of those the one with the
// highest score. It is none of those that offer the address, and not the one to be left out. Without any it returns false.
func (p placement) choose(a Address, without string) (best Candidate, found bool) {
	for _, c := range a.Candidates {
		if !c.available() || c.Node == without {
			continue
		}
		if !found || p.before(a.Addr, c, best) {
			best, found = c, true
		}
	}
	return best, found
}

// available says whether a candidate can be chosen.
func (c Candidate) available() bool { return c.fitness() != unable && c.Claim.Stage != Offered }

// fittest is the fitness of the one that would be chosen; unable without any.
func (a Address) fittest(without string) fitness {
	best := unable
	for _, c := range a.Candidates {
		if c.available() && c.Node != without {
			best = max(best, c.fitness())
		}
	}
	return best
}

func (p placement) before(addr netip.Addr, a, b Candidate) bool {
	if x, y := a.fitness(), b.fitness(); x != y {
		return x > y
	}
	if x, y := p.load[a.Node], p.load[b.Node]; x != y && p.off&spreadEvenly == 0 {
		return x < y
	}
	return outranks(addr, a.Node, b.Node)
}
