package kubeproxy

import (
	"testing"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// failed puts into the ledger that the change is rolled back because of a.
func (f Facts) failed() Facts {
	f = f.ledger(func(l *Ledger) {
		l.Attempt.Failed = &Failure{Node: "a", Phase: v1alpha1.PhaseCanary, Message: crash}
		l.Attempt.Next = ""
	})
	return f
}

// refused puts into the ledger that what is asked was rolled back to iptables.
func (f Facts) refused() Facts {
	asked := f.goal().asked
	return f.ledger(func(l *Ledger) {
		l.Original, l.Touched = rev(config("iptables")), []Path{PathMode}
		l.Refused = &Refusal{Asked: asked, Failed: Failure{Node: "a", Phase: v1alpha1.PhaseCanary, Message: crash}, Back: *rev(config("iptables"))}
	})
}

func TestRollback(t *testing.T) {
	const back = v1alpha1.PhaseRollingBack
	ledgerOf := func(f Facts) Ledger { return f.Ledger }
	crashed := rolling(node("a", "", at(10), crashing), node("b", "iptables", at(-60))).now(12)
	doesNot := "0 of 2 nodes run mode nftables; kube-proxy on a does not come up in mode nftables: "
	returned := asking(config("iptables"), node("a", "iptables", at(610)), node("b", "iptables", at(-60))).now(650).written(at(600))
	cases{
		"a node that fails takes all of them back": {
			crashed,
			underway(back, doesNot+crash+"; all nodes go back").records(ledgerOf(crashed.failed())).because("a", canaryPhase, crash).away("a").of(2),
		},
		"so does one that came to run it by itself and does not work, after as long": {
			rolling(node("a", "nftables", at(-30), blocked, since(300)), node("b", "nftables", at(-30))).now(420),
			underway(back, "1 of 2 nodes run mode nftables; kube-proxy on a does not come up in mode nftables: "+nowhere+"; all nodes go back").
				records(ledgerOf(rolling(node("a", "", at(0)), node("b", "", at(0))).failed().ledger(func(l *Ledger) {
					l.Attempt.Failed.Message = nowhere
				}))).because("a", canaryPhase, nowhere).away("a").of(2, "b"),
		},
		"so does one that died when it was restarted, and does not return": {
			rolling(node("a", "iptables", at(-60), notReady, leaving(10)), node("b", "iptables", at(-60))).now(130),
			underway(back, doesNot+"the node is not Ready; all nodes go back").
				records(ledgerOf(rolling(node("a", "", at(0)), node("b", "", at(0))).failed().ledger(func(l *Ledger) {
					l.Attempt.Failed.Message = "the node is not Ready"
				}))).because("a", canaryPhase, "the node is not Ready").of(2),
		},
		"but not one whose pod was gone before the change, for it has had no part in it": {
			rolling(node("a", "iptables", at(-60), notReady, leaving(-10)), node("b", "iptables", at(-60))).now(130),
			underway(canaryPhase, "0 of 2 nodes run mode nftables; restarting kube-proxy on b").restarts(node("b", "iptables", at(-60))).of(2),
		},
		"so does not one that has just ceased to work: the way may mend": {
			rolling(node("a", "nftables", at(-30), blocked, since(301)), node("b", "nftables", at(-30))).now(420),
			left(v1alpha1.ReasonRolloutStalled, "1 of 2 nodes run mode nftables; kube-proxy on a runs as asked, and "+nowhere+". No further node is "+
				"touched until that is mended; `kubectl -n kube-system logs kube-proxy-a` tells more").because("a", canaryPhase, nowhere).away("a").of(2, "b"),
		},
		"the way back is written down first": {
			crashed.failed(),
			underway(back, "1 of 2 nodes run mode iptables; writing down how to go back").
				records(ledgerOf(crashed.failed().ledger(func(l *Ledger) {
					l.Attempt.Next, l.Attempt.Over = identity(Fields{{PathMode, "iptables"}}), crashed.version()
				}))).changing(Change{"mode", "nftables", "iptables"}).because("a", canaryPhase, crash).away("a").of(2, "b"),
		},
		"then the very document of before is written, without a probe": {
			crashed.failed().ledger(func(l *Ledger) {
				l.Attempt.Next, l.Attempt.Over = identity(Fields{{PathMode, "iptables"}}), crashed.version()
			}),
			underway(back, "1 of 2 nodes run mode iptables; writing mode: nftables → iptables").
				writes(config("iptables"), Change{"mode", "nftables", "iptables"}).because("a", canaryPhase, crash).away("a").of(2, "b"),
		},
		"what failed is restarted": {
			asking(config("iptables"), node("a", "", at(10), crashing), node("b", "iptables", at(-60))).written(at(20)).now(30).failing(),
			underway(back, "1 of 2 nodes run mode iptables; restarting kube-proxy on a").restarts(node("a", "", at(10), crashing)).because("a", canaryPhase, crash).of(2, "b"),
		},
		"when all are back, what was asked is refused": {
			returned.failing().probed(ProbePassed),
			underway(back, "2 of 2 nodes run mode iptables; all nodes are back").records(ledgerOf(returned.refused())).because("a", canaryPhase, crash).of(2, "a", "b"),
		},
		"it is not tried again": {
			returned.refused(),
			left(v1alpha1.ReasonRolledBack, "2 of 2 nodes run mode iptables; what the spec asks for failed on a ("+crash+"), and every node went back to "+
				"what worked before. It is not tried again as it is: mend the node, then set spec.kubeProxy.rollout.state to Paused and back to "+
				"Active; or change the spec").because("a", canaryPhase, crash).of(2, "a", "b"),
		},
		"nodes that are not Ready are named": {
			asking(config("iptables"), node("a", "", at(610), notReady), node("b", "iptables", at(-60))).refused().now(650).written(at(600)),
			left(v1alpha1.ReasonRolledBack, "1 of 2 nodes run mode iptables; what the spec asks for failed on a ("+crash+"), and every node went back to "+
				"what worked before. It is not tried again as it is: mend the node, then set spec.kubeProxy.rollout.state to Paused and back to "+
				"Active; or change the spec; not Ready, and taken back when they return: a").because("a", canaryPhase, crash).of(2, "b"),
		},
		"a person who pauses the rollout may want it tried again": {
			returned.refused().spec(held),
			underway(v1alpha1.PhasePlanned, "2 of 2 nodes run mode iptables; the roll is paused: what was rolled back may be tried again").
				records(ledgerOf(returned.refused().ledger(func(l *Ledger) { l.Refused = nil }))).of(2, "a", "b"),
		},
		"another declaration is another thing": {
			returned.refused().spec(scheduler("rr")),
			underway(v1alpha1.PhasePlanned, "0 of 2 nodes run mode nftables with ipvs.scheduler: rr; the spec has changed: what was rolled back before it "+
				"is forgotten").records(ledgerOf(returned.refused().ledger(func(l *Ledger) { l.Refused = nil }))).of(2),
		},
		"with drift Warn, what others write after it is only told": {
			returned.refused().document(config("nftables")).spec(warned),
			left(v1alpha1.ReasonDrifted, "2 of 2 nodes run mode iptables; somebody has changed config.conf, and spec.kubeProxy.drift is Warn: Enforce "+
				"would write mode: nftables → iptables. Set drift to Enforce, or the spec to what is wanted").
				changing(Change{"mode", "nftables", "iptables"}).of(2, "a", "b"),
		},
	}.test(t)
}

// failing puts the way back into the ledger, as far as config.conf is concerned.
func (f Facts) failing() Facts {
	asked := f.goal()
	f.Ledger.Original, f.Ledger.Touched = rev(config("iptables")), []Path{PathMode}
	f.Ledger.Attempt = &Attempt{Asked: asked.asked, Next: identity(Fields{{PathMode, "iptables"}}), Before: rev(config("iptables")),
		Failed: &Failure{Node: "a", Phase: v1alpha1.PhaseCanary, Message: crash}}
	return f
}

func TestInspection(t *testing.T) {
	all := rolling(node("a", "nftables", at(10)))
	searching := goingOn(v1alpha1.PhaseInspecting, "1 of 1 nodes run mode nftables; searching every node for what the mode before has left: 0 of 1 done").
		trying(survey("a", "nftables", config("nftables"))).of(1, "a")
	cases{
		"every node is searched when the mode has changed": {all, searching},
		"when nothing is left, the configuration is one that works": {
			all.probed(ProbePassed),
			underway(rollPhase, "1 of 1 nodes run mode nftables; every node runs as asked").records(all.ledger(func(l *Ledger) {
				l.Applied, l.Attempt, l.Good = l.Attempt.Asked, nil, []Revision{*rev(config("nftables"))}
			}).Ledger).of(1, "a"),
		},
		"a node that cannot be searched is searched again": {
			all.probed(ProbeFailed, func(_ Probe, r *ProbeResult) { r.Message = "iptables-save is not there" }),
			left(v1alpha1.ReasonRolloutStalled, "1 of 1 nodes run mode nftables; it could not be seen whether the mode before has left rules or addresses "+
				"that can answer for Services: a: iptables-save is not there. It is tried again within minutes").
				trying(survey("a", "nftables", config("nftables"))).of(1, "a"),
		},
		"a node that returns with something that its speaker sees is told of, also when all was done": {
			asking(config("nftables"), node("a", "nftables", at(10), littered)).settled(),
			left(v1alpha1.ReasonResidueFound, "1 of 1 nodes run mode nftables; the mode before has left rules or addresses that can answer for Services: a: "+
				"kube-ipvs0 is there. Reboot these nodes one by one, and they are searched again").of(1, "a"),
		},
		"another setting of the same mode leaves nothing behind": {
			asking(strictText, node("a", "ipvs", at(10), with(PathStrictARP, "true"))).asksFor("ipvs").announcing().attempting(relaxedText),
			underway(rollPhase, "1 of 1 nodes run mode ipvs with ipvs.strictARP: true; every node runs as asked").
				records(asking(strictText).asksFor("ipvs").announcing().attempting(relaxedText).ledger(func(l *Ledger) {
					l.Applied, l.Attempt, l.Good = l.Attempt.Asked, nil, []Revision{*rev(strictText)}
				}).Ledger).of(1, "a"),
		},
	}.test(t)
}

func TestDetour(t *testing.T) {
	half := asking(config("nftables"), node("a", "nftables", at(10))).asksFor("ipvs").attempting(config("iptables")).ledger(func(l *Ledger) {
		l.Attempt.Detour, l.Attempt.Next = true, identity(Fields{{PathMode, "nftables"}})
	})
	crossed := func(l *Ledger) { l.Attempt.Crossed = true }
	onTheWay := "1 of 1 nodes run mode nftables on the way to ipvs; "
	cases{
		"every node is searched at half of the way": {
			half,
			goingOn(v1alpha1.PhaseInspecting, onTheWay+"searching every node for what the mode before has left: 0 of 1 done").
				trying(survey("a", "nftables", config("nftables"))).of(1, "a"),
		},
		"the second half begins when nothing is left": {
			half.probed(ProbePassed),
			underway(rollPhase, onTheWay+"every node runs nftables: half of the way to ipvs").records(half.ledger(crossed).Ledger).of(1, "a"),
		},
		"not while something is": {
			half.probed(ProbePassed, finds("a", "iptables has 9 chains")),
			left(v1alpha1.ReasonResidueFound, onTheWay+"the mode before has left rules or addresses that can answer for Services: a: iptables has 9 "+
				"chains. Reboot these nodes one by one, and they are searched again").trying(survey("a", "nftables", config("nftables"))).of(1, "a"),
		},
		"what the speaker sees counts too": {
			asking(config("nftables"), node("a", "nftables", at(10), littered)).asksFor("ipvs").attempting(config("ipvs")).
				ledger(func(l *Ledger) { l.Attempt.Detour, l.Attempt.Before = true, rev(config("iptables")) }).
				ledger(func(l *Ledger) { l.Attempt.Next = identity(Fields{{PathMode, "nftables"}}) }).probed(ProbePassed),
			left(v1alpha1.ReasonResidueFound, onTheWay+"the mode before has left rules or addresses that can answer for Services: a: kube-ipvs0 is "+
				"there. Reboot these nodes one by one, and they are searched again").trying(survey("a", "nftables", config("nftables"))).of(1, "a"),
		},
		"nor while a node cannot be searched": {
			half.probed(ProbeFailed, func(_ Probe, r *ProbeResult) { r.Message = "iptables-save is not there" }),
			left(v1alpha1.ReasonRolloutStalled, onTheWay+"it could not be seen whether the mode before has left rules or addresses that can answer for "+
				"Services: a: iptables-save is not there. It is tried again within minutes").
				trying(survey("a", "nftables", config("nftables"))).of(1, "a"),
		},
		"where only config.conf names the mode, and somebody has changed it, nobody knows where the way should end": {
			asking(config("ipvs"), node("a", "iptables", at(-60))).asksFor("").announcing().by("kubectl-edit"),
			left(v1alpha1.ReasonDrifted, "0 of 1 nodes run mode ipvs with ipvs.strictARP: true; the field manager kubectl-edit has changed config.conf to "+
				"mode ipvs, and a runs iptables. No node is touched, as a restart of kube-proxy alone would leave the old rules behind. Set "+
				"spec.kubeProxy.mode: ipvs, and all nodes are led there by way of nftables; or iptables, and config.conf is put back").of(1),
		},
		"nor when kube-proxy is to be given back, and its mode was never Lanyard's": {
			asking(config("iptables"), node("a", "ipvs", at(-60))).spec(nil).ledger(func(l *Ledger) {
				l.Original, l.OnDelete, l.Touched = rev(config("ipvs")), v1alpha1.OnDeleteRestore, []Path{PathScheduler}
			}),
			left(v1alpha1.ReasonDrifted, "0 of 1 nodes run mode iptables with ipvs.scheduler: \"\"; somebody has changed config.conf to mode iptables, and "+
				"a runs ipvs. No node is touched, as a restart of kube-proxy alone would leave the old rules behind. Set mode: ipvs there again, or "+
				"reboot the nodes one by one, and it is given back as it was").of(1),
		},
		"a node that comes back in the mode of before has missed the way": {
			asking(config("ipvs"), node("a", "ipvs", at(10)), node("b", "iptables", at(-60))).asksFor("ipvs").settled(),
			left(v1alpha1.ReasonRolloutStalled, "1 of 2 nodes run mode ipvs; b came back in mode iptables when the others had gone on to ipvs by way of "+
				"nftables: a restart of kube-proxy alone would leave the old rules behind. Reboot it, and it starts clean").of(2, "a"),
		},
	}.test(t)
}

func TestRestore(t *testing.T) {
	original := head + "mode: \"\" # ours\n"
	changed := head + "mode: nftables # ours\n"
	given := asking(changed, node("a", "nftables", at(10))).attempting(original).ledger(func(l *Ledger) {
		l.Applied, l.Attempt = l.Attempt.Asked, nil
		l.OnDelete, l.Wrote, l.Good = v1alpha1.OnDeleteRestore, []string{digits(changed)}, []Revision{*rev(changed)}
	}).spec(nil)
	change := Change{"mode", "nftables", `""`}
	asked := "restore-" + identity(Fields{{PathMode, ""}})
	cases{
		"onDelete is written down as soon as it changes": {
			asking(config("nftables"), node("a", "nftables", at(10))).settled().spec(restoring).ledger(func(l *Ledger) { l.Original = rev(original) }),
			underway(v1alpha1.PhasePlanned, "1 of 1 nodes run mode nftables; writing down spec.kubeProxy.onDelete").
				records(asking(config("nftables")).settled().ledger(func(l *Ledger) {
					l.Original, l.OnDelete = rev(original), v1alpha1.OnDeleteRestore
				}).Ledger).of(1, "a"),
		},
		"the old settings are tried first": {
			given,
			goingOn(v1alpha1.PhasePreflight, "0 of 1 nodes run mode iptables; trying the new configuration on every node, in a pod of its own: 0 of 2 "+
				"probes passed").trying(shadow("a", "iptables", original), survey("a", "nftables", changed)).changing(change).of(1),
		},
		"then the very document of before is written": {
			given.ledger(func(l *Ledger) {
				l.Attempt = &Attempt{Asked: asked, Next: identity(Fields{{PathMode, "iptables"}}), Over: given.version()}
			}),
			underway(canaryPhase, "0 of 1 nodes run mode iptables; writing mode: nftables → \"\"").writes(original, change).of(1),
		},
		"of a document that others have changed since, only what Lanyard changed is taken back": {
			given.document(head + "mode: nftables # ours\nclusterCIDR2: theirs\n").ledger(func(l *Ledger) {
				l.Attempt = &Attempt{Asked: asked, Next: identity(Fields{{PathMode, "iptables"}}),
					Over: given.document(head + "mode: nftables # ours\nclusterCIDR2: theirs\n").version()}
			}),
			underway(canaryPhase, "0 of 1 nodes run mode iptables; writing mode: nftables → \"\"").
				writes(head+"mode: \"\" # ours\nclusterCIDR2: theirs\n", change).of(1),
		},
		"what others have written since is left open again as well, where it means the same to this kube-proxy": {
			given.document(head + "mode: iptables # ours\nclusterCIDR2: theirs\n").ledger(func(l *Ledger) {
				l.Wrote = nil
				l.Attempt = &Attempt{Asked: asked, Next: identity(Fields{{PathMode, "iptables"}}),
					Over: given.document(head + "mode: iptables # ours\nclusterCIDR2: theirs\n").version()}
			}),
			underway(canaryPhase, "0 of 1 nodes run mode iptables; writing mode: iptables → \"\"").
				writes(head+"mode: \"\" # ours\nclusterCIDR2: theirs\n", Change{"mode", "iptables", `""`}).of(1),
		},
		"the ledger is closed when every node runs them": {
			asking(original, node("a", "iptables", at(610))).spec(nil).written(at(600)).now(650).ledger(func(l *Ledger) {
				*l = given.Ledger.clone()
				l.Attempt = &Attempt{Asked: asked, Next: identity(Fields{{PathMode, "iptables"}}), Before: rev(changed)}
			}).probed(ProbePassed),
			underway(rollPhase, "1 of 1 nodes run mode iptables; kube-proxy has its old settings back").
				records(Ledger{Good: []Revision{*rev(original), *rev(changed)}}).of(1, "a"),
		},
		"onDelete Keep leaves it as it runs": {
			given.ledger(func(l *Ledger) { l.OnDelete = v1alpha1.OnDeleteKeep }),
			underway(v1alpha1.PhaseIdle, "spec.kubeProxy is absent: kube-proxy stays as it runs now").
				records(Ledger{Good: []Revision{*rev(changed)}}).untouchedOf(0, 1),
		},
	}.test(t)
}
