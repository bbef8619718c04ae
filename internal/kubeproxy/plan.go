package kubeproxy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// Pod is a node's kube-proxy pod.
type Pod struct {
	Name, UID string
	// Created is when the API server took the pod on.
	Created time.Time
	// Started is when its container was started, by the node's clock; zero while it does not run.
	Started time.Time
	Ready   bool
	// Failure says why its container does not stay up, with the end of what it said; empty when it does.
	Failure string
}

// Node is a node and its kube-proxy.
type Node struct {
	Name    string
	Ready   bool
	Witness Witness
	// Mode is what kube-proxy says of itself; empty when it does not answer, and Says then tells why.
	Mode, Says string
	// Dated means that Mode is known to be of the pod's own process, not of one before it.
	Dated bool
	// Since is since when the node lacks a pod, or its speaker's report; zero when it does not, or when that is not known.
	Since time.Time
	// Pod is nil while there is none, or while it is being deleted.
	Pod *Pod
}

// Facts are all that the roll is decided from. They are read anew each time, so a restart of the manager loses nothing.
type Facts struct {
	// Spec is nil when kube-proxy is not to be touched.
	Spec *v1alpha1.KubeProxySpec
	// Announcing says whether an L2 advertisement exists; with ipvs it needs strictARP.
	Announcing bool
	Layout     Layout
	// Document is config.conf.
	Document string
	// Written is when it was last written, by the API server's clock. Pods from before are restarted. Zero when it is not known: every pod
	// then counts as having read it, and none is restarted.
	Written time.Time
	Nodes   []Node
	// OwnNode is the manager's node, whose kube-proxy is restarted last.
	OwnNode string
	// Paused means that nothing is to be done, only said.
	Paused bool
	Now    time.Time
}

// Action is what to do next.
type Action int

// The actions.
const (
	// Rest: there is nothing to do until the facts change.
	Rest Action = iota
	// Write config.conf as Decision.Edited.
	Write
	// Restart the pod Decision.Restart.
	Restart
	// Wait for the node in flight; look again after Decision.After at the latest.
	Wait
)

// Decision is the one next step, and how the roll stands.
type Decision struct {
	Action  Action
	Edited  string
	Changes []Change
	Restart *Pod
	After   time.Duration
	// Progress says whether the roll is done, goes on by itself, or needs a person.
	Progress Progress
	// Reason is one of the API's reasons.
	Reason  string
	Message string
	// Updated of Total nodes run kube-proxy as asked.
	Updated, Total int
}

// Progress says how the roll stands.
type Progress int

// The kinds of progress.
const (
	Done Progress = iota
	Underway
	Stuck
)

// The times of a roll.
const (
	// verifyWithin is how long a restarted kube-proxy may take until its node reports the mode that was asked for, and how long a node may
	// lack a pod or a report.
	verifyWithin = 2 * time.Minute
	// staleAfter is how long a restarted kube-proxy may report the old mode before it is restarted again: kubelet may start a pod on the
	// ConfigMap's old content, until its watch or its next sync brings the new one.
	staleAfter = 15 * time.Second
	// staleFor is how long after a write old content can be the cause: kubelet's sync takes up to 90 s.
	staleFor = 2 * time.Minute
	// settledAfter is how long a pod without a witness has to stay Ready to be believed.
	settledAfter = 10 * time.Second
	// lookAgain is when to look at a node in flight, should no event come.
	lookAgain = time.Second
)

// Plan returns the next step: the configuration is written first, then one kube-proxy after the other is restarted and verified. What
// fails to come up stops the roll: the nodes behind it keep their working kube-proxy.
//
//	write ──▶ restart node 1 ──▶ it reports the mode ──▶ restart node 2 ──▶ … ──▶ done
//	                 └──▶ it does not: stop, say which node and why
func Plan(f Facts) Decision {
	if f.Spec == nil {
		return f.untouched()
	}
	if !f.Layout.Managed {
		return Decision{Progress: Stuck, Reason: v1alpha1.ReasonUnmanagedLayout, Message: f.Layout.Message, Total: len(f.Nodes)}
	}
	mode := string(f.Spec.Mode)
	if mode == "" {
		kept, err := Mode(f.Document)
		if err != nil {
			return f.invalid(err)
		}
		mode = Effective(kept)
	}
	want := Declared(f.Spec, f.Announcing, mode)
	edited, changes, err := Edit(f.Document, want)
	if err != nil {
		return f.invalid(err)
	}
	r := roll{Facts: f, mode: mode, everyProcess: want.Settings()[PathStrictARP] != ""}
	if len(changes) > 0 {
		// A roll that cannot go on is not begun: any pod that is made meanwhile would run what nobody has tried. It is begun after a while
		// even so, because the new configuration may be what brings that node back.
		nodes := r.ordered()
		if i := slices.IndexFunc(nodes, r.awaited); i >= 0 {
			return r.decision(r.wait(nodes[i], "before writing "+describe(changes)+", "))
		}
		return r.decision(Decision{Action: Write, Edited: edited, Changes: changes, Progress: Underway, Reason: v1alpha1.ReasonRollingOut,
			Message: "writing " + describe(changes)})
	}
	return r.next()
}

