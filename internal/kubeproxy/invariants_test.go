package kubeproxy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// memory is what the invariants know of a cluster's past.
type memory struct {
	turns int
	// asked is the declaration in force; refused says that it was rolled back, and done that it ran everywhere.
	asked         string
	refused, done bool
	// writes are those by the plan for that declaration.
	writes []time.Time
	// original is config.conf from when the ledger was opened; strangers says that others have written it since.
	original  string
	strangers bool
	// began is when the attempt in the ledger did.
	began time.Time
	// canary is the machine that was restarted first since the last write, and shown says that one has worked with what is written.
	canary *machine
	shown  bool
	// lasting says that the image stays broken.
	lasting bool
}

// wrote notes a write.
func (m *memory) wrote(c *cluster, writer string) {
	m.canary, m.shown = nil, false
	if writer == v1alpha1.FieldManager {
		m.writes = append(m.writes, c.Now)
	} else {
		m.strangers = true
	}
}

// checkOriginal checks, when the ledger is closed, that kube-proxy is given back as it was found.
func (c *cluster) checkOriginal(old Ledger) {
	if old.Original == nil && c.Ledger.Original != nil {
		c.memory.original, c.memory.strangers = c.Config.Document, false
	}
	if old.Original == nil || c.Ledger.Original != nil || old.OnDelete != v1alpha1.OnDeleteRestore {
		return
	}
	if left := FieldsOf(old.Original.Settings, old.Touched).Against(c.Config.Settings, iptables); len(left) > 0 {
		c.breaks("it is given back, and not as it was: %s", describe(left))
	}
	if !c.memory.strangers && c.Config.Document != c.memory.original && len(c.memory.writes) > 0 {
		c.breaks("%q is given back, and it was %q", c.Config.Document, c.memory.original)
	}
}

func (c *cluster) breaks(format string, args ...any) {
	c.violations = append(c.violations, fmt.Sprintf("%4d: ", int(c.Now.Sub(at(0)).Seconds()))+fmt.Sprintf(format, args...))
}

// rollingBack says whether what is done is the way back.
func (c *cluster) rollingBack() bool {
	return c.Ledger.Attempt != nil && c.Ledger.Attempt.Failed != nil || c.Ledger.Attempt == nil && c.Ledger.Refused != nil
}

// held says whether a person has stopped all, or the roll.
func (c *cluster) held() bool {
	return c.Paused || c.Spec != nil && c.Spec.Rollout.State == v1alpha1.RolloutPaused
}

// checkDecision checks what holds for every decision.
func (c *cluster) checkDecision(d Decision) {
	if d.Message == "" || strings.Contains(d.Message, "\n") || d.Reason == "" || d.Phase == "" {
		c.breaks("the decision says %q, %q and %q", d.Phase, d.Reason, d.Message)
	}
	if (d.Action == Wait || d.Action == Restart) && d.After <= 0 {
		c.breaks("nobody looks again: %+v", d)
	}
	if c.held() && (d.Action == Write || d.Action == Restart || len(d.Probes) > 0) {
		c.breaks("it acts while it is paused: %s", d.Message)
	}
	for _, name := range d.Away {
		if slices.Contains(d.Verified, name) {
			c.breaks("%s runs as asked, and others are to answer for it: %s", name, d.Message)
		}
	}
	c.checkWaiting(d)
	if c.held() && !c.Paused { // a person may want it tried again
		c.memory.refused = false
	}
	if d.Progress != Done || c.Spec == nil {
		return
	}
	c.memory.done = true
	for _, m := range c.machines {
		known := m.Witness == Silent && c.Now.Sub(m.changed) > 15*time.Second
		if (m.ours || known && m.Ready && m.off.IsZero()) && !c.asIs(m) {
			c.breaks("done, and %v", m)
		}
	}
}

// checkWaiting checks that it does not wait for a node that waits for it.
func (c *cluster) checkWaiting(d Decision) {
	for _, n := range c.Nodes {
		if d.Action == Wait && n.Ready && n.Pod != nil && n.Pod.Failure != "" && n.Pod.Created.Before(c.Written) && len(d.Probes) == 0 &&
			!c.held() && strings.Contains(d.Message, "waiting for "+n.Name+":") {
			c.breaks("it waits for %s, whose kube-proxy is down, and could restart it: %s", n.Name, d.Message)
		}
	}
}

// mode is what the spec asks for; config.conf decides where the spec leaves it open.
func (c *cluster) mode() string { return cmp.Or(string(c.Spec.Mode), c.configured()) }

