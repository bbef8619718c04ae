package kubeproxy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// asking are the facts ten minutes after config.conf was written, while the spec asks for nftables and an attempt at it is under way.
func asking(mode string, nodes ...Node) Facts {
	f := Facts{Spec: &v1alpha1.KubeProxySpec{Mode: v1alpha1.ProxyModeNFTables}, Layout: Layout{Managed: true}, Config: ReadConfig(config(mode)),
		Image: "kube-proxy:v1.36.3", Written: at(0), Now: at(600), Nodes: nodes}
	before := ReadConfig(config("iptables"))
	want := f.goal()
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	f.Ledger = Ledger{Original: before.revision(), Good: []Revision{*before.revision()}, Touched: []Path{PathMode},
		Attempt: &Attempt{Asked: want.asked, Next: identity(want.next), Before: before.revision(), Probed: names}}
	return f
}

func (f Facts) now(second int) Facts { f.Now = at(second); return f }
func (f Facts) begun() Facts         { f.Ledger = Ledger{}; return f }
func (f Facts) showing(state ProbeState, message string) Facts {
	f.Probes = map[ProbeKey]ProbeResult{}
	edited, _, _ := Edit(f.Config.Document, f.goal().next)
	for _, n := range f.Nodes {
		for _, p := range []Probe{{Kind: ProbeShadow, Node: n.Name, Hash: Hash(edited, f.Image)}, {Kind: ProbeSurvey, Node: n.Name, Hash: Hash(f.Config.Document, f.Image)}} {
			f.Probes[p.Key()] = ProbeResult{Key: p.Key(), State: state, Message: message}
		}
	}
	return f
}

// step is what a decision does and says, in short.
type step struct {
	Action   Action
	Restart  string
	Progress Progress
	Phase    v1alpha1.KubeProxyPhase
	Reason   string
	Message  string
}

