package kubeproxy

import (
	"fmt"
	"slices"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// trial is a configuration that nodes have to show to run before it is written.
type trial struct{ mode, document, hash string }

func (r roll) trial(mode, document string) trial {
	return trial{mode, document, Hash(document, r.Image)}
}

// on is the probe that makes a node show it.
func (t trial) on(n Node) Probe {
	return Probe{Kind: ProbeShadow, Node: n.Name, Hash: t.hash, Mode: t.mode, Document: t.document}
}

// searched is the probe that lists the rules of a node while config.conf is as it is; mode is the one that runs there.
func (r roll) searched(n Node, mode string) Probe {
	return Probe{Kind: ProbeSurvey, Node: n.Name, Hash: Hash(r.Config.Document, r.Image), Mode: mode}
}

// candidates are the configurations of this step and of those after it, in order. To go back needs no proof.
func (r roll) candidates(edited string) ([]trial, error) {
	all := []trial{r.trial(r.stepMode, edited)}
	if r.stepMode != r.mode {
		last, _, err := Edit(edited, r.want)
		if err != nil {
			return nil, err
		}
		all = append(all, r.trial(r.mode, last))
	}
	return all, nil
}

// preflight has every node show that it can run what is about to be written, all steps of it. Nothing is written while one cannot.
func (r roll) preflight(edited string, _ []Change) (Decision, bool) {
	if !r.holds(probeFirst) || r.back || r.noted() {
		return Decision{}, false
	}
	candidates, err := r.candidates(edited)
	if err != nil {
		return r.invalid(err), true
	}
	p := r.probe(candidates, r.ready()).survey(r)
	switch {
	case len(r.ready()) == 0:
		return goesOn(v1alpha1.PhasePlanned, "no node is Ready: there is none to try the new configuration on"), true
	case p.failed != nil:
		d := stalled(v1alpha1.ReasonPreflightFailed, fmt.Sprintf("%s cannot run it: %s. Nothing was written. %s", p.failed.Node, p.failed.Message,
			r.remedy()))
		d.Probes, d.Failure = p.probes, p.failed
		return d, true
	case p.passed < len(p.probes):
		d := goesOn(v1alpha1.PhasePreflight, fmt.Sprintf("trying the new configuration on every node, in a pod of its own: %d of %d probes passed%s",
			p.passed, len(p.probes), r.absent("tried when they return")))
		d.Probes = p.probes
		return d, true
	}
	return Decision{}, false
}

// remedy says what to do about a node that cannot run the mode.
func (r roll) remedy() string {
	if r.stepMode != r.mode {
		return fmt.Sprintf("The way from iptables to ipvs and back goes by nftables, because kube-proxy cleans up only there. Mend the node; or take "+
			"the manual way, node by node: drain it, set the mode, reboot it, uncordon it, as the README says; or leave the mode as it is in "+
			"spec.kubeProxy, which asks for %s", r.mode)
	}
	return "Mend the node, and it is tried again within minutes; or set spec.kubeProxy to what this node can run"
}

// probing is how far the probes of some nodes are.
type probing struct {
	probes []Probe
	passed int
	failed *Failure
}

// probe asks nodes to show that they can run configurations.
func (r roll) probe(candidates []trial, nodes []Node) probing {
	var p probing
	for _, n := range nodes {
		for _, c := range candidates {
			probe := c.on(n)
			p.probes = append(p.probes, probe)
			switch result := r.Probes[probe.Key()]; {
			case result.State == ProbePassed:
				p.passed++
			case result.State == ProbeFailed && p.failed == nil:
				p.failed = &Failure{Node: n.Name, Phase: v1alpha1.PhasePreflight, Message: inMode(c.mode, result)}
			}
		}
	}
	return p
}

func inMode(mode string, result ProbeResult) string {
	message := "in mode " + mode + ", " + result.Message
	if result.LogTail != "" {
		message += " (" + result.OneLineTail() + ")"
	}
	return message
}

// survey adds a look at the rules that each node has now: what a shadow cannot see there is told as a warning, and holds nothing up.
func (p probing) survey(r roll) probing {
	for _, n := range r.ready() {
		probe := r.searched(n, n.Mode)
		p.probes = append(p.probes, probe)
		if r.Probes[probe.Key()].State != ProbeRunning {
			p.passed++
		}
	}
	return p
}

// passed are the nodes that may run a configuration without further proof.
func (r roll) passed(document string) []string {
	var names []string
	for _, n := range r.ready() {
		if r.proven(n, document) {
			names = append(names, n.Name)
		}
	}
	return names
}

// proven says whether a node has shown that it can run a configuration, or runs what ran before.
func (r roll) proven(n Node, document string) bool {
	key := r.trial(r.stepMode, document).on(n).Key()
	return !r.holds(probeFirst) || r.back || r.listed(n) || r.Probes[key].State == ProbePassed
}

// listed says whether the ledger has it that a node can run this step.
func (r roll) listed(n Node) bool {
	return r.stepped() && slices.Contains(r.Ledger.Attempt.Probed, n.Name)
}

// absent names the nodes that are not Ready, and what becomes of them; it is empty when all are.
func (r roll) absent(becomes string) string {
	names := namesOf(slices.DeleteFunc(slices.Clone(r.Nodes), func(n Node) bool { return n.Ready }))
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "; not Ready, and " + becomes + ": " + some(names)
}

func (r roll) ready() []Node {
	return slices.DeleteFunc(slices.Clone(r.Nodes), func(n Node) bool { return !n.Ready })
}