func (f Facts) invalid(err error) Decision {
	return Decision{Progress: Stuck, Reason: v1alpha1.ReasonInvalidConfiguration, Message: fmt.Sprintf("ConfigMap %s/%s: %v", Namespace, Name, err),
		Total: len(f.Nodes)}
}

func describe(changes []Change) string {
	var texts []string
	for _, c := range changes {
		texts = append(texts, c.String())
	}
	return strings.Join(texts, ", ")
}

// Effective is the mode that kube-proxy runs for a configured one: iptables when it is left open.
func Effective(configured string) string {
	return cmp.Or(configured, string(v1alpha1.ProxyModeIPTables))
}

// roll walks the nodes after the configuration is written.
type roll struct {
	Facts
	mode string
	// everyProcess says that the mode alone does not prove that a process read the new configuration.
	everyProcess bool
}

func (r roll) next() Decision {
	var waiting, pending, dark []Node
	for _, n := range r.ordered() {
		switch {
		case r.updated(n):
		case !n.Ready && n.Pod != nil && r.fresh(*n.Pod):
			dark = append(dark, n)
		case !n.Ready: // its turn comes when it returns
		case n.Pod == nil, r.fresh(*n.Pod), r.awaited(n):
			waiting = append(waiting, n)
		default:
			pending = append(pending, n)
		}
	}
	if len(pending) > 0 { // the restart may be why the node is not Ready any more: no other is put at risk
		waiting = append(waiting, dark...)
	}
	for _, n := range waiting {
		if why := r.failure(n); why != "" {
			return r.decision(r.stalled(n, why))
		}
	}
	switch {
	case len(waiting) > 0 && !slices.ContainsFunc(waiting, func(n Node) bool { return !r.stale(n) }):
		return r.decision(Decision{Action: Restart, Restart: waiting[0].Pod, After: lookAgain, Progress: Underway, Reason: v1alpha1.ReasonRollingOut,
			Message: fmt.Sprintf("restarting kube-proxy on %s again: it started on the old configuration", waiting[0].Name)})
	case len(waiting) > 0:
		return r.decision(r.wait(waiting[0], ""))
	case len(pending) > 0:
		return r.decision(Decision{Action: Restart, Restart: pending[0].Pod, After: lookAgain, Progress: Underway, Reason: v1alpha1.ReasonRollingOut,
			Message: "restarting kube-proxy on " + pending[0].Name})
	case len(r.notReady()) > 0:
		return r.decision(Decision{Progress: Underway, Reason: v1alpha1.ReasonRollingOut,
			Message: "not Ready, and updated when they return: " + some(r.notReady())})
	}
	return r.decision(Decision{Progress: Done, Reason: v1alpha1.ReasonReady, Message: "kube-proxy runs as asked"})
}

// ordered returns the nodes by name: those without a report after the others, for the roll may end there, and the manager's own last.
func (r roll) ordered() []Node {
	rank := func(n Node) int {
		switch {
		case n.Name == r.OwnNode:
			return 2
		case n.Witness == Silent:
			return 1
		}
		return 0
	}
	return slices.SortedFunc(slices.Values(r.Nodes), func(a, b Node) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Name, b.Name))
	})
}

// overdue says whether the node has lacked a pod or a report for too long.
func (r roll) overdue(n Node) bool { return !n.Since.IsZero() && r.Now.Sub(n.Since) >= verifyWithin }

// awaited says whether the node lacks something that it may still get.
func (r roll) awaited(n Node) bool { return n.lacks() != "" && !r.overdue(n) }

func (r roll) wait(n Node, before string) Decision {
	return Decision{Action: Wait, After: lookAgain, Progress: Underway, Reason: v1alpha1.ReasonRollingOut,
		Message: before + "waiting for " + n.Name + ": " + r.doing(n)}
}

// fresh says whether the pod was made after the configuration was written.
func (r roll) fresh(p Pod) bool { return !p.Created.Before(r.Written) }

// settled says whether the pod has stayed up for long enough to be believed.
func (r roll) settled(p Pod) bool {
	return p.Ready && p.Failure == "" && r.Now.Sub(p.Created) >= settledAfter
}

// updated says whether the node's kube-proxy runs as asked. Only kube-proxy's own word counts where a speaker can ask it.
func (r roll) updated(n Node) bool {
	if n.Pod == nil {
		return false
	}
	restarted := r.fresh(*n.Pod) && r.settled(*n.Pod)
	switch n.Witness {
	case Reporting: // the process before the restart may have reported the same mode: that report proves nothing yet
		return n.Mode == r.mode && (!r.everyProcess || restarted)
	case NoSpeaker:
		return restarted
	default:
		return false
	}
}

