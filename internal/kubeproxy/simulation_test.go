package kubeproxy

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

var allModes = []string{"iptables", "ipvs", "nftables"}

// cluster is a simulated cluster under the plan.
type cluster struct {
	Facts
	rng      *rand.Rand
	machines []*machine
	// before is config.conf before the last write: a kubelet may hand it out for a while.
	before string
	// broken is until when kube-proxy's image does not start anywhere.
	broken time.Time
	// foreign are machines that another writer of the DaemonSet is about to restart, one after the other.
	foreign []*machine
	// calm ends the disturbances from outside.
	calm bool
	// waits, verified and away are what the manager keeps in memory: a restart of it loses them.
	waits          Waits
	verified, away map[string]time.Time
	probed         map[ProbeKey]*probeRun
	// tried is what was rolled back for the declaration as it is; canary says which machine was restarted first since the last write.
	refused string
	canary  *machine
	// shown says that a machine has worked with config.conf as it is.
	shown bool
	// wrote is the mode that config.conf last got by the plan; writes counts them since the spec changed.
	writes int
	// violations are the invariants that did not hold.
	violations []string
	log        []string
	read       library
	said       string
}

type probeRun struct {
	ends   time.Time
	result ProbeResult
}

// library remembers what was read, for the simulation reads the same few library all the time.
type library map[string]Config

func (d library) read(document string) Config {
	c, known := d[document]
	if !known {
		c = ReadConfig(document)
		d[document] = c
	}
	return c
}

func (c *cluster) hits(oneIn int) bool { return c.rng.IntN(oneIn) == 0 }

func (c *cluster) breaks(format string, args ...any) {
	c.violations = append(c.violations, fmt.Sprintf("%4d: ", int(c.Now.Sub(at(0)).Seconds()))+fmt.Sprintf(format, args...))
}

func (c *cluster) note(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf("%4d: ", int(c.Now.Sub(at(0)).Seconds()))+fmt.Sprintf(format, args...))
}

// newCluster makes 1 to 5 nodes in some mode. In some clusters a node's kernel lacks a mode, and in some a node fails in a mode that its
// probe showed to work.
func newCluster(seed uint64, off safeguard, read library) *cluster {
	c := &cluster{rng: rand.New(rand.NewPCG(seed, 5)), waits: Waits{}, verified: map[string]time.Time{}, away: map[string]time.Time{},
		probed: map[ProbeKey]*probeRun{}, read: read}
	mode := allModes[c.rng.IntN(3)]
	written := mode
	if mode == "iptables" && c.hits(2) {
		written = `""`
	}
	pause := int32(c.rng.IntN(2) * 5)
	c.Facts = Facts{Spec: &v1alpha1.KubeProxySpec{Rollout: v1alpha1.KubeProxyRollout{MaxUnavailable: int32(1 + c.rng.IntN(2)), PauseSeconds: &pause}},
		Layout: Layout{Managed: true}, Now: at(0), Announcing: c.hits(2), Image: "kube-proxy:v1.36.3", off: off}
	c.Config = c.read.read(head + "mode: " + written + "\n")
	silent := !c.hits(5)
	for i := range 1 + c.rng.IntN(5) {
		m := &machine{Node: node(fmt.Sprintf("n%d", i), "", at(-1000)), skew: time.Duration(c.rng.IntN(7200)-3600) * time.Second,
			lacks: map[string]bool{}, faulty: map[string]bool{}, kernel: map[string]bool{mode: true}, runs: mode, rules: true}
		m.process = at(-1000).Add(m.skew)
		m.Pod.Started = m.process
		m.ControlPlane = i == 0
		if m.Witness = NoSpeaker; silent {
			m.Witness = Silent
			m.report()
		}
		c.machines = append(c.machines, m)
	}
	c.OwnNode = c.machines[c.rng.IntN(len(c.machines))].Name
	c.afflict(mode, silent)
	return c
}

