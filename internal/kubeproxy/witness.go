package kubeproxy

import (
	"fmt"
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// Witness says what there is on a node to tell how kube-proxy really runs.
type Witness int

// The witnesses.
const (
	// NoSpeaker: no speaker runs there; only the pod tells.
	NoSpeaker Witness = iota
	// Silent: a speaker is there, and has not reported the kube-proxy that runs now.
	Silent
	// Reporting: the speaker reports what kube-proxy says of itself.
	Reporting
)

// startSlack is how much earlier than its container a process may seem to have started: the runtime makes it first, which takes seconds on
// a busy node, and both times are cut to the second. It is shorter than staleAfter: a report that no speaker renews is mistaken for one
// of the next process once at most, however often the plan restarts the pod.
const startSlack = 10 * time.Second

// Hear adds what the node's speaker reported of kube-proxy. A report outlives its speaker and the process that it is of: one of a process
// before the pod's own proves nothing. Both times are of the node's own clock, which may differ from the API server's.
func (n Node) Hear(said v1alpha1.NodeKubeProxy) Node {
	switch started := said.StartTime; {
	case said.Mode == "" && said.Message == "": // it has not asked yet
		return n
	case started == nil && n.Witness == NoSpeaker: // the speaker is gone, and nobody knows for how long
		return n
	case started != nil && (n.Pod == nil || n.Pod.Started.IsZero() || started.Time.Before(n.Pod.Started.Add(-startSlack))):
		return n
	}
	n.Witness, n.Mode, n.Says, n.Dated = Reporting, said.Mode, said.Message, said.StartTime != nil
	n.Rules, n.Failures, n.Residue = said.Rules, said.SyncFailures, said.Residue
	if said.Settings != nil {
		n.Settings = Settings{}
		for path, value := range said.Settings {
			n.Settings[Path(path)] = value
		}
	}
	for _, c := range said.Checks {
		if c.Result == v1alpha1.CheckFailed && n.Blocked == "" {
			n.Blocked = c.Name + " cannot be reached: " + c.Message
		}
	}
	return n
}

// Waits remembers since when nodes lack what a roll needs there: nothing in the cluster says it. A manager that restarts counts anew.
type Waits map[string]wait

type wait struct {
	lacks string
	since time.Time
}

// Mark sets each node's Since, and forgets the nodes that lack nothing.
func (w Waits) Mark(nodes []Node, now time.Time) {
	seen := map[string]bool{}
	for i := range nodes {
		n := &nodes[i]
		lacks := n.lacks()
		if lacks == "" {
			continue
		}
		seen[n.Name] = true
		if w[n.Name].lacks != lacks {
			w[n.Name] = wait{lacks: lacks, since: now}
		}
		n.Since = w[n.Name].since
	}
	for name := range w {
		if !seen[name] {
			delete(w, name)
		}
	}
}

// working is what a node lacks whose kube-proxy runs, and whose rules are not written or lead nowhere.
const working = "rules that work"

// lacks says what a roll needs on the node and waits for, for some time; empty when there is nothing. A node that is not Ready is not
// waited for, and a kube-proxy that is down already needs no witness before it is restarted.
func (n Node) lacks() string {
	switch {
	case !n.Ready:
		return ""
	case n.Pod == nil:
		return "pod"
	case n.Witness == Silent && n.Pod.Failure == "":
		return "report"
	case n.Witness == Reporting && n.Pod.Failure == "" && n.Mode != "" && (n.Rules == v1alpha1.RulesPending || n.Blocked != ""):
		return working
	}
	return ""
}

// untouched judges a kube-proxy that the spec does not ask to change: announcements still need strictARP where it runs ipvs.
func (f Facts) untouched() Decision {
	d := Decision{Phase: v1alpha1.PhaseIdle, Reason: v1alpha1.ReasonNotManaged, Message: "spec.kubeProxy is absent: kube-proxy is not touched",
		Total: len(f.Nodes), Updated: len(f.Nodes)}
	nodes := f.ipvs()
	if !f.Announcing || len(nodes) == 0 {
		return d
	}
	_, values, err := parse(f.Config.Document)
	if !f.Layout.Managed || err != nil {
		d.Message += fmt.Sprintf("; it runs in mode ipvs on %s, which needs strictARP where addresses are announced, and Lanyard cannot read "+
			"whether it has it", some(nodes))
		return d
	}
	found := lookup(values, PathStrictARP.keys())
	if found == true {
		return d
	}
	if found == nil {
		found = "(absent)"
	}
	return Decision{Progress: Stuck, Phase: v1alpha1.PhaseStalled, Reason: v1alpha1.ReasonStrictARPMissing, Total: d.Total, Updated: d.Total - len(nodes),
		Message: fmt.Sprintf("ConfigMap %s/%s: config.conf has ipvs.strictARP: %v, and kube-proxy runs in mode ipvs on %s: each such node answers "+
			"ARP for every announced address. Write `kubeProxy: {}` into the spec, and Lanyard sets it and restarts one kube-proxy after the other; "+
			"or set it to true by hand and run `kubectl -n %s rollout restart daemonset %s`",
			Namespace, Name, found, some(nodes), Namespace, Name)}
}

// ipvs returns the nodes whose kube-proxy runs ipvs, in order; where nobody could ask it, what is configured counts.
func (f Facts) ipvs() []string {
	configured := ""
	if f.Layout.Managed {
		configured, _ = Mode(f.Config.Document) // one that cannot be read says nothing
	}
	var names []string
	for _, n := range (roll{Facts: f}).ordered() {
		if n.Mode == string(v1alpha1.ProxyModeIPVS) || n.Mode == "" && configured == string(v1alpha1.ProxyModeIPVS) {
			names = append(names, n.Name)
		}
	}
	return names
}
