package kubeproxy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// groups are the nodes that do not run as asked, by what is to be done about them.
type groups struct {
	// flying were restarted, by whomever, and have not shown yet that they run as asked.
	flying []Node
	// dark were restarted and are not Ready since.
	dark []Node
	// pending are to be restarted.
	pending []Node
	// unproven are to be restarted once they have shown that they can run it.
	unproven []Node
	// stranded run the mode from before the way by nftables, which they have missed.
	stranded []Node
	// hurt run as asked, but something is wrong that a restart does not mend.
	hurt []Node
	// gone are not Ready, and were not restarted.
	gone []Node
}

func (r roll) groups() groups {
	var g groups
	for _, n := range r.Nodes {
		switch {
		case r.verified(n):
		case !n.Ready && r.restarted(n):
			g.dark = append(g.dark, n)
		case !n.Ready: // its turn comes when it returns
			g.gone = append(g.gone, n)
		case r.holds(byNFTables) && r.arrived(r.goal) && opposite(n.Mode, r.stepMode):
			g.stranded = append(g.stranded, n)
		case r.stale(n) && !r.proven(n, r.Config.Document):
			g.unproven = append(g.unproven, n)
		case n.Pod == nil, r.fresh(*n.Pod), r.awaited(n):
			g.flying = append(g.flying, n)
		case r.runs(n):
			g.hurt = append(g.hurt, n)
		case !r.proven(n, r.Config.Document):
			g.unproven = append(g.unproven, n)
		default:
			g.pending = append(g.pending, n)
		}
	}
	return g
}

// nodes restarts one kube-proxy after the other, once config.conf says what it should.
func (r roll) nodes() (Decision, bool) {
	if r.own() && r.Ledger.Attempt.Over != "" && !r.stopped() {
		l := r.Ledger.clone()
		l.Attempt.Over = ""
		return record(l, r.phase(), "config.conf is written"), true
	}
	g := r.groups()
	restarts := len(g.pending)+len(g.unproven) > 0
	if (restarts || len(g.flying) > 0) && r.adopts() {
		return r.writeDown(r.Config.Document, nil)
	}
	if restarts || slices.ContainsFunc(g.flying, r.stale) { // the restart may be why a node is not Ready any more: no other is put at risk
		g.flying = append(g.flying, g.dark...)
	}
	if i := slices.IndexFunc(g.flying, func(n Node) bool { return r.failure(n) != "" }); i >= 0 {
		return r.fail(g.flying[i], r.failure(g.flying[i])), true
	}
	if i := slices.IndexFunc(g.hurt, r.overdue); i >= 0 && r.rollsBack() {
		return r.fail(g.hurt[i], r.doing(g.hurt[i])), true
	}
	shown := r.probe([]trial{r.trial(r.stepMode, r.Config.Document)}, g.unproven)
	if i := slices.IndexFunc(g.unproven, func(n Node) bool { return shown.failed != nil && n.Name == shown.failed.Node && n.down() }); i >= 0 {
		d := r.fail(g.unproven[i], shown.failed.Message) // it came back, and started on what it cannot run
		d.Probes = shown.probes
		return d, true
	}
	if d, ends := r.shown(g); ends {
		return d, true
	}
	d, ends := r.step(g, shown)
	d.Probes = append(d.Probes, slices.Concat(shown.probes, r.keep(slices.Concat(g.pending, g.flying)))...)
	return d, ends
}

// adopts says whether config.conf says what is asked without Lanyard having written it: that can be taken back even so.
func (r roll) adopts() bool {
	again := r.Ledger.Attempt == nil && r.Ledger.Applied == r.asked
	return !r.stopped() && !r.back && !r.stepped() && !again
}

// keep are the probes of nodes that wait for their restart, where nothing but a probe's result says that they can run it.
func (r roll) keep(waiting []Node) []Probe {
	current := r.trial(r.stepMode, r.Config.Document)
	var p []Probe
	for _, n := range waiting {
		probe := current.on(n)
		if !r.listed(n) && r.holds(probeFirst) && !r.back && r.Probes[probe.Key()].State == ProbePassed {
			p = append(p, probe)
		}
	}
	return p
}

// shown writes down which nodes have shown by now that they can run it, so that it is known when their probes are gone.
func (r roll) shown(g groups) (Decision, bool) {
	if !r.own() || r.back || r.stopped() || !r.holds(probeFirst) {
		return Decision{}, false
	}
	l := r.Ledger.clone()
	for _, n := range g.pending {
		if !slices.Contains(l.Attempt.Probed, n.Name) {
			l.Attempt.Probed = append(l.Attempt.Probed, n.Name)
		}
	}
	if len(l.Attempt.Probed) == len(r.Ledger.Attempt.Probed) {
		return Decision{}, false
	}
	return record(l, r.phase(), "more nodes have shown that they can run it"), true
}

