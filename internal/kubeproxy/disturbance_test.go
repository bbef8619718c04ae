package kubeproxy

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// disturb lets something happen that the plan did not ask for.
func (c *cluster) disturb() {
	m := c.machines[c.rng.IntN(len(c.machines))]
	switch c.rng.IntN(120) {
	case 0, 1:
		c.note("somebody deletes the pod of %s", m.Name)
		m.Pod, m.Left, m.ours, m.shaken = nil, c.Now, false, c.Now
		m.stop(c.Now)
	case 2, 3:
		c.note("power cut of %s", m.Name)
		m.ours, m.off = false, c.Now.Add(c.seconds(20, 120))
		m.shaken = m.off // it is not well before
		m.stop(c.Now)
		m.kernel = map[string]bool{}
	case 4:
		c.restart()
	case 5: // with the values that are there, or those of its own configuration
		text := c.Config.Document
		if c.hits(2) || c.Config.Err != nil {
			text = small + "mode: \"\"\n"
		}
		c.note("kubeadm writes config.conf and the DaemonSet: %q", strings.TrimPrefix(text, small))
		c.store(strings.TrimSuffix(text, "# by kubeadm\n")+"# by kubeadm\n", "kubeadm")
		c.foreign = slices.Clone(c.machines)
	case 6:
		mode := c.oneOf(allModes...)
		c.note("a person writes mode %s", mode)
		c.store(small+"mode: "+mode+"\n", "kubectl-edit")
	case 7:
		c.note("the image is broken")
		c.broken = c.Now.Add(c.seconds(10, 120))
	case 8:
		c.note("nobody reaches the API server")
		c.apiAway = c.Now.Add(c.seconds(5, 150))
		c.shake()
	case 9, 10, 11:
		c.stop()
	case 12:
		c.quarrel()
	case 13:
		c.forget()
	case 14:
		c.vary()
	}
}

// restart restarts the manager: a probe's result is lost with its memory, for the pod is gone.
func (c *cluster) restart() {
	c.note("the manager restarts")
	c.waits, c.verified, c.away = Waits{}, map[string]time.Time{}, map[string]time.Time{}
	maps.DeleteFunc(c.probed, func(_ ProbeKey, run *probeRun) bool { return run.result.State != ProbeRunning })
}

// stop pauses what goes on, in either way, or ends the pause.
func (c *cluster) stop() {
	switch {
	case c.Paused:
		c.note("spec.managementState: Managed")
		c.Paused = false
	case c.Spec != nil && c.Spec.Rollout.State == v1alpha1.RolloutPaused:
		c.note("spec.kubeProxy.rollout.state: Active")
		c.Spec.Rollout.State = v1alpha1.RolloutActive
	case c.Spec != nil && c.hits(2):
		c.note("spec.kubeProxy.rollout.state: Paused")
		c.Spec.Rollout.State = v1alpha1.RolloutPaused
	default:
		c.note("spec.managementState: Paused")
		c.Paused = true
	}
}

// quarrel lets another writer insist on a mode of its own, or a person break config.conf.
func (c *cluster) quarrel() {
	if c.hits(2) {
		c.note("a person breaks config.conf")
		c.store(small+"mode: [\n", "kubectl-edit")
		return
	}
	c.fighter, c.patience = c.oneOf(allModes...), 1+c.rng.IntN(60)
	c.note("another writer insists on mode %s", c.fighter)
}

// mend lets a person make config.conf readable again.
func (c *cluster) mend() {
	c.note("a person mends config.conf")
	c.store(small+"mode: "+c.oneOf(allModes...)+"\n", "kubectl-edit")
}

// forget loses the ledger, with all that only the ledger knows.
func (c *cluster) forget() {
	c.note("somebody deletes the ledger")
	c.Ledger = Ledger{}
	c.memory.refused, c.memory.done, c.memory.writes = false, false, nil
}

// vary changes how the roll goes, not where.
func (c *cluster) vary() {
	if c.Spec == nil {
		return
	}
	c.Spec.Rollout.MaxUnavailable = int32(1 + c.rng.IntN(3))
	c.Spec.Rollout.OnFailure = v1alpha1.FailurePolicy(c.oneOf("Rollback", "Pause"))
	c.Spec.OnDelete = v1alpha1.OnDeletePolicy(c.oneOf("Keep", "Restore"))
	c.note("at most %d out, on failure %s, on delete %s", c.Spec.Rollout.MaxUnavailable, c.Spec.Rollout.OnFailure, c.Spec.OnDelete)
}

// others lets those act who act in calm too.
func (c *cluster) others() {
	for len(c.foreign) > 0 && c.hits(3) { // the DaemonSet's own roll
		m := c.foreign[0]
		c.foreign = c.foreign[1:]
		c.note("the DaemonSet's roll restarts %s", m.Name)
		m.Pod, m.Left, m.ours, m.shaken = nil, c.Now, false, c.Now
		m.stop(c.Now)
	}
	if c.fighter != "" && c.Writer == v1alpha1.FieldManager && c.configured() != c.fighter && c.hits(c.patience) {
		c.note("the other writer writes mode %s", c.fighter)
		c.store(small+"mode: "+c.fighter+"\n", "other")
	}
	if c.Config.Err != nil && c.hits(20) {
		c.mend()
	}
}
