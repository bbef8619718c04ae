package kubeproxy

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// fault is what becomes of a machine's kube-proxy in a mode that its probe showed to work.
type fault int

const (
	sound     fault = iota
	crashes         // it exits, and kubelet tries again
	hangs           // its container never starts
	neverSync       // it runs, and never writes its rules
	leadsAway       // it runs and writes rules, which lead nowhere
)

// machine is a simulated node: what is true of it, and what the manager is told.
type machine struct {
	Node
	// lacks are the modes that its kernel has no modules for; probes find that out.
	lacks map[string]bool
	// fault happens in the modes in faulty, and no probe finds it out.
	fault  fault
	faulty map[string]bool
	// runs is the mode of the living process, and with are its settings; empty while there is none.
	runs  string
	with  Settings
	rules bool
	// kernel are the modes whose rules lie in the kernel.
	kernel map[string]bool
	// starts is when the pod's process starts, or is tried again; process is when the living one was started, by the node's clock.
	starts, process time.Time
	skew            time.Duration
	// mute means that its speaker has died behind its last report, said; plain that its kube-proxy does not tell its settings.
	mute, plain bool
	said        v1alpha1.NodeKubeProxy
	// holds is how many addresses it answers for while others do not in its place.
	holds int
	// ours says that the plan restarted it and that it has not run as asked since. changed is when its process was started or ended last.
	ours    bool
	changed time.Time
	// checked is the process whose rules its speaker has tried connections through.
	checked time.Time
	// shaken is when it was disturbed last, by whatever.
	shaken time.Time
	// off is until when its power is off; zero when it is on.
	off time.Time
}

// working says whether connections to Services work on the machine: rules of some process are there, and no process that removed them died.
func (m *machine) working() bool {
	return m.runs != "" && m.rules && (!m.faulty[m.runs] || m.fault != leadsAway)
}

// report lets a machine's speaker ask its kube-proxy.
func (m *machine) report() {
	m.said = v1alpha1.NodeKubeProxy{Message: "kube-proxy does not answer: connection refused"}
	if m.runs == "" {
		return
	}
	m.said = v1alpha1.NodeKubeProxy{Mode: m.runs, StartTime: &metav1.Time{Time: m.process}, Rules: v1alpha1.RulesPending}
	if !m.plain {
		m.said.Settings = map[string]string{}
		for path, value := range m.with {
			m.said.Settings[string(path)] = value
		}
	}
	if m.rules {
		m.said.Rules = v1alpha1.RulesWritten
	}
	if m.runs == "ipvs" && m.with[PathStrictARP] != "true" {
		m.said.LooseARP = []string{"eth0"}
	}
	check := v1alpha1.NodeCheck{Name: "default/kubernetes", Result: v1alpha1.CheckPassed}
	if !m.working() {
		check.Result, check.Message = v1alpha1.CheckFailed, "i/o timeout"
	}
	if m.checked.Equal(m.process) { // they take longer than to ask
		m.said.Checks = []v1alpha1.NodeCheck{check}
	}
	m.checked = m.process
	if m.kernel["ipvs"] && m.runs != "ipvs" {
		m.said.Residue = []string{"kube-ipvs0 is there"}
	}
}

// start starts a machine's kube-proxy with a configuration: it removes what it can of other modes, as kube-proxy does, before it finds out
// whether it can run.
func (m *machine) start(now time.Time, config Config, broken bool) {
	again := func() {
		m.Pod.Failure, m.starts = "CrashLoopBackOff, exit code 1: no such module", now.Add(20*time.Second)
	}
	if broken || config.Err != nil {
		again()
		return
	}
	mode := cmp.Or(config.Settings[PathMode], iptables)
	if mode == "nftables" {
		delete(m.kernel, "iptables")
		delete(m.kernel, "ipvs")
	} else {
		delete(m.kernel, "nftables")
	}
	fault := sound
	if m.faulty[mode] {
		fault = m.fault
	}
	switch {
	case m.lacks[mode] || fault == crashes:
		again()
		return
	case fault == hangs:
		m.starts = now.Add(30 * time.Second)
		return
	}
	m.runs, m.with, m.rules, m.process = mode, config.Settings, fault != neverSync, now.Add(m.skew)
	m.kernel[mode] = true
	m.Pod.Ready, m.Pod.Failure, m.Pod.Started = true, "", m.process.Add(time.Second)
	m.changed = now
}

// stop ends a machine's kube-proxy. Its rules stay.
func (m *machine) stop(now time.Time) {
	m.runs, m.with, m.rules = "", nil, false
	m.changed = now
}

// told is what the manager sees of the machine.
func (m *machine) told() Node {
	n := m.Node
	if m.Pod != nil {
		pod := *m.Pod
		n.Pod = &pod
	}
	return n.Hear(m.said)
}

func (m *machine) String() string {
	kernel := ""
	for _, mode := range []string{"iptables", "ipvs", "nftables"} {
		if m.kernel[mode] {
			kernel += " " + mode
		}
	}
	return fmt.Sprintf("%s ready=%v runs=%q rules=%v kernel=[%s] lacks=%v fault=%d in %v pod=%+v", m.Name, m.Ready, m.runs, m.rules, kernel,
		m.lacks, m.fault, m.faulty, m.Pod)
}
