package kubeproxy

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// history leads a cluster through some turns of its spec: some minutes of disturbance each, then calm, until the plan is done or stuck. A
// turn may come before the one before has ended.
func (c *cluster) history() {
	for turns := 1 + c.rng.IntN(3); turns > 0 && len(c.violations) == 0; turns-- {
		c.turn()
		noise, hurried := c.rng.IntN(60), turns > 1 && c.hits(3)
		var last Decision
		stuck := time.Time{}
		for i := 0; i < 900 && len(c.violations) == 0; i++ {
			if i == noise {
				if hurried {
					break
				}
				c.calmDown()
			}
			last = c.step(last)
			if last.Progress != Stuck || !c.calm {
				stuck = c.Now
			}
			if c.calm && c.quiet() && (last.Progress == Done || c.Now.Sub(stuck) > 150*time.Second) {
				break
			}
		}
		if c.calm && len(c.violations) == 0 {
			c.checkEnd(last)
		}
	}
}

// turn changes the spec.
func (c *cluster) turn() {
	c.calm, c.broken, c.fighter = false, time.Time{}, ""
	if c.memory.turns++; c.memory.turns > 1 && c.hits(6) {
		c.note("--- the section is removed, onDelete is %q", c.Ledger.OnDelete)
		c.Spec = nil
	} else {
		pause := int32(c.rng.IntN(2) * 5)
		c.Spec = &v1alpha1.KubeProxySpec{Mode: v1alpha1.ProxyMode(c.oneOf("", "iptables", "iptables", "ipvs", "ipvs", "nftables", "nftables")),
			Drift: v1alpha1.DriftPolicy(c.oneOf("Enforce", "Enforce", "Enforce", "Warn")), OnDelete: v1alpha1.OnDeletePolicy(c.oneOf("Keep", "Restore")),
			IPVS: v1alpha1.KubeProxyIPVS{Scheduler: v1alpha1.IPVSScheduler(c.oneOf("", "", "rr", "wrr"))},
			Rollout: v1alpha1.KubeProxyRollout{MaxUnavailable: int32(1 + c.rng.IntN(3)), PauseSeconds: &pause,
				OnFailure: v1alpha1.FailurePolicy(c.oneOf("", "Rollback", "Rollback", "Rollback", "Pause"))}}
		c.note("--- the spec asks for %s, scheduler %q, drift %s, on failure %q, at most %d out", c.Spec.Mode, c.Spec.IPVS.Scheduler, c.Spec.Drift,
			c.Spec.Rollout.OnFailure, c.Spec.Rollout.MaxUnavailable)
	}
	if asked := c.asked(); asked != c.memory.asked {
		c.memory.asked, c.memory.refused, c.memory.done, c.memory.writes = asked, false, false, nil
	}
}

// calmDown ends what disturbs, as far as somebody would end it. A broken image and another writer may last.
func (c *cluster) calmDown() {
	c.note("--- calm")
	c.calm, c.Paused, c.apiAway = true, false, time.Time{}
	if c.Spec != nil {
		c.Spec.Rollout.State = v1alpha1.RolloutActive
	}
	if c.Config.Err != nil {
		c.mend()
	}
	if !c.hits(10) && c.broken.After(c.Now) {
		c.broken = c.Now
	}
	c.memory.lasting = c.broken.After(c.Now)
	if c.memory.lasting {
		c.broken = c.Now.Add(24 * time.Hour)
	}
	if c.fighter != "" && c.hits(2) {
		c.fighter = ""
	}
}

// quiet says whether nothing is on its way that nobody decided now.
func (c *cluster) quiet() bool {
	return len(c.foreign) == 0 && !slices.ContainsFunc(c.machines, func(m *machine) bool { return !m.Ready || !m.off.IsZero() })
}

// asked is what the spec asks for, in short.
func (c *cluster) asked() string {
	if c.Spec == nil {
		return "nothing"
	}
	return fmt.Sprint(c.Spec.Mode, c.Spec.IPVS.Scheduler)
}

// failure runs a history, and returns what was wrong with it, with the end of its log.
func (c *cluster) failure() string {
	c.history()
	if len(c.violations) == 0 {
		return ""
	}
	return strings.Join(c.log[max(0, len(c.log)-60):], "\n") + "\n" + strings.Join(c.violations, "\n")
}

// TestSimulation lets ten thousand clusters live through changes, with everything that disturbs them.
func TestSimulation(t *testing.T) {
	const histories, parts = 10_000, 40
	debug.SetGCPercent(800) // little lives, and much is thrown away
	for part := range parts {
		t.Run(fmt.Sprintf("part %d of %d", part+1, parts), func(t *testing.T) {
			t.Parallel()
			read := library{}
			for seed := part; seed < histories; seed += parts {
				if failure := newCluster(uint64(seed), 0, read).failure(); failure != "" {
					t.Fatalf("at seed %d:\n%s", seed, failure)
				}
			}
		})
	}
}

// TestSimulationCatchesMutations turns one safeguard of the plan off after the other: each is missed before long, and by the check that it
// is there for.
func TestSimulationCatchesMutations(t *testing.T) {
	for name, tc := range map[string]struct {
		off safeguard
		// first is the first seed that is tried, and within how many are: a rare miss is not looked for from the beginning each time.
		first, within int
		// missed is a part of the violation.
		missed string
	}{
		"a configuration that nobody has tried is written":         {probeFirst, 0, 30, "cannot run"},
		"any number of nodes is restarted at once":                 {oneAtATime, 0, 30, "others are without kube-proxy"},
		"the second node does not wait for the first":              {canaryFirst, 0, 30, "others are without kube-proxy"},
		"restarts by others are not counted":                       {countUnplanned, 660, 60, "others are without kube-proxy"},
		"a roll that fails stays where it is":                      {rollBack, 0, 30, "is not taken back"},
		"what was rolled back is tried again":                      {tryOnce, 0, 30, "although it was rolled back"},
		"iptables follows ipvs at once":                            {byNFTables, 0, 30, "at once"},
		"a mode is proof enough":                                   {wholeProof, 0, 60, "done"},
		"nodes that work come before one that has kube-proxy down": {mendFirst, 600, 60, "and could restart it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := library{}
			for seed := tc.first; seed < tc.first+tc.within; seed++ {
				c := newCluster(uint64(seed), tc.off, read)
				c.history()
				if slices.ContainsFunc(c.violations, func(v string) bool { return strings.Contains(v, tc.missed) }) {
					t.Logf("seen at seed %d: %s", seed, c.violations[0])
					return
				}
			}
			t.Errorf("%d histories do not miss it", tc.within)
		})
	}
}
