package kubeproxy

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// cases are facts with the decision that follows from them.
type cases map[string]struct {
	facts Facts
	want  Decision
}

func (all cases) test(t *testing.T) {
	t.Helper()
	for name, tc := range all {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Plan(tc.facts)); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

var (
	toNFTables   = Change{"mode", "iptables", "nftables"}
	strictText   = head + "mode: ipvs\nipvs:\n  strictARP: true\n"
	relaxedText  = head + "mode: ipvs\nipvs:\n  strictARP: false\n"
	strictChange = Change{"ipvs.strictARP", "false", "true"}
)

func notManaged(but string) Decision {
	return Decision{Progress: Done, Phase: v1alpha1.PhaseIdle, Reason: v1alpha1.ReasonNotManaged,
		Message: "spec.kubeProxy is absent: kube-proxy is not touched" + but}
}

// untouchedOf counts the nodes of a kube-proxy that nobody asks to change.
func (d Decision) untouchedOf(updated, total int) Decision {
	d.Updated, d.Total = updated, total
	return d
}

func missing(strictARP, node string) Decision {
	return stuck(v1alpha1.ReasonStrictARPMissing, "ConfigMap kube-system/kube-proxy: config.conf has ipvs.strictARP: "+strictARP+", and kube-proxy "+
		"runs in mode ipvs on "+node+": each such node answers ARP for every announced address. Write `kubeProxy: {}` into the spec, and Lanyard "+
		"sets it and restarts one kube-proxy after the other; or set it to true by hand and run "+
		"`kubectl -n kube-system rollout restart daemonset kube-proxy`")
}

func TestPlanOfAKubeProxyThatIsNotManaged(t *testing.T) {
	cases{
		"without the section, kube-proxy is nobody's business": {
			asking(config("iptables"), node("a", "iptables", at(-60))).spec(nil), notManaged("").untouchedOf(1, 1),
		},
		"ipvs with announcements needs strictARP even so": {
			asking(relaxedText, node("a", "ipvs", at(-60)), node("b", "iptables", at(-60))).spec(nil).announcing(),
			missing("false", "a").untouchedOf(1, 2),
		},
		"what is configured counts where nobody could ask, and an absent field is false": {
			asking(config("ipvs"), node("a", "", at(-60), noSpeaker)).spec(nil).announcing(), missing("(absent)", "a").untouchedOf(0, 1),
		},
		"with strictARP, all is well": {
			asking(strictText, node("a", "ipvs", at(-60))).spec(nil).announcing(), notManaged("").untouchedOf(1, 1),
		},
		"so it is without announcements": {
			asking(relaxedText, node("a", "ipvs", at(-60))).spec(nil), notManaged("").untouchedOf(1, 1),
		},
		"another mode needs no strictARP, whatever is configured since": {
			asking(relaxedText, node("a", "nftables", at(-60))).spec(nil).announcing(), notManaged("").untouchedOf(1, 1),
		},
		"where another installer keeps the configuration, nothing is claimed": {
			Facts{Layout: Layout{Message: "no ConfigMap"}, Nodes: []Node{node("a", "ipvs", at(-60))}, Announcing: true},
			notManaged("; it runs in mode ipvs on a, which needs strictARP where addresses are announced, and Lanyard cannot read whether "+
				"it has it").untouchedOf(1, 1),
		},
		"what was going on is forgotten when the section is removed, and what worked is remembered": {
			rolling(node("a", "nftables", at(10))).spec(nil).ledger(func(l *Ledger) { l.Good = []Revision{*rev(config("iptables"))} }),
			underway(v1alpha1.PhaseIdle, "spec.kubeProxy is absent: kube-proxy stays as it runs now").
				records(Ledger{Good: []Revision{*rev(config("iptables"))}}).untouchedOf(0, 1),
		},
	}.test(t)
}

func TestPlanOfWhatIsRefused(t *testing.T) {
	cases{
		"a layout other than kubeadm's": {
			Facts{Spec: &v1alpha1.KubeProxySpec{}, Layout: Layout{Message: "there is no DaemonSet"}, Nodes: []Node{{Name: "a"}}},
			stuck(v1alpha1.ReasonUnmanagedLayout, "there is no DaemonSet").of(1),
		},
		"a document that cannot be edited": {
			asking("kind: Other", node("a", "iptables", at(-60))),
			stuck(v1alpha1.ReasonInvalidConfiguration, "ConfigMap kube-system/kube-proxy: config.conf is of kind Other, not "+
				"KubeProxyConfiguration: Lanyard edits nothing else, remove spec.kubeProxy").of(1),
		},
		"a mode that is left open, and that no kube-proxy starts with": {
			asking(config("IPVS"), node("a", "ipvs", at(-60))).asksFor(""),
			stuck(v1alpha1.ReasonInvalidConfiguration, "ConfigMap kube-system/kube-proxy: config.conf: mode is IPVS, which kube-proxy "+
				"does not start with: write iptables, ipvs or nftables there, or set spec.kubeProxy.mode").of(1),
		},
		"what the cluster's own kube-proxy would not start with": {
			asking(config("iptables"), node("a", "iptables", at(-60))).spec(scheduler("fastest")),
			left(v1alpha1.ReasonInvalidConfiguration, "0 of 1 nodes run mode nftables with ipvs.scheduler: fastest; spec.kubeProxy.ipvs.scheduler is "+
				"\"fastest\": Linux has no such scheduler, and kube-proxy does not start without its module: write one of rr, wrr, lc, wlc, fo, ovf, "+
				"lblc, lblcr, sh, dh, mh, sed, nq, twos. Nothing was written").
				changing(toNFTables, Change{"ipvs.scheduler", "(absent)", "fastest"}).of(1),
		},
		"an API server behind an address of a pool": {
			asking(config("iptables"), node("a", "iptables", at(-60))).enclosedBy("192.168.1.200 of pool lan"),
			left(v1alpha1.ReasonServerInPool, "0 of 1 nodes run mode nftables; kube-proxy reaches the API server at 192.168.1.200 of pool lan: a "+
				"kube-proxy that starts could not, as nobody has written the rules for that address yet. Set the server in key kubeconfig.conf of "+
				"ConfigMap kube-system/kube-proxy to an address outside the pools, or exclude it from the pool").changing(toNFTables).of(1),
		},
	}.test(t)
}

func TestPlanWrites(t *testing.T) {
	const writing = "writing mode: iptables → nftables"
	cases{
		"what is asked, once the ledger has it": {
			asking(config("iptables"), node("a", "iptables", at(-60)), node("b", "iptables", at(-60))).noted(),
			underway(v1alpha1.PhaseCanary, "0 of 2 nodes run mode nftables; "+writing).writes(config("nftables"), toNFTables).of(2),
		},
		"and not before": {
			asking(config("iptables"), node("a", "iptables", at(-60))).probed(ProbePassed),
			underway(v1alpha1.PhasePreflight, "0 of 1 nodes run mode nftables; writing down what will be changed, and what to go back to").
				records(asking(config("iptables"), node("a", "", at(0))).noted().ledger(func(l *Ledger) {
					l.Wrote = []string{digits(config("nftables")), digits(config("iptables"))}
				}).Ledger).changing(toNFTables).of(1),
		},
		"not when others have written since: all is looked at anew": {
			asking(config("iptables"), node("a", "iptables", at(-60))).noted().written(at(5)),
			goingOn(v1alpha1.PhasePreflight, "0 of 1 nodes run mode nftables; trying the new configuration on every node, in a pod of its own: "+
				"0 of 2 probes passed").changing(toNFTables).of(1).
				trying(shadow("a", "nftables", config("nftables")), survey("a", "iptables", config("iptables"))),
		},
		"not before the speakers have reported, for the roll could not go on": {
			asking(config("iptables"), node("a", "iptables", at(-60)), node("b", "", at(-60), silent, since(481))),
			goingOn(v1alpha1.PhasePlanned, "0 of 2 nodes run mode nftables; before writing mode: iptables → nftables, waiting for b: its speaker has "+
				"not reported the mode of the kube-proxy that runs now").changing(toNFTables).of(2),
		},
		"but a speaker that stays silent does not hold the way back from a mode that broke it": {
			asking(config("iptables"), node("a", "", at(-60), silent, since(480))).noted(),
			underway(v1alpha1.PhaseCanary, "0 of 1 nodes run mode nftables; "+writing).writes(config("nftables"), toNFTables).of(1),
		},
		"nor does a node that is not Ready": {
			asking(config("iptables"), node("a", "", at(-60), silent, notReady)).noted(),
			underway(v1alpha1.PhaseCanary, "0 of 1 nodes run mode nftables; "+writing).writes(config("nftables"), toNFTables).of(1),
		},
		"nothing for a mode that is left open: it is the one that the cluster has": {
			asking(config("null"), node("a", "iptables", at(-60))).asksFor("").settled(),
			done("1 of 1 nodes run mode iptables; kube-proxy runs as asked").of(1, "a"),
		},
		"a declared mode over one that no kube-proxy starts with": {
			asking(config("IPVS"), node("a", "ipvs", at(-60))).asksFor("ipvs").noted(),
			underway(v1alpha1.PhaseCanary, "1 of 1 nodes run mode ipvs; writing mode: IPVS → ipvs").
				writes(config("ipvs"), Change{"mode", "IPVS", "ipvs"}).of(1, "a"),
		},
		"strictARP for ipvs with announcements, also when the mode is left open": {
			asking(relaxedText, node("a", "ipvs", at(-60))).asksFor("").announcing().noted(),
			underway(v1alpha1.PhaseCanary, "0 of 1 nodes run mode ipvs with ipvs.strictARP: true; writing ipvs.strictARP: false → true").
				writes(strictText, strictChange).of(1),
		},
		"no strictARP without announcements": {
			asking(relaxedText, node("a", "ipvs", at(-60))).asksFor("ipvs").settled(),
			done("1 of 1 nodes run mode ipvs; kube-proxy runs as asked").of(1, "a"),
		},
		"strictARP as it is, when ipvs is left": {
			asking(strictText, node("a", "ipvs", at(-60))).announcing().noted(),
			underway(v1alpha1.PhaseCanary, "0 of 1 nodes run mode nftables; writing mode: ipvs → nftables").
				writes(strings.Replace(strictText, "ipvs", "nftables", 1), Change{"mode", "ipvs", "nftables"}).of(1),
		},
	}.test(t)
}

func TestPlanWhilePaused(t *testing.T) {
	const (
		managed = ". Set spec.managementState to Managed to go on"
		active  = ". Set spec.kubeProxy.rollout.state to Active to go on"
	)
	cases{
		"what would be written is said": {
			asking(config("iptables"), node("a", "iptables", at(-60))).paused(),
			onHold("0 of 1 nodes run mode nftables; paused; would write mode: iptables → nftables" + managed).changing(toNFTables).of(1),
		},
		"also when the rollout alone is paused": {
			asking(config("iptables"), node("a", "iptables", at(-60))).spec(held),
			onHold("0 of 1 nodes run mode nftables; paused; would write mode: iptables → nftables" + active).changing(toNFTables).of(1),
		},
		"what would be restarted is said, and nothing is tried": {
			rolling(node("a", "iptables", at(-60))).ledger(func(l *Ledger) { l.Attempt.Probed = nil }).spec(held),
			onHold("0 of 1 nodes run mode nftables; paused; would go on with: trying the configuration on a" + active).of(1),
		},
		"also when all is paused": {
			rolling(node("a", "iptables", at(-60))).paused(),
			onHold("0 of 1 nodes run mode nftables; paused; would go on with: restarting kube-proxy on a" + managed).of(1),
		},
		"a kube-proxy that runs as asked does so": {
			asking(config("nftables"), node("a", "nftables", at(10))).settled().paused(),
			done("1 of 1 nodes run mode nftables; kube-proxy runs as asked").of(1, "a"),
		},
		"half of the way is not all of it": {
			asking(config("iptables"), node("a", "nftables", at(10))).asksFor("ipvs").noted().document(config("nftables")).spec(held).
				ledger(func(l *Ledger) { l.Attempt.Detour = true }),
			onHold("1 of 1 nodes run mode nftables on the way to ipvs; paused; every node runs nftables, half of the way to ipvs"+active).of(1, "a"),
		},
		"a node that fails takes nobody back": {
			rolling(node("a", "", at(10), crashing)).now(12).paused(),
			left(v1alpha1.ReasonRolloutStalled, "0 of 1 nodes run mode nftables; kube-proxy on a does not come up in mode nftables: "+crash+
				". No further node is touched. Set spec.kubeProxy.mode to a mode that this node can run; `kubectl -n kube-system logs kube-proxy-a` "+
				"tells more").because("a", v1alpha1.PhaseCanary, crash).away("a").of(1),
		},
	}.test(t)
}

func TestPlanOfWhatOthersChange(t *testing.T) {
	drifted := asking(config("iptables"), node("a", "nftables", at(10))).settled().by("kubectl-edit")
	worked := func(l *Ledger) { l.Good = []Revision{*rev(config("nftables"))} }
	thrice := func(l *Ledger) { l.Corrections = []time.Time{at(-900), at(60), at(300)} }
	cases{
		"is looked at as any change is": {
			drifted,
			goingOn(v1alpha1.PhasePreflight, "1 of 1 nodes run mode nftables; trying the new configuration on every node, in a pod of its own: "+
				"0 of 2 probes passed").changing(toNFTables).of(1, "a").
				trying(shadow("a", "nftables", config("nftables")), survey("a", "nftables", config("iptables"))),
		},
		"is only told with drift Warn": {
			drifted.spec(warned),
			left(v1alpha1.ReasonDrifted, "1 of 1 nodes run mode nftables; the field manager kubectl-edit has changed config.conf, and "+
				"spec.kubeProxy.drift is Warn: Enforce would write mode: iptables → nftables. Set drift to Enforce, or the spec to what is wanted").
				changing(toNFTables).of(1, "a"),
		},
		"is left to the other writer for a while, when it was written back three times": {
			drifted.ledger(thrice),
			stuck(v1alpha1.ReasonContested, "1 of 1 nodes run mode nftables; the field manager kubectl-edit keeps changing config.conf: it was written "+
				"back 3 times within 30 minutes, and is left alone for a while. Would write mode: iptables → nftables. Find out who it is and stop "+
				"it, or set drift to Warn").waits(5*time.Minute).changing(toNFTables).of(1, "a"),
		},
		"also while it is rolled out": {
			rolling(node("a", "nftables", at(10))).document(config("iptables")).ledger(thrice),
			stuck(v1alpha1.ReasonContested, "1 of 1 nodes run mode nftables; somebody keeps changing config.conf: it was written back 3 times within "+
				"30 minutes, and is left alone for a while. Would write mode: iptables → nftables. Find out who it is and stop it, or set drift to "+
				"Warn").waits(5*time.Minute).changing(toNFTables).of(1, "a"),
		},
		"is written back again when that is long ago": {
			drifted.ledger(thrice).now(2200).ledger(worked).probed(ProbePassed),
			underway(v1alpha1.PhasePreflight, "1 of 1 nodes run mode nftables; the field manager kubectl-edit has changed config.conf; "+
				"writing down what will be changed, and what to go back to").
				records(drifted.noted().ledger(worked).ledger(func(l *Ledger) {
					l.Corrections = []time.Time{at(2200)}
					l.Wrote = []string{digits(config("nftables")), digits(config("iptables"))}
					l.Attempt.Before = nil // what worked is what is asked
				}).Ledger).changing(toNFTables).of(1, "a"),
		},
	}.test(t)
}