// asIs says whether a machine works as the spec asks. Settings that nobody can ask for may be of the content before.
func (c *cluster) asIs(m *machine) bool {
	scheduler := string(c.Spec.IPVS.Scheduler)
	told := !m.plain && m.Witness == Silent
	return m.working() && m.runs == c.mode() && (!told || scheduler == "" || m.with[PathScheduler] == scheduler) &&
		(!told || !c.Announcing || m.runs != "ipvs" || m.with[PathStrictARP] == "true")
}

// perSpec is how often config.conf is written for one declaration within half an hour at most: two steps forward and two back, and three
// times against others, in two steps each.
const perSpec = 4 + 2*fought

// checkWrite checks that nobody is put at risk who cannot take it, and that nobody's work is undone who is to be heard.
func (c *cluster) checkWrite(d Decision) {
	next := cmp.Or(c.read.read(d.Edited).Settings[PathMode], iptables)
	if len(d.Changes) == 0 || d.Edited == c.Config.Document {
		c.breaks("a write without a difference: %+v", d)
	}
	if c.Config.Err != nil {
		c.breaks("what nobody can read is written over")
	}
	if c.memory.done && c.Spec != nil && c.Spec.Drift == v1alpha1.DriftWarn && c.Ledger.Attempt == nil {
		c.breaks("it is written, although drift is Warn")
	}
	if c.memory.refused && c.Spec != nil && c.Spec.Mode != "" && next == string(c.Spec.Mode) && !c.rollingBack() {
		c.breaks("%s is tried again, although it was rolled back", next)
	}
	recent := slices.DeleteFunc(slices.Clone(c.memory.writes), func(t time.Time) bool { return c.Now.Sub(t) > foughtWithin })
	if len(recent) >= perSpec {
		c.breaks("it is written %d times within %s: somebody else wants something else", len(recent)+1, foughtWithin)
	}
	for _, m := range c.machines {
		if m.Ready && m.off.IsZero() && m.lacks[next] && !c.rollingBack() && c.probed[ProbeKey{ProbeShadow, m.Name, Hash(d.Edited, c.Image)}] == nil &&
			(c.Ledger.Attempt == nil || slices.Contains(c.Ledger.Attempt.Probed, m.Name)) {
			c.breaks("%s is written, which %s cannot run", next, m.Name)
		}
	}
}

// checkRestart checks that no more is at risk than may be when a machine's kube-proxy is restarted.
func (c *cluster) checkRestart(target *machine) {
	mode := c.configured()
	if !target.Ready {
		c.breaks("%s is restarted and is not Ready", target.Name)
	}
	if opposite(target.runs, mode) && target.Witness == Silent && !target.mute { // without a speaker, nobody can tell what others made it run
		c.breaks("%s goes from %s to %s at once", target.Name, target.runs, mode)
	}
	if target.lacks[mode] && !c.rollingBack() {
		c.breaks("%s is restarted into %s, which it cannot run", target.Name, mode)
	}
	limit := 1
	if c.memory.shown && c.Spec != nil {
		limit = int(c.Spec.Rollout.MaxUnavailable)
	}
	var out []string
	for _, m := range c.machines {
		// What others did a moment ago, no speaker has reported yet.
		seen := m.Pod == nil || m.Pod.Failure != "" || m.said.Mode == "" && m.Witness == Silent
		if m != target && m.Ready && m.off.IsZero() && !m.working() && (m.ours || seen) {
			out = append(out, m.Name)
		}
	}
	if target.working() && len(out) >= limit {
		c.breaks("%s is restarted while %d others are without kube-proxy, of %d that may be: %s", target.Name, len(out), limit, some(out))
	}
	canary := c.memory.canary
	if canary != nil && canary != target && !canary.working() && !c.memory.shown && target.working() {
		c.breaks("%s is restarted before %s has shown that %s works", target.Name, canary.Name, mode)
	}
	i := slices.IndexFunc(c.Nodes, func(n Node) bool { return n.Name == target.Name })
	ready := slices.DeleteFunc(slices.Clone(c.Nodes), func(n Node) bool { return !n.Ready })
	if n := c.Nodes[i]; n.Announces > 0 && !n.down() && len(ready) > 1 && (n.Away.IsZero() || c.clock().Sub(n.Away) < awayWithin) {
		c.breaks("%s is restarted and still answers for %d addresses", n.Name, n.Announces)
	}
}

// checkEnd checks where the cluster ends when nobody disturbs it any more.
func (c *cluster) checkEnd(last Decision) {
	switch {
	case last.Progress == Underway:
		c.breaks("it never ends: %s", last.Message)
	case c.Spec == nil:
		c.checkLeft(last)
	case last.Progress == Stuck:
		c.checkStuck(last)
	default:
		for _, m := range c.machines {
			if !c.asIs(m) {
				c.breaks("done with %s, and %v", c.mode(), m)
			}
		}
	}
}

