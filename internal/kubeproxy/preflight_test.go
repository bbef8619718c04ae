package kubeproxy

import (
	"testing"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

func TestPreflight(t *testing.T) {
	const (
		trying  = "0 of 2 nodes run mode nftables; trying the new configuration on every node, in a pod of its own: "
		noTable = "ended with exit code 1: can't use the nftables proxier: kernel 5.4 is too old"
	)
	two := asking(config("iptables"), node("a", "iptables", at(-60)), node("b", "iptables", at(-60)))
	ofTwo := []Probe{
		shadow("a", "nftables", config("nftables")), shadow("b", "nftables", config("nftables")),
		survey("a", "iptables", config("iptables")), survey("b", "iptables", config("iptables")),
	}
	cases{
		"every node is asked to show that it can run it, and which rules it has now": {
			two, goingOn(v1alpha1.PhasePreflight, trying+"0 of 4 probes passed").trying(ofTwo...).changing(toNFTables).of(2),
		},
		"nothing is written while one has not": {
			two.probed(ProbePassed, func(p Probe, r *ProbeResult) {
				if p.Node == "b" {
					r.State = ProbeRunning
				}
			}),
			goingOn(v1alpha1.PhasePreflight, trying+"2 of 4 probes passed").trying(ofTwo...).changing(toNFTables).of(2),
		},
		"nothing is written when one cannot, and the end of its log says why": {
			two.probed(ProbePassed, fails("b", noTable+"; choose another mode", "F1 server.go:1] kernel too old\nF1 exit")),
			left(v1alpha1.ReasonPreflightFailed, "0 of 2 nodes run mode nftables; b cannot run it: in mode nftables, "+noTable+
				"; choose another mode (F1 server.go:1] kernel too old | F1 exit). Nothing was written. Mend the node, and it is tried again within "+
				"minutes; or set spec.kubeProxy to what this node can run").
				because("b", v1alpha1.PhasePreflight, "in mode nftables, "+noTable+"; choose another mode (F1 server.go:1] kernel too old | F1 exit)").
				trying(ofTwo...).changing(toNFTables).of(2),
		},
		"a survey that fails holds nothing up": {
			two.probed(ProbePassed, func(p Probe, r *ProbeResult) {
				if p.Kind == ProbeSurvey {
					r.State = ProbeFailed
				}
			}),
			underway(v1alpha1.PhasePreflight, "0 of 2 nodes run mode nftables; writing down what will be changed, and what to go back to").
				records(two.noted().ledger(func(l *Ledger) {
					l.Wrote = []string{digits(config("nftables")), digits(config("iptables"))}
				}).Ledger).changing(toNFTables).of(2),
		},
		"a node that is not Ready is not asked, and is named": {
			asking(config("iptables"), node("a", "iptables", at(-60)), node("b", "iptables", at(-60), notReady)),
			goingOn(v1alpha1.PhasePreflight, trying+"0 of 2 probes passed; not Ready, and tried when they return: b").
				trying(shadow("a", "nftables", config("nftables")), survey("a", "iptables", config("iptables"))).changing(toNFTables).of(2),
		},
		"without any node that is Ready, nothing is known": {
			asking(config("iptables"), node("a", "iptables", at(-60), notReady)),
			goingOn(v1alpha1.PhasePlanned, "0 of 1 nodes run mode nftables; no node is Ready: there is none to try the new configuration on").
				changing(toNFTables).of(1),
		},
		"between iptables and ipvs, both steps are tried before the first is taken": {
			asking(config("iptables"), node("a", "iptables", at(-60))).asksFor("ipvs"),
			goingOn(v1alpha1.PhasePreflight, "0 of 1 nodes run mode nftables on the way to ipvs; trying the new configuration on every node, in a pod "+
				"of its own: 0 of 3 probes passed").trying(shadow("a", "nftables", config("nftables")), shadow("a", "ipvs", config("ipvs")),
				survey("a", "iptables", config("iptables"))).changing(toNFTables).of(1),
		},
		"where that way is closed, the manual one is told": {
			asking(config("iptables"), node("a", "iptables", at(-60))).asksFor("ipvs").probed(ProbePassed, fails("a", noTable, "")),
			left(v1alpha1.ReasonPreflightFailed, "0 of 1 nodes run mode nftables on the way to ipvs; a cannot run it: in mode nftables, "+noTable+
				". Nothing was written. The way from iptables to ipvs and back goes by nftables, because kube-proxy cleans up only there. Mend the "+
				"node; or take the manual way, node by node: drain it, set the mode, reboot it, uncordon it, as the README says; or leave the mode as "+
				"it is in spec.kubeProxy, which asks for ipvs").because("a", v1alpha1.PhasePreflight, "in mode nftables, "+noTable).
				trying(shadow("a", "nftables", config("nftables")), shadow("a", "ipvs", config("ipvs")), survey("a", "iptables", config("iptables"))).
				changing(toNFTables).of(1),
		},
		"a node that comes later shows it before it is restarted": {
			rolling(node("a", "nftables", at(10)), node("b", "iptables", at(-60))).ledger(func(l *Ledger) { l.Attempt.Probed = []string{"a"} }),
			goingOn(v1alpha1.PhaseRolling, "1 of 2 nodes run mode nftables; trying the configuration on b, in a pod of its own").
				trying(shadow("b", "nftables", config("nftables"))).of(2, "a"),
		},
		"also when the change is long done, and its probe is kept until it is restarted": {
			asking(config("nftables"), node("a", "nftables", at(10)), node("b", "iptables", at(-60), announces(1))).settled().probed(ProbePassed),
			goingOn(v1alpha1.PhaseRolling, "1 of 2 nodes run mode nftables; moving the addresses of b to other nodes").away("b").
				trying(shadow("b", "nftables", config("nftables"))).of(2, "a"),
		},
		"one that cannot keeps what it runs": {
			asking(config("nftables"), node("a", "nftables", at(10)), node("b", "iptables", at(-60))).settled().
				probed(ProbePassed, fails("b", noTable, "")),
			left(v1alpha1.ReasonPreflightFailed, "1 of 2 nodes run mode nftables; b cannot run it: in mode nftables, "+noTable+". Its kube-proxy is left "+
				"as it runs. Mend the node, and it is tried again within minutes; or set spec.kubeProxy to what this node can run").
				because("b", v1alpha1.PhasePreflight, "in mode nftables, "+noTable).trying(shadow("b", "nftables", config("nftables"))).of(2, "a"),
		},
	}.test(t)
}
