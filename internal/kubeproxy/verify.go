package kubeproxy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// inOrder returns the nodes in the order in which they are restarted: those that hold no address first, control planes behind the others,
// those without a report behind them, for the roll may end there, and the manager's own last.
func (f Facts) inOrder() []Node {
	rank := func(n Node) int {
		rank := 0
		for _, behind := range []bool{n.Name == f.OwnNode, n.Witness == Silent, n.ControlPlane, n.Announces > 0} {
			rank *= 2
			if behind {
				rank++
			}
		}
		return rank
	}
	nodes := slices.Clone(f.Nodes)
	slices.SortFunc(nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Name, b.Name))
	})
	return nodes
}

// overdue says whether the node has lacked a pod, a report or rules that work for too long.
func (r roll) overdue(n Node) bool { return !n.Since.IsZero() && r.Now.Sub(n.Since) >= r.deadline() }

// awaited says whether the node lacks a pod or a report, which it may still get.
func (r roll) awaited(n Node) bool {
	lacks := n.lacks()
	return lacks != "" && lacks != working && !r.overdue(n)
}

// fresh says whether the pod was made after the configuration was written. When its process was started is by another clock, the node's.
func (r roll) fresh(p Pod) bool { return !p.Created.Before(r.Written) }

// restarted says whether the node's kube-proxy was restarted after the configuration was written. Where the node died of it, or just then, the
// pod of before is all that is left.
func (r roll) restarted(n Node) bool {
	return n.Pod != nil && r.fresh(*n.Pod) || n.Pod == nil && !n.Left.IsZero() && !n.Left.Before(r.Written)
}

// settled says whether the pod has stayed up for long enough to be believed. Of one that was there before the manager, the API server knows for
// how long.
func (r roll) settled(p Pod) bool {
	return p.Ready && p.Failure == "" && (r.age(p) >= settledAfter || p.Found && r.Now.Sub(p.Created) >= settledAfter)
}

// down says whether the node is known to be without a working kube-proxy. The rules that it wrote before may still be there.
func (n Node) down() bool {
	switch {
	case n.Pod == nil || n.Pod.Failure != "":
		return true
	case n.Witness == Reporting:
		return n.Mode == "" || n.unwritten() || n.Blocked != ""
	case n.Witness == NoSpeaker:
		return !n.Pod.Ready
	}
	return false
}

// unwritten says whether the node's kube-proxy is known to have rules to write that it has not written.
func (n Node) unwritten() bool {
	return n.Rules == v1alpha1.RulesPending || n.Rules == v1alpha1.RulesFailing
}

// podDown says whether the node's pod is down by the API server's word, which is of now; what a speaker says may be of a moment ago.
func (n Node) podDown() bool { return n.Pod == nil || n.Pod.Failure != "" || !n.Pod.Ready }

// runs says whether the node's kube-proxy has the step's mode and settings. Only its own word counts where a speaker can ask it.
func (r roll) runs(n Node) bool {
	if n.Pod == nil {
		return false
	}
	restarted := r.fresh(*n.Pod) && r.settled(*n.Pod)
	switch {
	case n.Witness == NoSpeaker:
		return restarted
	case n.Witness == Silent || n.Mode != r.stepMode:
		return false
	case !r.holds(wholeProof):
		return true
	case n.Settings == nil && r.loose(n): // it does not tell its settings, but the kernel tells that strictARP is not among them
		return false
	case n.Settings == nil: // the process before the restart may have reported the same mode: that report proves nothing yet
		return len(r.others()) == 0 || restarted
	}
	return len(r.next.Against(n.Settings, r.open())) == 0
}

// verified says whether the node's kube-proxy runs as asked, has written its rules, and they lead somewhere.
func (r roll) verified(n Node) bool {
	return r.runs(n) && (!r.holds(wholeProof) || !n.unwritten() && !n.Untried && n.Blocked == "" && !r.loose(n))
}

// loose says whether the node answers ARP for addresses that are not its own, although strictARP is asked for.
func (r roll) loose(n Node) bool {
	return len(n.LooseARP) > 0 && r.next.Settings()[PathStrictARP] == "true"
}

// renewed says whether the node's kube-proxy has been made since the last write, and runs as asked.
func (r roll) renewed(n Node) bool { return n.Pod != nil && r.fresh(*n.Pod) && r.verified(n) }

// others are the step's settings besides the mode.
func (r roll) others() []string {
	var all []string
	settings := r.next.Settings()
	for _, p := range r.next.Paths() {
		if p != PathMode {
			all = append(all, fmt.Sprintf("%s: %s", p, cmp.Or(settings[p], `""`)))
		}
	}
	return all
}

