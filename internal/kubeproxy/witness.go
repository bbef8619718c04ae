package kubeproxy

import (
	"fmt"
	"maps"
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
	n.Rules, n.Failures, n.Residue, n.LooseARP = said.Rules, said.SyncFailures, said.Residue, said.LooseARP
	n.Untried = said.Mode != "" && len(said.Checks) == 0 // every cluster has Service default/kubernetes to try
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

// Waits remembers since when the manager has known things of nodes: nothing in the cluster says it, or by another clock than the manager's. A
// manager that restarts counts anew.
type Waits map[wait]time.Time

// wait is what is known: that a node lacks something, has a pod, which may have been found there at first, or that its pod is being deleted
// since some time.
type wait struct {
	node, lacks, pod, left string
	found                  bool
}

// Mark sets since when each node lacks what it lacks, has its pod, and loses it. It forgets what is not so any more.
func (w Waits) Mark(nodes []Node, now time.Time) {
	first, known := len(w) == 0, map[wait]bool{}
	since := func(what wait) time.Time {
		known[what] = true
		if w[what].IsZero() {
			w[what] = now
		}
		return w[what]
	}
	for i := range nodes {
		n := &nodes[i]
		if lacks := n.lacks(); lacks != "" {
			n.Since = since(wait{node: n.Name, lacks: lacks})
		}
		if n.Pod != nil {
			met := wait{node: n.Name, pod: n.Pod.UID, found: true}
			met.found = first || !w[met].IsZero()
			n.Pod.Met, n.Pod.Found = since(met), met.found
		}
		if !n.Left.IsZero() {
			n.Missed = since(wait{node: n.Name, left: n.Left.String()})
		}
	}
	maps.DeleteFunc(w, func(what wait, _ time.Time) bool { return !known[what] })
}

// elapsed is for how long the manager has known something. The API server's time for it stands in only while that is not known.
func (f Facts) elapsed(known, told time.Time) time.Duration {
	if known.IsZero() {
		known = told
	}
	return f.Now.Sub(known)
}

// age is for how long a pod is known to exist.
func (f Facts) age(p Pod) time.Duration { return f.elapsed(p.Met, p.Created) }

// missing is for how long it is known that a node's pod is being deleted.
func (f Facts) missing(n Node) time.Duration { return f.elapsed(n.Missed, n.Left) }

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
	case n.Witness == Reporting && n.Pod.Failure == "" && n.Mode != "" && (n.unwritten() || n.Untried || n.Blocked != "" || len(n.LooseARP) > 0):
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
	for _, n := range f.inOrder() {
		if n.Mode == string(v1alpha1.ProxyModeIPVS) || n.Mode == "" && configured == string(v1alpha1.ProxyModeIPVS) {
			names = append(names, n.Name)
		}
	}
	return names
}