// checkLeft checks what is left behind when kube-proxy is not managed any more.
func (c *cluster) checkLeft(last Decision) {
	if last.Progress == Stuck && last.Reason != v1alpha1.ReasonStrictARPMissing { // the way back can fail, as any can
		return
	}
	if c.Ledger.Original != nil || c.Ledger.Attempt != nil {
		c.breaks("the ledger is not closed: %+v", c.Ledger)
	}
}

// checkStuck checks that there is a reason for being stuck, and that nobody is left without kube-proxy who could be helped.
func (c *cluster) checkStuck(last Decision) {
	mode := c.mode()
	excused := c.memory.lasting || len(c.stranded(mode)) > 0 || c.unable(mode) || c.unable("nftables") ||
		last.Reason == v1alpha1.ReasonContested || last.Reason == v1alpha1.ReasonDrifted && c.Spec.Drift == v1alpha1.DriftWarn ||
		last.Reason == v1alpha1.ReasonRolledBack && c.shaken(last.Failure.Node) || last.Reason == v1alpha1.ReasonResidueFound && c.dirty()
	if back := c.back(); back != nil { // others had written what it goes back to, and it never ran everywhere
		excused = excused || c.unable(c.modeOf(back))
	}
	if !excused {
		c.breaks("every node can run %s, and it ends in: %s", mode, last.Message)
	}
	failed := last.Failure != nil && last.Reason == v1alpha1.ReasonRolloutStalled && c.Spec.Rollout.OnFailure != v1alpha1.FailurePause
	if a := c.Ledger.Attempt; failed && a != nil && a.Before != nil && a.Failed == nil {
		c.breaks("%s failed, and all is not taken back: %s", last.Failure.Node, last.Message)
	}
	if last.Reason != v1alpha1.ReasonRolledBack {
		return
	}
	touched := union(c.Ledger.Touched, Declared(c.Spec, c.Announcing, mode).Paths())
	before := FieldsOf(c.Ledger.Refused.Back.Settings, touched)
	if left := before.Against(c.Config.Settings, c.open()); len(left) > 0 {
		c.breaks("rolled back, and config.conf is not as it was: %s", describe(left))
	}
	for _, m := range c.machines {
		if left := before.Against(m.with, c.open()); m.Witness == Silent && !m.plain && m.working() && len(left) > 0 {
			c.breaks("rolled back, and %s is not as it was: %s", m.Name, describe(left))
		}
		good := c.configured() // where the mode is left open, it is not taken back either
		if slices.Contains(touched, PathMode) {
			good = c.modeOf(&c.Ledger.Refused.Back)
		}
		if (m.runs != good || !m.working()) && m.Ready && len(c.stranded(good)) == 0 {
			c.breaks("rolled back to %s, and %v", good, m)
		}
	}
}

// shaken says whether a machine, or all, were disturbed since shortly before the attempt began.
func (c *cluster) shaken(name string) bool {
	i := slices.IndexFunc(c.machines, func(m *machine) bool { return m.Name == name })
	return !c.machines[i].shaken.Before(c.memory.began.Add(-3 * time.Minute))
}

// dirty says whether rules of two modes lie in some kernel.
func (c *cluster) dirty() bool {
	return slices.ContainsFunc(c.machines, func(m *machine) bool { return len(m.kernel) > 1 })
}

// shake notes that all machines are disturbed.
func (c *cluster) shake() {
	for _, m := range c.machines {
		m.shaken = c.Now
	}
}

// modeOf is the mode that a revision asks for.
func (c *cluster) modeOf(r *Revision) string { return cmp.Or(r.Settings[PathMode], c.open()) }

// back is what all goes back to, or went; nil when nothing does.
func (c *cluster) back() *Revision {
	switch a := c.Ledger.Attempt; {
	case a != nil && a.Failed != nil:
		return a.Before
	case c.Ledger.Refused != nil:
		return &c.Ledger.Refused.Back
	}
	return nil
}

// unable says whether some machine cannot run a mode, or nobody would learn of it.
func (c *cluster) unable(mode string) bool {
	return slices.ContainsFunc(c.machines, func(m *machine) bool { return m.lacks[mode] || m.faulty[mode] || m.mute })
}

// stranded are machines that run the opposite of a mode.
func (c *cluster) stranded(mode string) []*machine {
	return slices.DeleteFunc(slices.Clone(c.machines), func(m *machine) bool { return !opposite(m.runs, mode) })
}