// afflict gives some clusters a machine with a weakness. The mode that runs at first works everywhere.
func (c *cluster) afflict(first string, speakers bool) {
	others := slices.DeleteFunc(slices.Clone(allModes), func(m string) bool { return m == first })
	m := c.machines[c.rng.IntN(len(c.machines))]
	switch c.rng.IntN(5) {
	case 0:
		m.lacks[others[c.rng.IntN(2)]] = true
	case 1, 2:
		m.fault = fault(1 + c.rng.IntN(4))
		if !speakers { // what only a speaker can see
			m.fault = fault(1 + c.rng.IntN(2))
		}
		m.faulty[others[c.rng.IntN(2)]] = true
	}
}

// disturb lets something happen that the plan did not ask for.
func (c *cluster) disturb() {
	m := c.machines[c.rng.IntN(len(c.machines))]
	switch c.rng.IntN(60) {
	case 0: // somebody deletes a pod
		c.note("somebody deletes the pod of %s", m.Name)
		m.Pod, m.ours = nil, false
		m.stop(c.Now)
	case 1: // power cut
		c.note("power cut of %s", m.Name)
		m.ours, m.off = false, c.Now.Add(time.Duration(20+c.rng.IntN(100))*time.Second)
		m.stop(c.Now)
		m.kernel = map[string]bool{}
		m.rules = false
	case 2: // the manager restarts
		c.note("the manager restarts")
		c.waits, c.verified, c.away = Waits{}, map[string]time.Time{}, map[string]time.Time{}
		for key, run := range c.probed {
			if run.result.State != ProbeRunning { // its pod is gone, and its result was kept in memory
				delete(c.probed, key)
			}
		}
	case 3: // kubeadm writes both objects anew, with the values that are there or those of its own configuration
		text := c.Config.Document
		if c.hits(2) {
			text = head + "mode: \"\"\n"
		}
		c.note("kubeadm writes config.conf and the DaemonSet: %q", strings.TrimPrefix(text, head))
		c.store(text+"# by kubeadm\n", "kubeadm")
		c.foreign = slices.Clone(c.machines)
	case 4: // a person edits
		mode := allModes[c.rng.IntN(3)]
		c.note("a person writes mode %s", mode)
		c.store(head+"mode: "+mode+"\n", "kubectl-edit")
	case 5:
		c.note("the image is broken")
		c.broken = c.Now.Add(time.Duration(10+c.rng.IntN(60)) * time.Second)
	}
}

// store writes config.conf.
func (c *cluster) store(document, writer string) {
	if document == c.Config.Document {
		return
	}
	c.before, c.Config, c.Written, c.Writer = c.Config.Document, c.read.read(document), c.Now, writer
	c.canary, c.shown = nil, false
}

// live lets time pass on a machine.
func (c *cluster) live(m *machine) {
	switch {
	case !m.off.IsZero() && c.Now.After(m.off):
		m.off, m.Ready = time.Time{}, true
		if m.Pod != nil {
			m.starts, m.Pod.Ready, m.Pod.Started, m.Pod.Failure = c.Now, false, time.Time{}, ""
		}
	case !m.off.IsZero():
		m.Ready = m.Ready && c.Now.Before(m.off.Add(-20*time.Second)) && c.hits(2)
		return
	case m.Pod == nil && c.hits(2):
		m.Pod = &Pod{Name: "kube-proxy-" + m.Name, UID: fmt.Sprint(m.Name, c.Now.Unix()), Created: c.Now}
		m.starts = c.Now.Add(time.Duration(c.rng.IntN(8)) * time.Second)
	case m.Pod != nil && m.runs == "" && !c.Now.Before(m.starts):
		document := c.Config
		if m.Witness == Silent && m.Pod.Failure == "" && c.Now.Sub(c.Written) < time.Minute && c.before != "" && c.hits(5) {
			document = c.read.read(c.before)
		}
		m.start(c.Now, Effective(document.Settings[PathMode]), document.Settings[PathStrictARP] == "true", c.Now.Before(c.broken))
	}
	c.shown = c.shown || m.working() && m.runs == c.configured()
	m.ours = m.ours && !(m.working() && m.runs == c.configured())
	if m.Ready && !m.mute && m.Witness == Silent && !c.hits(4) {
		m.report()
	}
}