// step is what is done about the nodes now.
func (r roll) step(g groups, shown probing) (Decision, bool) {
	stale := slices.DeleteFunc(slices.Clone(g.flying), func(n Node) bool { return !r.stale(n) })
	if len(stale) > 0 && len(stale) == len(g.flying) { // they work, in the mode of before: the first to go is the next again
		slices.SortStableFunc(stale, func(a, b Node) int { return a.Pod.Created.Compare(b.Pod.Created) })
		g.flying, g.pending = nil, append(stale, g.pending...)
	}
	g.pending = r.turns(g.pending)
	switch {
	case r.stopped() && len(g.flying)+len(g.pending)+len(g.unproven) > 0:
		return r.wouldGoOn(g), true
	case len(g.pending) > 0:
		return r.nextNode(g), true
	case len(g.flying) > 0:
		return r.waitFor(g.flying), true
	case shown.failed != nil:
		d := stalled(v1alpha1.ReasonPreflightFailed, fmt.Sprintf("%s cannot run it: %s. Its kube-proxy is left as it runs. %s",
			shown.failed.Node, shown.failed.Message, r.remedy()))
		d.Failure = shown.failed
		return d, true
	case len(g.unproven) > 0:
		return goesOn(r.phase(), "trying the configuration on "+some(namesOf(g.unproven))+", in a pod of its own"), true
	case len(g.hurt) > 0 && r.own():
		return r.hurts(g.hurt[0]), true
	}
	return Decision{}, false
}

// turns puts first the nodes that are down, for to restart them takes nothing from anybody, and of the others those whose addresses have
// gone elsewhere for it already.
func (r roll) turns(pending []Node) []Node {
	rank := func(n Node) int {
		switch {
		case n.podDown() && r.holds(mendFirst):
			return 0
		case n.down() && r.holds(mendFirst):
			return 1
		case !n.Away.IsZero():
			return 2
		}
		return 3
	}
	return slices.SortedStableFunc(slices.Values(pending), func(a, b Node) int { return cmp.Compare(rank(a), rank(b)) })
}

// wouldGoOn says what a paused roll would do next.
func (r roll) wouldGoOn(g groups) Decision {
	would := r.waitFor(g.flying).Message
	if len(g.pending) > 0 {
		would = "restarting kube-proxy on " + g.pending[0].Name
	} else if len(g.flying) == 0 {
		would = "trying the configuration on " + some(namesOf(g.unproven))
	}
	return r.paused("would go on with: " + would)
}

// stopped says whether nothing is to be done now.
func (r roll) stopped() bool { return r.Paused || r.held() }

// nextNode restarts the next node, when not too many are without a verified kube-proxy already.
func (r roll) nextNode(g groups) Decision {
	n := g.pending[0]
	if out := r.out(g); r.holds(oneAtATime) && len(out) >= r.limit() {
		return r.waitFor(out)
	}
	if left, verified := r.pauseLeft(); left > 0 && !n.down() {
		d := goesOn(r.phase(), fmt.Sprintf("staying with %s for %d s before the next node", verified, int(r.pauseTime().Seconds())))
		d.After = min(left, lookAgain)
		return d
	}
	if r.announcing(n) {
		d := goesOn(r.phase(), fmt.Sprintf("moving the addresses of %s to other nodes", n.Name))
		d.Away = append(r.leaving(g.flying), n.Name)
		return d
	}
	message := "restarting kube-proxy on " + n.Name
	if r.stale(n) {
		message += " again: it started on the old configuration"
	}
	return Decision{Action: Restart, Restart: n.Pod, Away: append(r.leaving(g.flying), n.Name), After: lookAgain, Progress: Underway,
		Phase: r.phase(), Reason: v1alpha1.ReasonRollingOut, Message: message}
}

// out are the nodes besides the next one that are without a kube-proxy that works as asked, or in the way that they did before. A node
// whose pod is down does not wait for others that wait as it does; what its speaker says of it may be of a moment ago.
func (r roll) out(g groups) []Node {
	out := append(slices.Clone(g.flying), g.hurt...)
	if g.pending[0].podDown() {
		return out
	}
	for _, other := range slices.Concat(g.pending[1:], g.unproven) {
		if other.down() && r.holds(countUnplanned) {
			out = append(out, other)
		}
	}
	return out
}

// limit is how many nodes may be without a verified kube-proxy at once: one until one has shown that the configuration works.
func (r roll) limit() int {
	canary := slices.ContainsFunc(r.Nodes, r.renewed)
	if r.Spec == nil || r.holds(canaryFirst) && !canary {
		return 1
	}
	return max(1, int(r.Spec.Rollout.MaxUnavailable))
}

