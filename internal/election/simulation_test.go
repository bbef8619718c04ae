package election

import (
	"fmt"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// checkBegin looks at a machine that begins to answer.
func (c *cluster) checkBegin(m *machine, a netip.Addr, before, after Claim, q Quorum) {
	if before.Stage.Answers() || !after.Stage.Answers() {
		return
	}
	if !q.Suffices() {
		c.fail("%s takes %s over, and hears %d of %d", m.name, a, q.Heard, q.Known)
	}
	if c.foreign[a] {
		c.fail("%s takes %s over, which a foreign host has", m.name, a)
	}
	owner := c.owners[a]
	if owner == nil || owner == m || !owner.alive || !owner.carrier || !c.reaches(c.wire, m, owner) || !m.carrier {
		return
	}
	c.moves++
	was, is := c.truth[owner.name], c.truth[m.name]
	wanting := was.excluded || was.away || !was.endpoint || !owner.departing.IsZero() || c.noAPI || m.api[owner.name] != was || owner.api[owner.name] != was ||
		owner.api[m.name] != is
	if !wanting && owner.answers(a) {
		c.fail("%s moves from %s, which answers and could go on, to %s", a, owner.name, m.name)
	}
}

// check looks at who answers now.
func (c *cluster) check() {
	for _, a := range c.addrs {
		var answering []*machine
		for _, m := range c.machines {
			if m.answers(a) {
				answering = append(answering, m)
			}
		}
		if c.now.Sub(c.disturbed) > settle {
			c.checkOne(a, answering)
		} else {
			c.since[a] = c.now
		}
		switch owner := c.owners[a]; {
		case len(answering) == 0 && owner != nil && owner.alive && owner.carrier && c.canGoOn(owner):
			c.fail("nobody answers for %s, and %s lives and could", a, owner.name)
		case len(answering) == 0:
			c.owners[a] = nil
		case owner == nil || !slices.Contains(answering, owner):
			c.owners[a] = answering[0]
		}
	}
}

// canGoOn says whether a machine may be asked to go on answering: it knows of no obstacle.
func (c *cluster) canGoOn(m *machine) bool { return m.api[m.name].endpoint }

// checkOne looks for two that go on answering and reach each other.
func (c *cluster) checkOne(a netip.Addr, answering []*machine) {
	for i, x := range answering {
		for _, y := range answering[i+1:] {
			if !c.reaches(c.wire, x, y) || !c.reaches(c.gossip, x, y) {
				continue
			}
			if c.now.Sub(c.since[a]) > handover {
				c.fail("%s and %s both answer for %s, %v after the last disturbance", x.name, y.name, a, c.now.Sub(c.disturbed))
			}
			return
		}
	}
	c.since[a] = c.now
}

// checkEven looks at the first placement.
func (c *cluster) checkEven() {
	count := map[string]int{}
	for _, m := range c.machines {
		count[m.name] = 0
	}
	for _, a := range c.addrs {
		for _, m := range c.machines {
			if m.answers(a) {
				count[m.name]++
			}
		}
	}
	least, most := len(c.addrs), 0
	for _, n := range count {
		least, most = min(least, n), max(most, n)
	}
	if most-least > 1 {
		c.fail("the first placement is %v", count)
	}
}

// checkCalm looks at what has become once nothing disturbs any more: each address has one that answers if any can, and a fit one.
func (c *cluster) checkCalm() {
	best := unable
	fitness := map[string]fitness{}
	for _, m := range c.machines {
		candidate := Candidate{Excluded: c.truth[m.name].excluded, Away: c.truth[m.name].away}
		if !c.truth[m.name].endpoint {
			candidate.Obstacle = NoEndpoint
		}
		fitness[m.name] = candidate.fitness()
		best = max(best, candidate.fitness())
	}
	for _, a := range c.addrs {
		var answering []string
		for _, m := range c.machines {
			if m.answers(a) {
				answering = append(answering, m.name)
			}
		}
		switch {
		case best == unable || c.foreign[a]:
			if len(answering) > 0 && !c.foreign[a] {
				c.fail("%v answer for %s, and none can", answering, a)
			}
		case len(answering) != 1:
			c.fail("%v answer for %s in the end", answering, a)
		case fitness[answering[0]] != best:
			c.fail("%s answers for %s in the end, and a fitter one is there", answering[0], a)
		}
	}
}

// run steps for a time.
func (c *cluster) run(d time.Duration) {
	for end := c.now.Add(d); c.now.Before(end) && c.violation == ""; {
		c.step()
	}
}

// waiting says whether somebody is still away.
func (c *cluster) waiting() bool {
	return slices.ContainsFunc(c.machines, func(m *machine) bool { return !m.alive })
}

// history is a cluster's life: it begins, is disturbed some times, and calms down.
func (c *cluster) history() string {
	if c.rng.IntN(8) == 0 {
		c.foreign[c.addrs[0]] = true
	}
	c.run(2 * time.Second)
	if len(c.foreign) == 0 && c.violation == "" {
		c.checkEven()
	}
	for range 1 + c.rng.IntN(8) {
		c.disturb()
		c.run(time.Duration(10+c.rng.IntN(1500)) * time.Millisecond)
	}
	c.calm()
	for end := c.now.Add(15 * time.Second); c.violation == "" && c.now.Before(end) && (c.waiting() || c.now.Sub(c.changed) < 3*time.Second); {
		c.run(time.Second)
	}
	if c.violation == "" {
		c.checkCalm()
	}
	if c.violation == "" {
		return ""
	}
	return strings.Join(c.log[max(0, len(c.log)-80):], "\n") + "\n" + c.violation
}

// TestSimulation lets six hundred clusters live through all that disturbs them.
func TestSimulation(t *testing.T) {
	const histories, parts = 600, 8
	debug.SetGCPercent(800) // little lives, and much is thrown away
	for part := range parts {
		t.Run(fmt.Sprintf("part %d of %d", part+1, parts), func(t *testing.T) {
			t.Parallel()
			for seed := part; seed < histories; seed += parts {
				if failure := newCluster(uint64(seed), 0).history(); failure != "" {
					t.Fatalf("at seed %d:\n%s", seed, failure)
				}
			}
		})
	}
}

// TestSimulationCatchesMutations turns one safeguard off after the other: each is missed before long, and by the check that it is there for.
func TestSimulationCatchesMutations(t *testing.T) {
	for name, tc := range map[string]struct {
		off    safeguard
		within uint64
		// missed is a part of the violation.
		missed string
	}{
		"nobody asks the wire":                             {askTheWire, 200, "moves from"},
		"who is cut off takes over":                        {needQuorum, 200, "and hears"},
		"an address goes to whoever has the highest score": {keepOwners, 200, "first placement"},
		"of two that answer both go on":                    {yieldToBetter, 200, "both answer"},
		"epochs are not counted":                           {countEpochs, 500, "in the end"},
		"who wants an address relieves who has it":         {answerersFirst, 500, "moves from"},
		"an offer is worth less than any claim":            {offersByEpoch, 500, "nobody answers"},
		"addresses go by score alone":                      {spreadEvenly, 200, "first placement"},
		"who is to leave an address stops at once":         {handOver, 200, "nobody answers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range tc.within {
				failure := newCluster(seed, tc.off).history()
				if failure == "" {
					continue
				}
				if lines := strings.Split(failure, "\n"); !strings.Contains(lines[len(lines)-1], tc.missed) {
					t.Errorf("at seed %d it is missed otherwise:\n%s", seed, failure)
				}
				return
			}
			t.Errorf("%d histories do without it", tc.within)
		})
	}
}