// step lets some seconds pass, asks for a decision and follows it.
func (c *cluster) step() Decision {
	c.Now = c.Now.Add(time.Duration(1+c.rng.IntN(4)) * time.Second)
	if !c.calm {
		c.disturb()
	}
	for len(c.foreign) > 0 && c.hits(3) { // the DaemonSet's own roll
		m := c.foreign[0]
		c.foreign = c.foreign[1:]
		c.note("the DaemonSet's roll restarts %s", m.Name)
		m.Pod, m.ours = nil, false
		m.stop(c.Now)
	}
	c.Nodes = nil
	for _, m := range c.machines {
		c.live(m)
		n := m.told()
		n.Verified, n.Away = c.verified[m.Name], c.away[m.Name]
		c.Nodes = append(c.Nodes, n)
	}
	c.waits.Mark(c.Nodes, c.Now)
	c.Probes = c.results()
	d := Plan(c.Facts)
	c.follow(d)
	return d
}

// results are what the probes have found out so far.
func (c *cluster) results() map[ProbeKey]ProbeResult {
	all := map[ProbeKey]ProbeResult{}
	for key, run := range c.probed {
		if !c.Now.Before(run.ends) {
			all[key] = run.result
		} else {
			all[key] = ProbeResult{Key: key}
		}
	}
	return all
}

// probe keeps the probes that are wanted.
func (c *cluster) probe(wanted []Probe) {
	keep := map[ProbeKey]bool{}
	for _, p := range wanted {
		keep[p.Key()] = true
		if old := c.probed[p.Key()]; old != nil && ((old.result.State != ProbeFailed && len(old.result.Leftovers) == 0) || c.Now.Sub(old.ends) < time.Minute) {
			continue // what went wrong is tried again after a while
		}
		i := slices.IndexFunc(c.machines, func(m *machine) bool { return m.Name == p.Node })
		m, run := c.machines[i], &probeRun{ends: c.Now.Add(time.Duration(1+c.rng.IntN(5)) * time.Second), result: ProbeResult{Key: p.Key(), State: ProbePassed}}
		switch {
		case p.Kind == ProbeShadow && m.lacks[p.Mode]:
			run.result.State, run.result.Message = ProbeFailed, "no such module"
		case p.Kind == ProbeSurvey:
			for mode := range maps.Keys(m.kernel) {
				if mode != p.Mode {
					run.result.Leftovers = append(run.result.Leftovers, "rules of "+mode)
				}
			}
		}
		if c.probed[p.Key()] != nil { // until then, the old result stands
			run.ends = c.Now
		}
		c.probed[p.Key()] = run
	}
	for key := range c.probed {
		if !keep[key] {
			delete(c.probed, key)
		}
	}
}

// follow does what was decided.
func (c *cluster) follow(d Decision) {
	if text := fmt.Sprintf("%s: %s", d.Phase, d.Message); !strings.HasSuffix(c.said, text) {
		c.note("%s", text)
		c.said = text
	}
	c.probe(d.Probes)
	remember(c.verified, d.Verified, c.Now)
	remember(c.away, d.Away, c.Now)
	c.checkDecision(d)
	switch d.Action {
	case Record:
		text, err := d.Ledger.Encode()
		if err != nil {
			c.breaks("the ledger cannot be written: %v", err)
		}
		c.Ledger = Ledger{}
		if err := c.Ledger.Decode(text); err != nil {
			c.breaks("the ledger cannot be read: %v", err)
		}
		if c.Ledger.Refused != nil {
			c.refused = string(c.Spec.Mode)
		}
	case Write:
		c.checkWrite(d)
		c.store(d.Edited, v1alpha1.FieldManager)
		c.writes++
		for _, m := range c.machines {
			m.restarts = 0
		}
	case Restart:
		i := slices.IndexFunc(c.machines, func(m *machine) bool { return m.Pod != nil && m.Pod.UID == d.Restart.UID })
		m := c.machines[i]
		c.checkRestart(m)
		m.Pod, m.ours = nil, true
		m.stop(c.Now)
		m.restarts++
		if c.canary == nil {
			c.canary = m
		}
	case Rest, Wait:
	}
}

