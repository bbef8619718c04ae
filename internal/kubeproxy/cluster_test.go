package kubeproxy

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// small is as little of a config.conf as can be: the simulation reads it over and over.
const small = "kind: KubeProxyConfiguration\n"

var allModes = []string{"iptables", "ipvs", "nftables"}

// cluster is a simulated cluster under the plan.
type cluster struct {
	Facts
	rng      *rand.Rand
	machines []*machine
	// before is config.conf before the last write: a kubelet may hand it out for a while.
	before string
	// broken is until when kube-proxy's image does not start anywhere, apiAway until when nobody reaches the API server.
	broken, apiAway time.Time
	// foreign are machines that another writer of the DaemonSet is about to restart, one after the other.
	foreign []*machine
	// fighter is the mode that another writer insists on, within about as many passes as patience says; empty while there is none.
	fighter  string
	patience int
	// calm ends the disturbances from outside.
	calm bool
	// offset is how far the manager's clock is ahead of the API server's.
	offset time.Duration
	// waits, verified and away are what the manager keeps in memory: a restart of it loses them.
	waits          Waits
	verified, away map[string]time.Time
	probed         map[ProbeKey]*probeRun
	memory         memory
	// violations are the invariants that did not hold.
	violations []string
	log        []string
	said       string
	read       library
}

type probeRun struct {
	ends   time.Time
	result ProbeResult
}

// library remembers what was read: the simulation reads the same few documents all the time.
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

func (c *cluster) oneOf(values ...string) string { return values[c.rng.IntN(len(values))] }

func (c *cluster) seconds(from, to int) time.Duration {
	return time.Duration(from+c.rng.IntN(to-from)) * time.Second
}

func (c *cluster) note(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf("%4d: ", int(c.Now.Sub(at(0)).Seconds()))+fmt.Sprintf(format, args...))
}

// newCluster makes 1 to 6 nodes in some mode. In some clusters a node's kernel lacks a mode, and in some a node fails in a mode that its
// probe showed to work.
func newCluster(seed uint64, off safeguard, read library) *cluster {
	c := &cluster{rng: rand.New(rand.NewPCG(seed, 5)), waits: Waits{}, verified: map[string]time.Time{}, away: map[string]time.Time{},
		probed: map[ProbeKey]*probeRun{}, read: read}
	if c.hits(2) {
		c.offset = c.seconds(-600, 600)
	}
	mode := c.oneOf(allModes...)
	c.Facts = Facts{Layout: Layout{Managed: true}, Now: at(0), Announcing: c.hits(2), Image: "kube-proxy:v1.36.3", off: off}
	switch {
	case mode == "iptables" && c.hits(3):
		c.Config = c.read.read(small)
	case mode == "iptables" && c.hits(2):
		c.Config = c.read.read(small + "mode: \"\"\n")
	default:
		c.Config = c.read.read(small + "mode: " + mode + "\n")
	}
	speakers, plain := !c.hits(5), c.hits(5)
	for i := range 1 + c.rng.IntN(6) {
		m := &machine{Node: node(fmt.Sprintf("n%d", i), "", at(-1000)), skew: c.seconds(-3600, 3600), plain: plain,
			lacks: map[string]bool{}, faulty: map[string]bool{}, kernel: map[string]bool{mode: true}, runs: mode, with: c.Config.Settings, rules: true}
		m.process = at(-1000).Add(m.skew)
		m.Pod.Started = m.process
		m.ControlPlane = i == 0
		if c.hits(3) {
			m.holds = 1 + c.rng.IntN(3)
		}
		if m.Witness = NoSpeaker; speakers {
			m.Witness = Silent
			m.report()
			m.report()
		}
		c.machines = append(c.machines, m)
	}
	c.OwnNode = c.machines[c.rng.IntN(len(c.machines))].Name
	c.afflict(mode, speakers)
	return c
}

// afflict gives some clusters a machine with a weakness. The mode that runs at first works everywhere.
func (c *cluster) afflict(first string, speakers bool) {
	others := slices.DeleteFunc(slices.Clone(allModes), func(m string) bool { return m == first })
	m := c.machines[c.rng.IntN(len(c.machines))]
	switch c.rng.IntN(10) {
	case 0, 1:
		m.lacks[c.oneOf(others...)] = true
	case 2, 3, 4:
		m.fault = fault(1 + c.rng.IntN(4))
		if !speakers { // what only a speaker can see
			m.fault = fault(1 + c.rng.IntN(2))
		}
		m.faulty[c.oneOf(others...)] = true
	case 5:
		m.mute = speakers && c.hits(2)
	}
}

