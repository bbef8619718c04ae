package kubeproxy

import (
	"testing"
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// on the canary, and after it.
const (
	canaryPhase = v1alpha1.PhaseCanary
	rollPhase   = v1alpha1.PhaseRolling
)

func TestRollOrder(t *testing.T) {
	a, b := node("a", "iptables", at(-60)), node("b", "iptables", at(-60))
	first := func(name string) Decision {
		return underway(canaryPhase, "0 of 2 nodes run mode nftables; restarting kube-proxy on "+name)
	}
	cases{
		"the first by name is restarted first":          {rolling(b, a), first("a").restarts(a).of(2)},
		"the manager's own node is restarted last":      {rolling(a, b).managerOn("a"), first("b").restarts(b).of(2)},
		"a control plane is restarted after the others": {rolling(node("a", "iptables", at(-60), controlPlane), b), first("b").restarts(b).of(2)},
		"a node that holds addresses is behind one that has none": {
			rolling(node("a", "iptables", at(-60), announces(2)), b), first("b").restarts(b).of(2),
		},
		"a node that is not Ready is left out": {rolling(node("a", "iptables", at(-60), notReady), b), first("b").restarts(b).of(2)},
		"a node that runs the mode already is not restarted": {
			rolling(node("a", "nftables", at(-60)), b),
			underway(canaryPhase, "1 of 2 nodes run mode nftables; restarting kube-proxy on b").restarts(b).of(2, "a"),
		},
		"a node without a kube-proxy comes before those that have one": {
			rolling(a, node("b", "", at(-60), crashing)), first("b").restarts(node("b", "", at(-60), crashing)).of(2),
		},
		"two of them do not wait for each other": {
			rolling(node("a", "", at(-60), crashing), node("b", "", at(-60), crashing)), first("a").restarts(node("a", "", at(-60), crashing)).away("b").of(2),
		},
		"a node whose speaker stays silent has its turn after the others": {
			rolling(node("a", "", at(-60), silent, since(480)), b), first("b").restarts(b).of(2),
		},
		"and it has it: the restart may be what brings its speaker back": {
			rolling(node("a", "", at(-60), silent, since(480)), node("b", "nftables", at(10))),
			underway(rollPhase, "1 of 2 nodes run mode nftables; restarting kube-proxy on a").restarts(node("a", "", at(-60))).of(2, "b"),
		},
		"nodes that are not Ready are named when the others are done": {
			rolling(node("a", "iptables", at(-60), notReady), node("b", "nftables", at(10)), node("c", "", at(10), notReady)).
				ledger(func(l *Ledger) { l.Applied, l.Attempt = l.Attempt.Asked, nil }),
			underway(v1alpha1.PhaseIdle, "1 of 3 nodes run mode nftables; all others are done; not Ready, and updated when they return: a, c").
				of(3, "b"),
		},
		"all run it": {
			asking(config("nftables"), node("a", "nftables", at(10)), node("b", "nftables", at(20))).settled(),
			done("2 of 2 nodes run mode nftables; kube-proxy runs as asked").of(2, "a", "b"),
		},
	}.test(t)
}

// TestRollWaits has facts of which each keeps node b from being restarted.
func TestRollWaits(t *testing.T) {
	b := node("b", "iptables", at(-60))
	waitsFor := func(name, why string) Decision {
		return goingOn(canaryPhase, "0 of 2 nodes run mode nftables; waiting for "+name+": "+why).away(name).of(2)
	}
	notYet := "its kube-proxy pod is not Ready for long enough yet"
	cases{
		"while a pod is being made": {
			rolling(node("a", "iptables", at(-60), noPod), b), waitsFor("a", "its kube-proxy pod is being made"),
		},
		"while kube-proxy does not answer": {
			rolling(node("a", "", at(10), starting), b).now(20), waitsFor("a", "its speaker says: kube-proxy does not answer"),
		},
		"while the old mode is reported": {
			rolling(node("a", "iptables", at(10)), b).now(24), waitsFor("a", "its kube-proxy reports mode iptables"),
		},
		"while the rules are not written": {
			rolling(node("a", "nftables", at(10), withoutRules), b).now(24), waitsFor("a", "its kube-proxy has not written its rules yet"),
		},
		"while writing the rules fails": {
			rolling(node("a", "nftables", at(10), failingRules), b).now(24),
			waitsFor("a", "its kube-proxy fails to write its rules (3 times so far)"),
		},
		"while the rules lead nowhere": {
			rolling(node("a", "nftables", at(10), blocked), b).now(24),
			waitsFor("a", nowhere),
		},
		"until connections through the rules were tried": {
			rolling(node("a", "nftables", at(10), untried), b).now(24),
			waitsFor("a", "its speaker has not tried connections through the rules yet"),
		},
		"when it has written its rules once, and cannot any more": {
			rolling(node("a", "nftables", at(10), rulesEnded), b).now(24),
			waitsFor("a", "its kube-proxy has written its rules, and fails to since (3 times so far)"),
		},
		"where strictARP is asked for, until the kernel has it": {
			asking(strictText, node("a", "ipvs", at(10), with(PathStrictARP, "true"), loose), node("b", "ipvs", at(-60))).asksFor("ipvs").announcing().
				attempting(relaxedText).now(20),
			goingOn(canaryPhase, "0 of 2 nodes run mode ipvs with ipvs.strictARP: true; waiting for a: it answers ARP on eth0 for every address of every "+
				"Service, as net.ipv4.conf.all.arp_ignore is 0 although strictARP is true: see what on the node sets it").away("a").of(2),
		},
		"while a speaker has not reported, wherever it is": {
			rolling(node("a", "iptables", at(-60)), node("b", "iptables", at(-60), silent)),
			goingOn(canaryPhase, "0 of 2 nodes run mode nftables; waiting for b: its speaker has not reported the mode of the kube-proxy that runs now").
				of(2), // its kube-proxy works as it did: nothing moves
		},
		"while a speaker that was started anew has not tried connections yet": {
			asking(config("nftables"), node("a", "nftables", at(10), untried), node("b", "nftables", at(20))).settled(),
			goingOn(rollPhase, "1 of 2 nodes run mode nftables; waiting for a: its speaker has not tried connections through the rules yet").
				of(2, "b"), // nothing moves either
		},
		"also where the manager was started anew a moment ago": {
			asking(config("nftables"), node("a", "nftables", at(10), untried, metAt(599), found), node("b", "nftables", at(20))).settled(),
			goingOn(rollPhase, "1 of 2 nodes run mode nftables; waiting for a: its speaker has not tried connections through the rules yet").
				of(2, "b"),
		},
		"while rules that worked lead nowhere since a moment ago": {
			asking(config("nftables"), node("a", "nftables", at(10), blocked, since(590)), node("b", "nftables", at(20))).settled(),
			goingOn(rollPhase, "1 of 2 nodes run mode nftables; waiting for a: "+nowhere).away("a").of(2, "b"),
		},
		"when the node is not Ready any more: the restart may be why": {
			rolling(node("a", "iptables", at(10), notReady), b).now(40), waitsFor("a", "the node is not Ready"),
		},
		"for a node that died while its kube-proxy was restarted: what is asked may be why": {
			rolling(node("a", "iptables", at(-60), notReady, leaving(10)), b).now(40), waitsFor("a", "the node is not Ready"),
		},
		"a Ready pod is no proof where a speaker can ask": {
			rolling(node("a", "", at(10)), b).now(60), waitsFor("a", "its speaker says: kube-proxy does not answer"),
		},
		"without a speaker, a pod that has just become Ready may still fall over": {
			rolling(node("a", "", at(10), noSpeaker), node("b", "", at(-60), noSpeaker)).now(19), waitsFor("a", notYet),
		},
		"without a speaker, ten seconds of Ready are believed": {
			rolling(node("a", "", at(10), noSpeaker), node("b", "", at(-60), noSpeaker)).now(20),
			underway(rollPhase, "1 of 2 nodes run mode nftables; restarting kube-proxy on b").restarts(node("b", "", at(-60))).of(2, "a"),
		},
		"other settings than the mode are proven too": {
			asking(strictText, node("a", "ipvs", at(10), with(PathStrictARP, "")), node("b", "ipvs", at(-60))).asksFor("ipvs").announcing().
				attempting(relaxedText).now(20),
			goingOn(canaryPhase, "0 of 2 nodes run mode ipvs with ipvs.strictARP: true; waiting for a: its kube-proxy runs with other settings "+
				"(ipvs.strictARP: (absent) → true)").away("a").of(2),
		},
		"where kube-proxy does not tell them, each is restarted, and the report of the process before proves nothing": {
			asking(strictText, node("a", "ipvs", at(10), starting), node("b", "ipvs", at(-60))).asksFor("ipvs").announcing().
				attempting(relaxedText).now(12),
			goingOn(canaryPhase, "0 of 2 nodes run mode ipvs with ipvs.strictARP: true; waiting for a: "+notYet).away("a").of(2),
		},
	}.test(t)
}

func TestRollBudget(t *testing.T) {
	a, c := node("a", "nftables", at(10), verifiedSince(20)), node("c", "iptables", at(-60))
	started := func(name string) Node { return node(name, "", at(598), refusing) }
	cases{
		"one node is restarted at once while none has shown that it works, whatever is allowed": {
			rolling(started("b"), c).spec(unavailable(3)),
			goingOn(canaryPhase, "0 of 2 nodes run mode nftables; waiting for b: its speaker says: kube-proxy does not answer: connection refused").
				away("b").of(2),
		},
		"then as many as are allowed": {
			rolling(a, started("b"), c).spec(unavailable(2)),
			underway(rollPhase, "1 of 3 nodes run mode nftables; restarting kube-proxy on c").restarts(c).away("b").of(3, "a"),
		},
		"and no more": {
			rolling(a, started("b"), c).spec(unavailable(1)),
			goingOn(rollPhase, "1 of 3 nodes run mode nftables; waiting for b: its speaker says: kube-proxy does not answer: connection refused").
				away("b").of(3, "a"),
		},
		"a node that others restarted counts": {
			rolling(a, node("b", "", at(-60), noPod), c),
			goingOn(rollPhase, "1 of 3 nodes run mode nftables; waiting for b: its kube-proxy pod is being made").away("b").of(3, "a"),
		},
		"a node that was verified is stayed with for a while": {
			rolling(node("a", "nftables", at(10), verifiedSince(598)), c).spec(pauseOf(5)),
			goingOn(rollPhase, "1 of 2 nodes run mode nftables; staying with a for 5 s before the next node").of(2, "a"),
		},
		"and not longer": {
			rolling(a, c).spec(pauseOf(5)),
			underway(rollPhase, "1 of 2 nodes run mode nftables; restarting kube-proxy on c").restarts(c).of(2, "a"),
		},
		"a node that is down is not left so for the pause": {
			rolling(node("a", "nftables", at(10), verifiedSince(598)), node("c", "", at(-60), crashing)).spec(pauseOf(5)),
			underway(rollPhase, "1 of 2 nodes run mode nftables; restarting kube-proxy on c").restarts(node("c", "", at(-60), crashing)).of(2, "a"),
		},
	}.test(t)
}

func TestRollMovesAddresses(t *testing.T) {
	a := node("a", "nftables", at(10))
	restarted := func(n Node) Decision {
		return underway(rollPhase, "1 of 2 nodes run mode nftables; restarting kube-proxy on c").restarts(n).of(2, "a")
	}
	moving := goingOn(rollPhase, "1 of 2 nodes run mode nftables; moving the addresses of c to other nodes").away("c").of(2, "a")
	holding := node("c", "iptables", at(-60), announces(2))
	cases{
		"off a node before it is restarted":    {rolling(a, holding), moving},
		"and waits until they are gone":        {rolling(a, node("c", "iptables", at(-60), announces(2), awaySince(595))), moving},
		"it goes on as soon as they are":       {rolling(a, node("c", "iptables", at(-60), awaySince(595))), restarted(holding)},
		"or when nobody takes them in time":    {rolling(a, node("c", "iptables", at(-60), announces(2), awaySince(590))), restarted(holding)},
		"a node that is down has lost its own": {rolling(a, node("c", "", at(-60), announces(2), crashing)), restarted(node("c", "", at(-60), crashing))},
		"where nobody else could take them, they stay": {
			rolling(holding), underway(canaryPhase, "0 of 1 nodes run mode nftables; restarting kube-proxy on c").restarts(holding).of(1),
		},
		"of two that hold some, the one whose addresses are on their way stays the next": {
			rolling(a, node("b", "iptables", at(-60), announces(1)), node("c", "iptables", at(-60), announces(1), awaySince(595))),
			goingOn(rollPhase, "1 of 3 nodes run mode nftables; moving the addresses of c to other nodes").away("c").of(3, "a"),
		},
	}.test(t)
}

func TestRollOnOldContent(t *testing.T) {
	a, b := node("a", "iptables", at(10)), node("b", "iptables", at(-60))
	cases{
		"where kube-proxy does not tell its settings, the kernel tells of strictARP": {
			asking(strictText, node("a", "ipvs", at(10), loose), node("b", "ipvs", at(-60))).asksFor("ipvs").announcing().attempting(relaxedText).now(25),
			underway(canaryPhase, "0 of 2 nodes run mode ipvs with ipvs.strictARP: true; restarting kube-proxy on a again: it started on the old "+
				"configuration").restarts(node("a", "ipvs", at(10))).of(2),
		},
		"a pod that started on it is restarted again": {
			rolling(a, b).now(25),
			underway(canaryPhase, "0 of 2 nodes run mode nftables; restarting kube-proxy on a again: it started on the old configuration").
				restarts(a).of(2),
		},
		"but not when the content can no longer be old": {
			rolling(node("a", "iptables", at(120)), b).now(240).ledger(nothingBefore),
			left(v1alpha1.ReasonRolloutStalled, "0 of 2 nodes run mode nftables; kube-proxy on a does not come up in mode nftables: its kube-proxy "+
				"reports mode iptables. No further node is touched. Set spec.kubeProxy.mode to a mode that this node can run; "+
				"`kubectl -n kube-system logs kube-proxy-a` tells more").because("a", canaryPhase, "its kube-proxy reports mode iptables").of(2),
		},
		"a report without a date may be of the process before: no pod is restarted again for it": {
			rolling(node("a", "iptables", at(10), undated)).now(25),
			goingOn(canaryPhase, "0 of 1 nodes run mode nftables; waiting for a: its kube-proxy reports mode iptables").away("a").of(1),
		},
		"nothing is restarted when it is not known who has read the configuration": {
			rolling(node("a", "iptables", at(-60)), node("b", "nftables", at(-60))).written(time.Time{}).ledger(nothingBefore),
			left(v1alpha1.ReasonRolloutStalled, "1 of 2 nodes run mode nftables; kube-proxy on a does not run in mode nftables: its kube-proxy reports "+
				"mode iptables. It is not restarted, because it is not known when config.conf was last written; "+
				"`kubectl -n kube-system delete pod kube-proxy-a` restarts it").because("a", rollPhase, "its kube-proxy reports mode iptables").
				of(2, "b"),
		},
	}.test(t)
}

func TestRollStalls(t *testing.T) {
	const (
		doesNot  = "0 of 2 nodes run mode nftables; kube-proxy on a does not come up in mode nftables: "
		advice   = ". No further node is touched. Set spec.kubeProxy.mode to a mode that this node can run; `kubectl -n kube-system logs kube-proxy-a` tells more"
		unheard  = "its speaker has not reported the mode of the kube-proxy that runs now"
		refused  = "its speaker says: kube-proxy does not answer: connection refused"
		isMade   = "its kube-proxy pod is being made"
		notReady = "the node is not Ready"
	)
	b := node("b", "iptables", at(-60))
	stalls := func(message, why string) Decision {
		return left(v1alpha1.ReasonRolloutStalled, message).because("a", canaryPhase, why).of(2)
	}
	ofItsSpeaker := ". No further node is touched. See whether the speaker there runs and reaches the API server: `kubectl get pods -A -o wide -l " +
		"app.kubernetes.io/component=speaker`. If it does, `kubectl -n kube-system delete pod kube-proxy-a` makes it ask again"
	cases{
		"at a crash, at once, with its cause": {
			rolling(node("a", "", at(10), crashing), b).now(12).spec(pausing), stalls(doesNot+crash+advice, crash).away("a"),
		},
		"not while it is another clock that says so: the manager has just met the pod": {
			rolling(node("a", "", at(10), refusing, metAt(120)), b).now(130).spec(pausing),
			goingOn(canaryPhase, "0 of 2 nodes run mode nftables; waiting for a: "+refused).away("a").of(2),
		},
		"at a node that stays away after its restart": {
			rolling(node("a", "iptables", at(10), func(n *Node) { n.Ready = false }), b).now(130).spec(pausing), stalls(doesNot+notReady+advice, notReady),
		},
		"at a speaker that says nothing of the new process: it is what to look at": {
			rolling(node("a", "", at(10), silent), b).now(130).spec(pausing),
			stalls(doesNot+unheard+ofItsSpeaker, unheard),
		},
		"not yet where the spec gives nodes more time": {
			rolling(node("a", "", at(10), silent), b).now(609).spec(pausing).spec(deadlineOf(600)),
			goingOn(canaryPhase, "0 of 2 nodes run mode nftables; waiting for a: "+unheard).of(2),
		},
		"after that time": {
			rolling(node("a", "", at(10), silent), b).now(610).spec(pausing).spec(deadlineOf(600)), stalls(doesNot+unheard+ofItsSpeaker, unheard),
		},
		"at a node that never gets a pod": {
			rolling(node("a", "", at(10), noPod, since(480)), b).spec(pausing),
			stalls(doesNot+isMade+". No further node is touched. `kubectl -n kube-system describe daemonset kube-proxy` tells why no pod is made",
				isMade).away("a"),
		},
		"where a kube-proxy that came to run it by itself does not work": {
			rolling(node("a", "nftables", at(-30), blocked), node("b", "nftables", at(-30))).spec(pausing),
			left(v1alpha1.ReasonRolloutStalled, "1 of 2 nodes run mode nftables; kube-proxy on a runs as asked, and "+nowhere+". No further node is "+
				"touched until that is mended; `kubectl -n kube-system logs kube-proxy-a` tells more").because("a", canaryPhase, nowhere).away("a").of(2, "b"),
		},
		"where it has ceased to work long after the change": {
			asking(config("nftables"), node("a", "nftables", at(10), blocked, since(480)), node("b", "nftables", at(20))).settled(),
			left(v1alpha1.ReasonRolloutStalled, "1 of 2 nodes run mode nftables; kube-proxy on a runs as asked, and "+nowhere+". No further node is "+
				"touched until that is mended; `kubectl -n kube-system logs kube-proxy-a` tells more").because("a", rollPhase, nowhere).of(2, "b"),
		},
		"and goes on when the spec asks for what the nodes can run": {
			asking(config("iptables"), node("a", "", at(-30), crashing), b).asksFor("iptables").attempting(config("nftables")).now(1),
			underway(canaryPhase, "1 of 2 nodes run mode iptables; restarting kube-proxy on a").restarts(node("a", "", at(-30), crashing)).of(2, "b"),
		},
	}.test(t)
}