// remember keeps since when names are listed.
func remember(since map[string]time.Time, listed []string, now time.Time) {
	for name := range since {
		if !slices.Contains(listed, name) {
			delete(since, name)
		}
	}
	for _, name := range listed {
		if since[name].IsZero() {
			since[name] = now
		}
	}
}

// configured is the mode that config.conf asks for.
func (c *cluster) configured() string { return Effective(c.Config.Settings[PathMode]) }

// rollingBack says whether what is done is the way back.
func (c *cluster) rollingBack() bool {
	return c.Ledger.Attempt != nil && c.Ledger.Attempt.Failed != nil || c.Ledger.Attempt == nil && c.Ledger.Refused != nil
}

// checkDecision checks what holds for every decision.
func (c *cluster) checkDecision(d Decision) {
	if d.Message == "" || strings.Contains(d.Message, "\n") || d.Reason == "" || d.Phase == "" {
		c.breaks("the decision says %q, %q and %q", d.Phase, d.Reason, d.Message)
	}
	if (d.Action == Wait || d.Action == Restart) && d.After <= 0 {
		c.breaks("nobody looks again: %+v", d)
	}
	if d.Action == Write && (len(d.Changes) == 0 || d.Edited == c.Config.Document) {
		c.breaks("a write without a difference: %+v", d)
	}
	for _, m := range c.machines {
		if known := m.Witness == Silent && c.Now.Sub(m.changed) > 15*time.Second; d.Progress == Done && (m.ours || known && m.Ready && m.off.IsZero()) &&
			(!m.working() || m.runs != string(c.Spec.Mode)) {
			c.breaks("done, and %v", m)
		}
	}
}