func TestPlan(t *testing.T) {
	old := func(name string, but ...func(*Node)) Node { return node(name, "iptables", at(-60), but...) }
	renewed := func(name, mode string, but ...func(*Node)) Node { return node(name, mode, at(10), but...) }
	away := func(n *Node) { n.Announces = 1 }
	const advice = ". No further node is touched. Set spec.kubeProxy.mode to a mode that this node can run; " +
		"`kubectl -n kube-system logs kube-proxy-a` tells more"
	noWayBack := func(f Facts) Facts { f.Ledger.Attempt.Before = nil; return f }
	for name, tc := range map[string]struct {
		facts Facts
		want  step
	}{
		"nothing is written before every node has tried it": {
			facts: asking("iptables", old("a"), old("b")).begun(),
			want: step{Action: Wait, Progress: Underway, Phase: v1alpha1.PhasePreflight, Reason: v1alpha1.ReasonRollingOut,
				Message: "0 of 2 nodes run mode nftables; trying the new configuration on every node, in a pod of its own: 0 of 4 probes passed"},
		},
		"one node that cannot run it, and nothing is written": {
			facts: asking("iptables", old("a"), old("b")).begun().showing(ProbeFailed, "the kernel is too old"),
			want: step{Action: Wait, Progress: Stuck, Phase: v1alpha1.PhaseStalled, Reason: v1alpha1.ReasonPreflightFailed,
				Message: "0 of 2 nodes run mode nftables; a cannot run it: in mode nftables, the kernel is too old. Nothing was written. Mend the node, and " +
					"it is tried again within minutes; or set spec.kubeProxy to what this node can run"},
		},
		"what is about to be written is written down first": {
			facts: asking("iptables", old("a")).begun().showing(ProbePassed, ""),
			want: step{Action: Record, Progress: Underway, Phase: v1alpha1.PhasePreflight, Reason: v1alpha1.ReasonRollingOut,
				Message: "0 of 1 nodes run mode nftables; writing down what will be changed, and what to go back to"},
		},
		"nothing is written while a speaker may still report": {
			facts: asking("iptables", old("a"), old("b", silent, since(481))).begun(),
			want: step{Action: Wait, Progress: Underway, Phase: v1alpha1.PhasePlanned, Reason: v1alpha1.ReasonRollingOut,
				Message: "0 of 2 nodes run mode nftables; before writing mode: iptables → nftables, waiting for b: its speaker has not reported the mode " +
					"of the kube-proxy that runs now"},
		},
		"the first by name is restarted first": {
			facts: asking("nftables", old("b"), old("a")),
			want: step{Action: Restart, Restart: "kube-proxy-a", Progress: Underway, Phase: v1alpha1.PhaseCanary, Reason: v1alpha1.ReasonRollingOut,
				Message: "0 of 2 nodes run mode nftables; restarting kube-proxy on a"},
		},
		"a node that holds an address comes later": {
			facts: asking("nftables", old("a", away), old("b")),
			want: step{Action: Restart, Restart: "kube-proxy-b", Progress: Underway, Phase: v1alpha1.PhaseCanary, Reason: v1alpha1.ReasonRollingOut,
				Message: "0 of 2 nodes run mode nftables; restarting kube-proxy on b"},
		},
		"and its addresses leave it first": {
			facts: asking("nftables", old("a", away), renewed("b", "nftables")),
			want: step{Action: Wait, Progress: Underway, Phase: v1alpha1.PhaseRolling, Reason: v1alpha1.ReasonRollingOut,
				Message: "1 of 2 nodes run mode nftables; moving the addresses of a to other nodes"},
		},
		"the next waits while a pod is being made": {
			facts: asking("nftables", old("a", noPod), old("b")),
			want: step{Action: Wait, Progress: Underway, Phase: v1alpha1.PhaseCanary, Reason: v1alpha1.ReasonRollingOut,
				Message: "0 of 2 nodes run mode nftables; waiting for a: its kube-proxy pod is being made"},
		},
		"the next waits while kube-proxy does not answer": {
			facts: asking("nftables", renewed("a", "nftables", refusing, starting), old("b")).now(20),
			want: step{Action: Wait, Progress: Underway, Phase: v1alpha1.PhaseCanary, Reason: v1alpha1.ReasonRollingOut,
				Message: "0 of 2 nodes run mode nftables; waiting for a: its speaker says: kube-proxy does not answer: connection refused"},
		},
		"without a speaker, ten seconds of Ready are believed": {
			facts: asking("nftables", renewed("a", "", noSpeaker), node("b", "", at(-60), noSpeaker)).now(20),
			want: step{Action: Restart, Restart: "kube-proxy-b", Progress: Underway, Phase: v1alpha1.PhaseRolling, Reason: v1alpha1.ReasonRollingOut,
				Message: "1 of 2 nodes run mode nftables; restarting kube-proxy on b"},
		},
		"a pod that started on the old content of the ConfigMap is restarted again": {
			facts: asking("nftables", renewed("a", "iptables"), old("b")).now(25),
			want: step{Action: Restart, Restart: "kube-proxy-a", Progress: Underway, Phase: v1alpha1.PhaseCanary, Reason: v1alpha1.ReasonRollingOut,
				Message: "0 of 2 nodes run mode nftables; restarting kube-proxy on a again: it started on the old configuration"},
		},
		"a report without a date may be of the process before: no pod is restarted again for it": {
			facts: asking("nftables", renewed("a", "iptables", undated)).now(25),
			want: step{Action: Wait, Progress: Underway, Phase: v1alpha1.PhaseCanary, Reason: v1alpha1.ReasonRollingOut,
				Message: "0 of 1 nodes run mode nftables; waiting for a: its kube-proxy reports mode iptables"},
		},
		"a crash takes all back": {
			facts: asking("nftables", renewed("a", "", crashing), old("b")).now(12),
			want: step{Action: Record, Progress: Underway, Phase: v1alpha1.PhaseRollingBack, Reason: v1alpha1.ReasonRollingOut,
				Message: "0 of 2 nodes run mode nftables; kube-proxy on a does not come up in mode nftables: CrashLoopBackOff, exit code 1: can't use " +
					"the nftables proxier: kernel 5.4 is too old; all nodes go back"},
		},
		"a crash stops the roll where there is nothing to go back to": {
			facts: noWayBack(asking("nftables", renewed("a", "", crashing), old("b"))).now(12),
			want: step{Action: Wait, Progress: Stuck, Phase: v1alpha1.PhaseStalled, Reason: v1alpha1.ReasonRolloutStalled,
				Message: "0 of 2 nodes run mode nftables; kube-proxy on a does not come up in mode nftables: CrashLoopBackOff, exit code 1: can't use " +
					"the nftables proxier: kernel 5.4 is too old" + advice},
		},
		"a node that stays away after its restart takes all back": {
			facts: asking("nftables", renewed("a", "iptables", notReady), old("b")).now(130),
			want: step{Action: Record, Progress: Underway, Phase: v1alpha1.PhaseRollingBack, Reason: v1alpha1.ReasonRollingOut,
				Message: "0 of 2 nodes run mode nftables; kube-proxy on a does not come up in mode nftables: the node is not Ready; all nodes go back"},
		},
		"when all run it, the nodes are searched": {
			facts: asking("nftables", renewed("a", "nftables")),
			want: step{Action: Wait, Progress: Underway, Phase: v1alpha1.PhaseInspecting, Reason: v1alpha1.ReasonRollingOut,
				Message: "1 of 1 nodes run mode nftables; searching every node for what the mode before has left: 0 of 1 done"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := Plan(tc.facts)
			got := step{Action: d.Action, Progress: d.Progress, Phase: d.Phase, Reason: d.Reason, Message: d.Message}
			if d.Restart != nil {
				got.Restart = d.Restart.Name
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if d.Action == Wait && d.After < time.Second {
				t.Errorf("it looks again after %v", d.After)
			}
		})
	}
}