// store writes config.conf.
func (c *cluster) store(document, writer string) {
	if document == c.Config.Document {
		return
	}
	if writer != v1alpha1.FieldManager {
		c.shake()
	}
	c.before, c.Config, c.Written, c.Writer = c.Config.Document, c.read.read(document), c.Now, writer
	c.memory.wrote(c, writer)
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
		m.Left, m.starts = time.Time{}, c.Now.Add(c.seconds(0, 8))
	case m.Pod != nil && m.runs == "" && !c.Now.Before(m.starts):
		document := c.Config
		if m.Witness == Silent && m.Pod.Failure == "" && c.Now.Sub(c.Written) < time.Minute && c.before != "" && c.hits(5) {
			document = c.read.read(c.before)
		}
		m.start(c.Now, document, c.Now.Before(c.broken))
	}
	c.memory.shown = c.memory.shown || m.working() && m.runs == c.configured()
	m.ours = m.ours && (!m.working() || m.runs != c.configured())
	if m.Ready && !m.mute && m.Witness == Silent && !c.hits(4) {
		m.report()
	}
}

// step lets some seconds pass, asks for a decision and follows it. When nothing happens by itself, the manager looks again when it said.
func (c *cluster) step(last Decision) Decision {
	c.Now = c.Now.Add(c.seconds(1, 5))
	if c.calm && last.Progress == Stuck {
		c.Now = c.Now.Add(min(last.After, 10*time.Second))
	}
	if c.Now.Before(c.apiAway) {
		return last
	}
	if !c.calm {
		c.disturb()
	}
	c.others()
	if c.Now.Before(c.broken) {
		c.shake()
	}
	c.Nodes = nil
	for _, m := range c.machines {
		c.live(m)
		n := m.told()
		n.Verified, n.Away, n.Announces = c.verified[m.Name], c.away[m.Name], m.holds
		if since := c.away[m.Name]; !since.IsZero() && c.clock().Sub(since) > 3*time.Second && !c.calm {
			n.Announces = 0 // others have taken them over
		}
		c.Nodes = append(c.Nodes, n)
	}
	c.waits.Mark(c.Nodes, c.clock())
	c.Probes = c.results()
	facts := c.Facts
	facts.Now = c.clock()
	d := Plan(facts)
	c.follow(d)
	return d
}

// clock is the manager's.
func (c *cluster) clock() time.Time { return c.Now.Add(c.offset) }

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
		if old := c.probed[p.Key()]; old != nil && (old.result.State != ProbeFailed && len(old.result.Leftovers) == 0 || c.Now.Sub(old.ends) < time.Minute) {
			continue // what went wrong is tried again after a while
		}
		i := slices.IndexFunc(c.machines, func(m *machine) bool { return m.Name == p.Node })
		m, run := c.machines[i], &probeRun{ends: c.Now.Add(c.seconds(1, 6)), result: ProbeResult{Key: p.Key(), State: ProbePassed}}
		switch {
		case p.Kind == ProbeShadow && m.lacks[p.Mode]:
			run.result.State, run.result.Message = ProbeFailed, "no such module"
		case c.Now.Before(c.broken):
			run.result.State, run.result.Message = ProbeFailed, "the image does not start"
		case p.Kind == ProbeSurvey:
			for _, mode := range slices.Sorted(maps.Keys(m.kernel)) {
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
	maps.DeleteFunc(c.probed, func(key ProbeKey, _ *probeRun) bool { return !keep[key] })
}

// follow does what was decided.
func (c *cluster) follow(d Decision) {
	if text := fmt.Sprintf("%s: %s", d.Phase, d.Message); !strings.HasSuffix(c.said, text) {
		c.note("%s", text)
		c.said = text
	}
	c.checkDecision(d)
	c.probe(d.Probes)
	remember(c.verified, d.Verified, c.clock())
	switch d.Action {
	case Record:
		c.keep(*d.Ledger)
	case Write:
		c.checkWrite(d)
		c.store(d.Edited, v1alpha1.FieldManager)
	case Restart:
		i := slices.IndexFunc(c.machines, func(m *machine) bool { return m.Pod != nil && m.Pod.UID == d.Restart.UID })
		m := c.machines[i]
		c.checkRestart(m)
		m.Pod, m.Left, m.ours = nil, c.Now, true
		m.stop(c.Now)
		if c.memory.canary == nil {
			c.memory.canary = m
		}
	case Rest, Wait:
	}
	remember(c.away, d.Away, c.clock())
}

// keep stores the ledger, as a ConfigMap would.
func (c *cluster) keep(l Ledger) {
	text, err := l.Encode()
	if err != nil {
		c.breaks("the ledger cannot be written: %v", err)
	}
	old := c.Ledger
	if l.Attempt != nil && (old.Attempt == nil || old.Attempt.Asked != l.Attempt.Asked) {
		c.memory.began = c.Now
	}
	c.Ledger = Ledger{}
	if err := c.Ledger.Decode(text); err != nil {
		c.breaks("the ledger cannot be read: %v", err)
	}
	c.checkOriginal(old)
	c.memory.refused = c.memory.refused || l.Refused != nil
}

// remember keeps since when names are listed.
func remember(since map[string]time.Time, listed []string, now time.Time) {
	maps.DeleteFunc(since, func(name string, _ time.Time) bool { return !slices.Contains(listed, name) })
	for _, name := range listed {
		if since[name].IsZero() {
			since[name] = now
		}
	}
}