// announcing says whether the node still answers for addresses that others may take over before its kube-proxy goes.
func (r roll) announcing(n Node) bool {
	others := slices.ContainsFunc(r.Nodes, func(o Node) bool { return o.Ready && o.Name != n.Name })
	return others && n.Announces > 0 && !n.down() && (n.Away.IsZero() || r.Now.Sub(n.Away) < awayWithin)
}

func (r roll) pauseTime() time.Duration {
	if r.Spec == nil || r.Spec.Rollout.PauseSeconds == nil {
		return 0
	}
	return time.Duration(*r.Spec.Rollout.PauseSeconds) * time.Second
}

// deadline is how long a restarted kube-proxy may take until its node reports that it runs as asked, and how long a node may lack a pod or a
// report.
func (r roll) deadline() time.Duration { return Deadline(r.Spec) }

// Deadline is how long each step on a node may take.
func Deadline(spec *v1alpha1.KubeProxySpec) time.Duration {
	if spec == nil || spec.Rollout.ProgressDeadlineSeconds == nil {
		return progressDeadline
	}
	return time.Duration(*spec.Rollout.ProgressDeadlineSeconds) * time.Second
}

// pauseLeft is how long the node that was verified last has to stay so before the next is restarted.
func (r roll) pauseLeft() (left time.Duration, node string) {
	for _, n := range r.Nodes {
		if !r.renewed(n) {
			continue
		}
		rest := r.pauseTime()
		if !n.Verified.IsZero() {
			rest -= r.Now.Sub(n.Verified)
		}
		if rest > left {
			left, node = rest, n.Name
		}
	}
	return left, node
}

// waitFor waits for the first of some nodes.
func (r roll) waitFor(nodes []Node) Decision {
	if len(nodes) == 0 {
		return goesOn(r.phase(), "")
	}
	if n := nodes[0]; r.runs(n) && n.Pod != nil && !r.fresh(*n.Pod) && n.Ready {
		return r.hurts(n)
	}
	d := goesOn(r.phase(), "waiting for "+nodes[0].Name+": "+r.doing(nodes[0]))
	d.Away = r.leaving(nodes)
	return d
}

// leaving are those of the nodes whose addresses others should answer for. One whose pod has been up for a while, and whose speaker has yet to
// say how it runs, or to try connections while no change is under way, is as good as it was: its speaker was started anew, which is no reason
// to move anything.
func (r roll) leaving(nodes []Node) []string {
	return namesOf(slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool {
		unheard := n.Witness == Silent || n.Untried && !n.down() && !r.own()
		return unheard && n.Ready && n.Pod != nil && r.settled(*n.Pod)
	}))
}

// hurts says what is wrong on a node whose kube-proxy runs as asked.
func (r roll) hurts(n Node) Decision {
	d := stalled(v1alpha1.ReasonRolloutStalled, fmt.Sprintf("kube-proxy on %s runs as asked, and %s. No further node is touched until that is mended; "+
		"`kubectl -n %s logs %s` tells more", n.Name, r.doing(n), Namespace, n.Pod.Name))
	d.Failure = &Failure{Node: n.Name, Phase: r.phase(), Message: r.doing(n)}
	return d
}

// phase is what the roll is at.
func (r roll) phase() v1alpha1.KubeProxyPhase {
	switch {
	case r.back:
		return v1alpha1.PhaseRollingBack
	case r.own() && !slices.ContainsFunc(r.Nodes, r.renewed):
		return v1alpha1.PhaseCanary
	}
	return v1alpha1.PhaseRolling
}

// fail ends the change because of a node: all go back, where there is something to go back to.
func (r roll) fail(n Node, why string) Decision {
	failure := Failure{Node: n.Name, Phase: r.phase(), Message: why}
	if !r.rollsBack() {
		d := r.stall(n, why)
		d.Failure = &failure
		return d
	}
	l := r.Ledger.clone()
	l.Attempt.Failed = &failure
	l.Attempt.Detour, l.Attempt.Crossed, l.Attempt.Next, l.Attempt.Over = false, false, "", ""
	d := record(l, v1alpha1.PhaseRollingBack, fmt.Sprintf("kube-proxy on %s does not come up in mode %s: %s; all nodes go back", n.Name, r.stepMode, why))
	d.Failure = &failure
	return d
}

// rollsBack says whether a failure takes all nodes back.
func (r roll) rollsBack() bool {
	attempt := r.Ledger.Attempt
	return r.own() && attempt.Failed == nil && attempt.Before != nil && r.Spec != nil && !r.stopped() && r.holds(rollBack) &&
		cmp.Or(r.Spec.Rollout.OnFailure, v1alpha1.FailureRollback) == v1alpha1.FailureRollback
}

func namesOf(nodes []Node) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return all
}