// stale says whether the node's kube-proxy is up on the configuration of before, which another restart helps against.
func (r roll) stale(n Node) bool {
	return n.Ready && n.Pod != nil && n.Pod.Failure == "" && r.fresh(*n.Pod) && n.Pod.Created.Sub(r.Written) < staleFor &&
		r.Now.Sub(n.Pod.Created) >= staleAfter && n.Witness == Reporting && n.Dated && n.Mode != "" && n.Mode != r.mode
}

// failure says why a node has been waited for long enough; empty while it has not.
func (r roll) failure(n Node) string {
	switch {
	case n.Pod == nil && r.overdue(n):
		return r.doing(n)
	case n.Pod == nil || !r.fresh(*n.Pod) || r.stale(n):
		return ""
	case n.Pod.Failure != "":
		return n.Pod.Failure
	case r.Now.Sub(n.Pod.Created) >= verifyWithin:
		return r.doing(n)
	}
	return ""
}

// stalled says what a person should do about a node that was waited for long enough.
func (r roll) stalled(n Node, why string) Decision {
	message := fmt.Sprintf("kube-proxy on %s does not come up in mode %s: %s. No further node is touched. ", n.Name, r.mode, why)
	switch at := elsewhere(r.Document); {
	case n.Pod == nil:
		message += fmt.Sprintf("`kubectl -n %s describe daemonset %s` tells why no pod is made", Namespace, Name)
	case n.Pod.Failure == "" && n.Ready && n.Witness == Silent:
		message += fmt.Sprintf("See whether the speaker there runs and reaches the API server: `kubectl get pods -A -o wide -l "+
			"app.kubernetes.io/component=speaker`. If it does, `kubectl -n %s delete pod %s` makes it ask again", Namespace, n.Pod.Name)
	case n.Pod.Failure == "" && n.Ready && n.Witness == Reporting && n.Mode == "" && at != "":
		message += fmt.Sprintf("config.conf has %s, and speakers ask at %s: set metricsBindAddress to %s in ConfigMap %s/%s",
			at, v1alpha1.KubeProxyMetricsAddress, v1alpha1.KubeProxyMetricsAddress, Namespace, Name)
	case n.Pod.Failure == "" && r.Written.IsZero():
		message = fmt.Sprintf("kube-proxy on %s does not run in mode %s: %s. It is not restarted, because it is not known when config.conf was "+
			"last written; `kubectl -n %s delete pod %s` restarts it", n.Name, r.mode, why, Namespace, n.Pod.Name)
	default:
		message += fmt.Sprintf("Set spec.kubeProxy.mode to a mode that this node can run; `kubectl -n %s logs %s` tells more", Namespace, n.Pod.Name)
	}
	return Decision{Action: Wait, After: 10 * lookAgain, Progress: Stuck, Reason: v1alpha1.ReasonRolloutStalled, Message: message}
}

// doing says what a node in flight is doing.
func (r roll) doing(n Node) string {
	switch {
	case n.Pod == nil:
		return "its kube-proxy pod is being made"
	case !n.Ready:
		return "the node is not Ready"
	case n.Witness == Silent:
		return "its speaker has not reported the mode of the kube-proxy that runs now"
	case n.Witness == Reporting && n.Mode == "":
		return "its speaker says: " + cmp.Or(n.Says, "kube-proxy does not answer")
	case n.Witness == Reporting && n.Mode != r.mode:
		return fmt.Sprintf("its kube-proxy reports mode %s", n.Mode)
	default:
		return "its kube-proxy pod is not Ready for long enough yet"
	}
}

func (r roll) notReady() []string {
	var names []string
	for _, n := range r.ordered() {
		if !n.Ready && !r.updated(n) {
			names = append(names, n.Name)
		}
	}
	return names
}

// listed is how many nodes a message names before it counts the rest.
const listed = 3

func some(names []string) string {
	if len(names) <= listed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:listed], ", "), len(names)-listed)
}

// decision adds the count of nodes to a decision, and to its message. While paused, what would be done is only said.
func (r roll) decision(d Decision) Decision {
	if r.Paused && d.Progress == Underway {
		d = Decision{Action: Wait, After: 10 * lookAgain, Progress: Underway, Reason: v1alpha1.ReasonPaused,
			Message: "paused; would go on with: " + d.Message + ". Set spec.managementState to Managed to go on"}
	}
	d.Total = len(r.Nodes)
	for _, n := range r.Nodes {
		if r.updated(n) {
			d.Updated++
		}
	}
	asked := "mode " + r.mode
	if r.everyProcess {
		asked += " with strictARP"
	}
	d.Message = fmt.Sprintf("%d of %d nodes run %s; %s", d.Updated, d.Total, asked, d.Message)
	return d
}