// stale says whether the node's kube-proxy is up on the configuration of before, which another restart helps against.
func (r roll) stale(n Node) bool {
	return n.Ready && n.Pod != nil && n.Pod.Failure == "" && r.fresh(*n.Pod) && n.Pod.Created.Sub(r.Written) < staleFor &&
		r.age(*n.Pod) >= staleAfter && n.Witness == Reporting && n.Dated && n.Mode != "" && !r.runs(n)
}

// failure says why a node has been waited for long enough; empty while it has not.
func (r roll) failure(n Node) string {
	switch {
	case n.Pod == nil && r.overdue(n):
		return r.doing(n)
	case n.Pod == nil && !n.Ready && r.restarted(n) && r.missing(n) >= r.deadline():
		return r.doing(n)
	case n.Pod == nil || !r.fresh(*n.Pod) || r.stale(n):
		return ""
	case n.Pod.Failure != "":
		return n.Pod.Failure
	case r.runs(n) && !r.own() && !r.overdue(n): // it did long ago: a speaker that was started anew has yet to say so
		return ""
	case r.age(*n.Pod) >= r.deadline():
		return r.doing(n)
	}
	return ""
}

// stall says what a person should do about a node that was waited for long enough.
func (r roll) stall(n Node, why string) Decision {
	if r.runs(n) && !r.own() {
		return r.hurts(n)
	}
	message := fmt.Sprintf("kube-proxy on %s does not come up in mode %s: %s. No further node is touched. ", n.Name, r.stepMode, why)
	switch {
	case n.Pod == nil:
		message += fmt.Sprintf("`kubectl -n %s describe daemonset %s` tells why no pod is made", Namespace, Name)
	case n.Pod.Failure == "" && n.Ready && n.Witness == Silent:
		message += fmt.Sprintf("See whether the speaker there runs and reaches the API server: `kubectl get pods -A -o wide -l "+
			"app.kubernetes.io/component=speaker`. If it does, `kubectl -n %s delete pod %s` makes it ask again", Namespace, n.Pod.Name)
	case n.Pod.Failure == "" && r.Written.IsZero():
		message = fmt.Sprintf("kube-proxy on %s does not run in mode %s: %s. It is not restarted, because it is not known when config.conf was "+
			"last written; `kubectl -n %s delete pod %s` restarts it", n.Name, r.stepMode, why, Namespace, n.Pod.Name)
	case r.back:
		message += fmt.Sprintf("It is the configuration that worked before: look at the node and at kube-proxy's image; `kubectl -n %s logs %s` tells more",
			Namespace, n.Pod.Name)
	default:
		message += fmt.Sprintf("Set spec.kubeProxy.mode to a mode that this node can run; `kubectl -n %s logs %s` tells more", Namespace, n.Pod.Name)
	}
	return stalled(v1alpha1.ReasonRolloutStalled, message)
}

// doing says what a node in flight is doing.
func (r roll) doing(n Node) string {
	switch {
	case !n.Ready:
		return "the node is not Ready"
	case n.Pod == nil:
		return "its kube-proxy pod is being made"
	case n.Pod.Failure != "":
		return n.Pod.Failure
	case n.Witness == Silent:
		return "its speaker has not reported the mode of the kube-proxy that runs now"
	case n.Witness == NoSpeaker:
		return "its kube-proxy pod is not Ready for long enough yet"
	case n.Mode == "":
		return "its speaker says: " + cmp.Or(n.Says, "kube-proxy does not answer")
	case n.Mode != r.stepMode:
		return "its kube-proxy reports mode " + n.Mode
	case n.Settings != nil && len(r.next.Against(n.Settings, r.open())) > 0:
		return "its kube-proxy runs with other settings (" + describe(r.next.Against(n.Settings, r.open())) + ")"
	case n.Rules == v1alpha1.RulesPending && n.Failures > 0:
		return fmt.Sprintf("its kube-proxy fails to write its rules (%d times so far)", n.Failures)
	case n.Rules == v1alpha1.RulesPending:
		return "its kube-proxy has not written its rules yet"
	case n.Rules == v1alpha1.RulesFailing:
		return fmt.Sprintf("its kube-proxy has written its rules, and fails to since (%d times so far)", n.Failures)
	case n.Blocked != "":
		return "the rules lead nowhere: " + n.Blocked
	case n.Untried:
		return "its speaker has not tried connections through the rules yet"
	case r.loose(n):
		return fmt.Sprintf("it answers ARP on %s for every address of every Service, as net.ipv4.conf.all.arp_ignore is 0 although strictARP is "+
			"true: see what on the node sets it", strings.Join(n.LooseARP, ", "))
	}
	return "its kube-proxy pod is not Ready for long enough yet"
}