// checkWrite checks that nobody is put at risk who cannot take it.
func (c *cluster) checkWrite(d Decision) {
	next := Effective(c.read.read(d.Edited).Settings[PathMode])
	if c.refused == string(c.Spec.Mode) && next == c.refused && !c.rollingBack() {
		c.breaks("%s is tried again, although it was rolled back", next)
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
	if opposite(target.runs, mode) && target.Witness == Silent { // without a speaker, nobody can tell what others made it run
		c.breaks("%s goes from %s to %s at once", target.Name, target.runs, mode)
	}
	if target.lacks[mode] && !c.rollingBack() {
		c.breaks("%s is restarted into %s, which it cannot run", target.Name, mode)
	}
	limit := int(c.Spec.Rollout.MaxUnavailable)
	if !c.shown {
		limit = 1
	}
	out := 0
	for _, m := range c.machines {
		// What others did a moment ago, no speaker has reported yet.
		seen := m.Pod == nil || m.Pod.Failure != "" || m.said.Mode == "" && m.Witness == Silent
		if m != target && m.Ready && m.off.IsZero() && !m.working() && (m.ours || seen) {
			out++
		}
	}
	if target.working() && out >= limit {
		c.breaks("%s is restarted while %d others are without kube-proxy, of %d that may be", target.Name, out, limit)
	}
	if c.canary != nil && c.canary != target && c.canary.Ready && !c.canary.working() && !c.shown && target.working() {
		c.breaks("%s is restarted before %s has shown that %s works", target.Name, c.canary.Name, mode)
	}
}

// history rolls a cluster through some modes: some minutes of disturbance each, then calm, until it is done or stuck.
func (c *cluster) history() {
	for range 1 + c.rng.IntN(2) {
		mode := allModes[c.rng.IntN(3)]
		c.note("--- the spec asks for %s", mode)
		if string(c.Spec.Mode) != mode {
			c.refused = ""
		}
		c.Spec.Mode, c.writes, c.calm, c.broken = v1alpha1.ProxyMode(mode), 0, false, time.Time{}
		var last Decision
		noise, stuck := c.rng.IntN(60), 0
		for i := 0; i < 700 && len(c.violations) == 0; i++ {
			c.calm = i > noise
			last = c.step()
			stuck++
			if last.Progress != Stuck || !c.calm {
				stuck = 0
			}
			dark := slices.ContainsFunc(c.machines, func(m *machine) bool { return !m.Ready || !m.off.IsZero() })
			if c.calm && c.Now.After(c.broken) && len(c.foreign) == 0 && !dark && (last.Progress == Done || stuck > 60) {
				break
			}
		}
		if len(c.violations) == 0 {
			c.checkEnd(last)
		}
	}
}

// checkEnd checks where the cluster ends when nobody disturbs it any more.
func (c *cluster) checkEnd(last Decision) {
	mode := string(c.Spec.Mode)
	able := !slices.ContainsFunc(c.machines, func(m *machine) bool { return m.lacks[mode] || m.faulty[mode] })
	var back *Revision
	if a := c.Ledger.Attempt; a != nil && a.Failed != nil {
		back = a.Before
	} else if c.Ledger.Refused != nil {
		back = &c.Ledger.Refused.Back
	}
	if back != nil { // others had written what it goes back to, and it never ran everywhere
		able = able && !slices.ContainsFunc(c.machines, func(m *machine) bool { return m.lacks[back.mode()] || m.faulty[back.mode()] })
	}
	detour := slices.ContainsFunc(c.machines, func(m *machine) bool { return m.lacks["nftables"] || m.faulty["nftables"] })
	switch {
	case last.Progress == Underway:
		c.breaks("it never ends: %s", last.Message)
	case last.Progress == Stuck && able && !detour && last.Reason != v1alpha1.ReasonRolledBack && last.Reason != v1alpha1.ReasonContested &&
		last.Reason != v1alpha1.ReasonResidueFound && len(c.stranded(mode)) == 0:
		c.breaks("every node can run %s, and it ends in: %s", mode, last.Message)
	case last.Reason == v1alpha1.ReasonPreflightFailed && c.Ledger.Attempt == nil && c.writes > 0 && c.Ledger.Applied != "":
		return // others have changed it since
	case last.Reason == v1alpha1.ReasonRolledBack:
		for _, m := range c.machines {
			if good := c.Ledger.Refused.Back; (m.runs != good.mode() || !m.working()) && m.Ready && len(c.stranded(good.mode())) == 0 {
				c.breaks("rolled back to %s, and %v", good.mode(), m)
			}
		}
	case last.Progress == Done:
		for _, m := range c.machines {
			if m.runs != mode || !m.working() {
				c.breaks("done with %s, and %v", mode, m)
			}
		}
	}
}

// stranded are machines that run the opposite of a mode.
func (c *cluster) stranded(mode string) []*machine {
	return slices.DeleteFunc(slices.Clone(c.machines), func(m *machine) bool { return !opposite(m.runs, mode) })
}

// TestSimulation lets ten thousand clusters live through changes, with everything that disturbs them.
func TestSimulation(t *testing.T) {
	const histories = 10_000
	parts := runtime.GOMAXPROCS(0)
	for part := range parts {
		t.Run(fmt.Sprintf("part %d of %d", part+1, parts), func(t *testing.T) {
			t.Parallel()
			read := library{}
			for seed := part; seed < histories; seed += parts {
				c := newCluster(uint64(seed), 0, read) //nolint:gosec // seeds are not negative
				c.history()
				if len(c.violations) > 0 {
					t.Fatalf("at seed %d:\n%s\n%s", seed, strings.Join(c.log[max(0, len(c.log)-40):], "\n"), strings.Join(c.violations, "\n"))
				}
			}
		})
	}
}
