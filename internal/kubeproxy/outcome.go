package kubeproxy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// inspect proves, after the mode has changed, that the mode before has left nothing in any node's kernel.
func (r roll) inspect() (Decision, bool) {
	if !r.own() || !r.changedMode() || r.stopped() {
		return Decision{}, false
	}
	var p []Probe
	var left, unseen []string
	running := 0
	for _, n := range r.ready() {
		probe := r.searched(n, r.stepMode)
		p = append(p, probe)
		result := r.Probes[probe.Key()]
		switch found := slices.Concat(n.Residue, result.Leftovers); {
		case result.State == ProbeRunning:
			running++
		case len(found) > 0:
			left = append(left, n.Name+": "+strings.Join(found, "; "))
		case result.State == ProbeFailed:
			unseen = append(unseen, n.Name+": "+result.Message)
		}
	}
	switch {
	case running > 0:
		d := goesOn(v1alpha1.PhaseInspecting, fmt.Sprintf("searching every node for what the mode before has left: %d of %d done", len(p)-running, len(p)))
		d.Probes = p
		return d, true
	case len(left) > 0:
		d := residueFound(left)
		d.Probes = p
		return d, true
	case len(unseen) > 0:
		d := stalled(v1alpha1.ReasonRolloutStalled, fmt.Sprintf("it could not be seen whether the mode before has left rules or addresses that can answer "+
			"for Services: %s. It is tried again within minutes", strings.Join(unseen, ". ")))
		d.Probes = p
		return d, true
	}
	return Decision{}, false
}

// residueFound is the decision about nodes on which the mode before has left something.
func residueFound(left []string) Decision {
	return stalled(v1alpha1.ReasonResidueFound, fmt.Sprintf("the mode before has left rules or addresses that can answer for Services: %s. Reboot these "+
		"nodes one by one, and they are searched again", strings.Join(left, ". ")))
}

// residue is what speakers see on nodes whose kube-proxy runs as asked: a node that was away for the inspection may return with it.
func (r roll) residue() []string {
	var left []string
	for _, n := range r.ready() {
		if len(n.Residue) > 0 && r.verified(n) {
			left = append(left, n.Name+": "+strings.Join(n.Residue, "; "))
		}
	}
	return left
}

// changedMode says whether the mode is another than that of the configuration before.
func (r roll) changedMode() bool {
	before := r.Ledger.Attempt.Before
	if r.back || before == nil {
		return true // nodes may have run the mode that failed
	}
	return cmp.Or(before.Settings[PathMode], r.open()) != r.stepMode
}

// complete writes down that a step has reached every node that could be reached.
func (r roll) complete() (Decision, bool) {
	reached := slices.ContainsFunc(r.Nodes, func(n Node) bool { return n.Ready && r.verified(n) })
	if r.stopped() || !reached || r.Ledger.Attempt == nil && (r.Ledger.Applied == r.asked || r.back) {
		return Decision{}, false
	}
	l := r.Ledger.clone()
	switch {
	case r.stepMode != r.mode:
		if !r.own() {
			l.Attempt = r.attempt()
		}
		l.Attempt.Crossed = true
		return record(l, r.phase(), "every node runs nftables: half of the way to "+r.mode), true
	case r.restoring:
		l = Ledger{Good: l.Good}
		l.remember(r.Config)
		return record(l, r.phase(), "kube-proxy has its old settings back"), true
	case r.back:
		l.Refused, l.Attempt, l.Applied = &Refusal{Asked: r.asked, Failed: *l.Attempt.Failed, Back: *l.Attempt.Before}, nil, ""
		return record(l, r.phase(), "all nodes are back"), true
	}
	l.Attempt, l.Refused, l.Applied = nil, nil, r.asked
	l.remember(r.Config)
	return record(l, r.phase(), "every node runs as asked"), true
}

// rest says how kube-proxy stands when there is nothing to do.
func (r roll) rest() Decision {
	g, left := r.groups(), r.residue()
	switch refused := r.Ledger.Refused; {
	case r.stopped() && r.own() && r.stepMode != r.mode:
		return r.paused("every node runs " + r.stepMode + ", half of the way to " + r.mode)
	case r.stopped() && r.own() && r.back:
		return r.paused("every node is back at what worked before")
	case refused != nil && r.back:
		d := stalled(v1alpha1.ReasonRolledBack, fmt.Sprintf("what the spec asks for failed on %s (%s), and every node went back to what worked before. "+
			"It is not tried again as it is: mend the node, then set spec.kubeProxy.rollout.state to Paused and back to Active; or change the spec%s",
			refused.Failed.Node, refused.Failed.Message, r.absent("taken back when they return")))
		d.Failure = &refused.Failed
		return d
	case len(g.stranded) > 0:
		return stalled(v1alpha1.ReasonRolloutStalled, fmt.Sprintf("%s came back in mode %s when the others had gone on to %s by way of nftables: a restart "+
			"of kube-proxy alone would leave the old rules behind. Reboot it, and it starts clean", some(namesOf(g.stranded)), g.stranded[0].Mode, r.mode))
	case len(g.hurt) > 0:
		return r.hurts(g.hurt[0])
	case len(left) > 0:
		return residueFound(left)
	case len(g.gone)+len(g.dark) > 0:
		return Decision{Progress: Underway, Phase: v1alpha1.PhaseIdle, Reason: v1alpha1.ReasonRollingOut,
			Message: "all others are done" + r.absent("updated when they return")}
	}
	return Decision{Progress: Done, Phase: v1alpha1.PhaseIdle, Reason: v1alpha1.ReasonReady, Message: "kube-proxy runs as asked"}
}

// unfit are the nodes that should answer for no address, whatever is decided: their kube-proxy is down, or does not work while a change is
// under way, which may be why.
func (r roll) unfit() []string {
	down := func(n Node) bool { return n.podDown() || r.own() && n.down() }
	return r.leaving(slices.DeleteFunc(r.ready(), func(n Node) bool { return r.verified(n) || !down(n) }))
}

// finish adds to a decision what holds for all: the count of nodes, also in its message, who should answer for no address, and what failed.
func (r roll) finish(d Decision) Decision {
	for _, n := range r.Nodes {
		if r.verified(n) {
			d.Verified = append(d.Verified, n.Name)
		}
	}
	d.Updated, d.Total = len(d.Verified), len(r.Nodes)
	if r.stopped() {
		d.Probes = nil
	}
	d.Away = append(d.Away, r.unfit()...)
	if attempt := r.Ledger.Attempt; d.Failure == nil && r.own() {
		d.Failure = attempt.Failed
	}
	slices.Sort(d.Away)
	d.Away = slices.Compact(d.Away)
	asked := "mode " + r.stepMode
	if r.stepMode != r.mode {
		asked += " on the way to " + r.mode
	} else if others := r.others(); len(others) > 0 {
		asked += " with " + strings.Join(others, ", ")
	}
	d.Message = fmt.Sprintf("%d of %d nodes run %s; %s", d.Updated, d.Total, asked, d.Message)
	return d
}
