package kubeproxy

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// at is a moment, in seconds after config.conf was written.
func at(second int) time.Time { return time.Unix(1_800_000_000+int64(second), 0) }

// config is a configuration with a mode.
func config(mode string) string { return head + "mode: " + mode + "\n" }

// node is a Ready node whose speaker reports a mode of a kube-proxy pod that was made then.
func node(name, mode string, created time.Time, but ...func(*Node)) Node {
	n := Node{Name: name, Ready: true, Witness: Reporting, Mode: mode, Dated: mode != "",
		Pod: &Pod{Name: "kube-proxy-" + name, UID: name, Created: created, Started: created, Ready: true}}
	for _, change := range but {
		change(&n)
	}
	return n
}

// What may be different about a node.
func notReady(n *Node)  { n.Ready = false }
func noPod(n *Node)     { n.Pod = nil }
func silent(n *Node)    { n.Witness, n.Mode, n.Dated = Silent, "", false }
func noSpeaker(n *Node) { n.Witness, n.Mode, n.Dated = NoSpeaker, "", false }
func undated(n *Node)   { n.Dated = false }
func refusing(n *Node) {
	n.Mode, n.Dated, n.Says = "", false, "kube-proxy does not answer: connection refused"
}
func since(second int) func(*Node) {
	return func(n *Node) { n.Since = at(second) }
}
func starting(n *Node) { n.Pod.Ready = false }
func crashing(n *Node) {
	n.Pod.Ready, n.Pod.Failure = false, "CrashLoopBackOff, exit code 1: can't use the nftables proxier: kernel 5.4 is too old"
}

// rolling are the facts ten minutes after nftables was written.
func rolling(nodes ...Node) Facts {
	return Facts{Spec: &v1alpha1.KubeProxySpec{Mode: v1alpha1.ProxyModeNFTables}, Layout: Layout{Managed: true}, Document: config("nftables"),
		Written: at(0), Now: at(600), Nodes: nodes}
}

func (f Facts) now(second int) Facts                 { f.Now = at(second); return f }
func (f Facts) written(when time.Time) Facts         { f.Written = when; return f }
func (f Facts) document(text string) Facts           { f.Document = text; return f }
func (f Facts) announcing() Facts                    { f.Announcing = true; return f }
func (f Facts) paused() Facts                        { f.Paused = true; return f }
func (f Facts) managerOn(node string) Facts          { f.OwnNode = node; return f }
func (f Facts) spec(s *v1alpha1.KubeProxySpec) Facts { f.Spec = s; return f }
func (f Facts) mode(mode v1alpha1.ProxyMode) Facts {
	return f.spec(&v1alpha1.KubeProxySpec{Mode: mode})
}
func (d Decision) of(updated, total int) Decision { d.Updated, d.Total = updated, total; return d }
func (d Decision) writes(edited string) Decision  { d.Action, d.Edited = Write, edited; return d }
func (d Decision) restarts(n Node) Decision {
	d.Action, d.Restart, d.After = Restart, n.Pod, time.Second
	return d
}
func (d Decision) waits(after time.Duration) Decision { d.Action, d.After = Wait, after; return d }

// Decisions of each kind, with their messages.
func done(message string) Decision {
	return Decision{Progress: Done, Reason: v1alpha1.ReasonReady, Message: message}
}
func underway(message string, changes ...Change) Decision {
	return Decision{Progress: Underway, Reason: v1alpha1.ReasonRollingOut, Message: message, Changes: changes}
}
func stuck(reason, message string) Decision {
	return Decision{Progress: Stuck, Reason: reason, Message: message}
}

func notManaged(but string) Decision {
	return Decision{Progress: Done, Reason: v1alpha1.ReasonNotManaged, Message: "spec.kubeProxy is absent: kube-proxy is not touched" + but}
}
func missing(strictARP, node string) Decision {
	return stuck(v1alpha1.ReasonStrictARPMissing, "ConfigMap kube-system/kube-proxy: config.conf has ipvs.strictARP: "+strictARP+", and kube-proxy "+
		"runs in mode ipvs on "+node+": each such node answers ARP for every announced address. Write `kubeProxy: {}` into the spec, and Lanyard "+
		"sets it and restarts one kube-proxy after the other; or set it to true by hand and run "+
		"`kubectl -n kube-system rollout restart daemonset kube-proxy`")
}
func paused(message string) Decision {
	return Decision{Progress: Underway, Reason: v1alpha1.ReasonPaused,
		Message: message + ". Set spec.managementState to Managed to go on"}.waits(10 * time.Second)
}

func TestPlan(t *testing.T) {
	const (
		keep   = v1alpha1.ProxyMode("")
		advice = ". No further node is touched. Set spec.kubeProxy.mode to a mode that this node can run; " +
			"`kubectl -n kube-system logs kube-proxy-a` tells more"
		strict  = head + "mode: ipvs\nipvs:\n  strictARP: true\n"
		relaxed = head + "mode: ipvs\nipvs:\n  strictARP: false\n"
	)
	for name, tc := range map[string]struct {
		facts Facts
		want  Decision
	}{
		// What is written.
		"without the section, kube-proxy is nobody's business": {
			facts: rolling(node("a", "iptables", at(-60))).spec(nil),
			want:  notManaged("").of(1, 1),
		},
		"without the section, ipvs with announcements needs strictARP even so": {
			facts: rolling(node("a", "ipvs", at(-60)), node("b", "iptables", at(-60))).spec(nil).document(relaxed).announcing(),
			want:  missing("false", "a").of(1, 2),
		},
		"what is configured counts where nobody could ask, and an absent field is false": {
			facts: rolling(node("a", "", at(-60), noSpeaker)).spec(nil).document(config("ipvs")).announcing(),
			want:  missing("(absent)", "a").of(0, 1),
		},
		"with strictARP, all is well": {
			facts: rolling(node("a", "ipvs", at(-60))).spec(nil).document(strict).announcing(), want: notManaged("").of(1, 1),
		},
		"so it is without announcements": {
			facts: rolling(node("a", "ipvs", at(-60))).spec(nil).document(relaxed), want: notManaged("").of(1, 1),
		},
		"another mode needs no strictARP, whatever is configured since": {
			facts: rolling(node("a", "nftables", at(-60))).spec(nil).document(relaxed).announcing(), want: notManaged("").of(1, 1),
		},
		"where another installer keeps the configuration, nothing is claimed": {
			facts: Facts{Layout: Layout{Message: "no ConfigMap"}, Nodes: []Node{node("a", "ipvs", at(-60))}, Announcing: true},
			want: notManaged("; it runs in mode ipvs on a, which needs strictARP where addresses are announced, and Lanyard cannot read whether "+
				"it has it").of(1, 1),
		},
		"a layout other than kubeadm's is refused": {
			facts: Facts{Spec: &v1alpha1.KubeProxySpec{}, Layout: Layout{Message: "there is no DaemonSet"}, Nodes: []Node{{Name: "a"}}},
			want:  stuck(v1alpha1.ReasonUnmanagedLayout, "there is no DaemonSet").of(0, 1),
		},
		"a configuration that cannot be edited is refused": {
			facts: rolling(node("a", "iptables", at(-60))).document("kind: Other"),
			want: stuck(v1alpha1.ReasonInvalidConfiguration, "ConfigMap kube-system/kube-proxy: config.conf is of kind Other, not "+
				"KubeProxyConfiguration: Lanyard edits nothing else, remove spec.kubeProxy").of(0, 1),
		},
		"the configuration is written before a pod is touched": {
			facts: rolling(node("a", "iptables", at(-60)), node("b", "iptables", at(-60))).document(config(`""`)).written(time.Time{}),
			want: underway(`0 of 2 nodes run mode nftables; writing mode: "" → nftables`, Change{"mode", `""`, "nftables"}).
				writes(config("nftables")).of(0, 2),
		},
		"nothing is written before the speakers have reported, for the roll could not go on": {
			facts: rolling(node("a", "iptables", at(-60)), node("b", "", at(-60), silent, since(481))).document(config("iptables")),
			want: underway("0 of 2 nodes run mode nftables; before writing mode: iptables → nftables, waiting for b: its speaker has not "+
				"reported the mode of the kube-proxy that runs now").waits(time.Second).of(0, 2),
		},
		"but a speaker that stays silent does not hold the way back from a mode that broke it": {
			facts: rolling(node("a", "", at(-60), silent, since(480))).document(config("iptables")),
			want: underway("0 of 1 nodes run mode nftables; writing mode: iptables → nftables", Change{"mode", "iptables", "nftables"}).
				writes(config("nftables")).of(0, 1),
		},
		"nor does a node that is not Ready": {
			facts: rolling(node("a", "", at(-60), silent, notReady)).document(config("iptables")),
			want: underway("0 of 1 nodes run mode nftables; writing mode: iptables → nftables", Change{"mode", "iptables", "nftables"}).
				writes(config("nftables")).of(0, 1),
		},
		"while paused, what would be written is said": {
			facts: rolling(node("a", "iptables", at(-60))).document(config("iptables")).paused(),
			want:  paused("0 of 1 nodes run mode nftables; paused; would go on with: writing mode: iptables → nftables").of(0, 1),
		},
		"while paused, what would be restarted is said": {
			facts: rolling(node("a", "iptables", at(-60))).paused(),
			want:  paused("0 of 1 nodes run mode nftables; paused; would go on with: restarting kube-proxy on a").of(0, 1),
		},
		"a kube-proxy that runs as asked does so while paused too": {
			facts: rolling(node("a", "nftables", at(10))).paused(),
			want:  done("1 of 1 nodes run mode nftables; kube-proxy runs as asked").of(1, 1),
		},
		"somebody's edit is undone": {
			facts: rolling(node("a", "nftables", at(10))).document(config("iptables")),
			want: underway("1 of 1 nodes run mode nftables; writing mode: iptables → nftables", Change{"mode", "iptables", "nftables"}).
				writes(config("nftables")).of(1, 1),
		},
		"a mode that is left open is the one that the cluster has": {
			facts: rolling(node("a", "iptables", at(-60))).mode(keep).document(config("null")).written(time.Time{}),
			want:  done("1 of 1 nodes run mode iptables; kube-proxy runs as asked").of(1, 1),
		},
		"a mode that is left open is not rolled out when no kube-proxy can start with it": {
			facts: rolling(node("a", "ipvs", at(-60))).mode(keep).document(config("IPVS")),
			want: stuck(v1alpha1.ReasonInvalidConfiguration, "ConfigMap kube-system/kube-proxy: config.conf: mode is IPVS, which kube-proxy "+
				"does not start with: write iptables, ipvs or nftables there, or set spec.kubeProxy.mode").of(0, 1),
		},
		"a declared mode mends it": {
			facts: rolling(node("a", "ipvs", at(-60))).mode("ipvs").document(config("IPVS")),
			want: underway("1 of 1 nodes run mode ipvs; writing mode: IPVS → ipvs", Change{"mode", "IPVS", "ipvs"}).
				writes(config("ipvs")).of(1, 1),
		},
		"ipvs with announcements needs strictARP, also when the mode is left open": {
			facts: rolling(node("a", "ipvs", at(-60))).mode(keep).document(relaxed).announcing(),
			want: underway("0 of 1 nodes run mode ipvs with strictARP; writing ipvs.strictARP: false → true", Change{"ipvs.strictARP", "false", "true"}).
				writes(strict).of(0, 1),
		},
		"ipvs without announcements leaves strictARP as it is": {
			facts: rolling(node("a", "ipvs", at(-60))).mode("ipvs").document(relaxed),
			want:  done("1 of 1 nodes run mode ipvs; kube-proxy runs as asked").of(1, 1),
		},
		"leaving ipvs leaves strictARP as it is": {
			facts: rolling(node("a", "ipvs", at(-60))).document(strict).announcing(),
			want: underway("0 of 1 nodes run mode nftables; writing mode: ipvs → nftables", Change{"mode", "ipvs", "nftables"}).
				writes(strings.Replace(strict, "ipvs", "nftables", 1)).of(0, 1),
		},
		// The order of nodes.
		"the first by name is restarted first": {
			facts: rolling(node("b", "iptables", at(-60)), node("a", "iptables", at(-60))),
			want:  underway("0 of 2 nodes run mode nftables; restarting kube-proxy on a").restarts(node("a", "iptables", at(-60))).of(0, 2),
		},
		"the manager's own node is restarted last": {
			facts: rolling(node("a", "iptables", at(-60)), node("b", "iptables", at(-60))).managerOn("a"),
			want:  underway("0 of 2 nodes run mode nftables; restarting kube-proxy on b").restarts(node("b", "iptables", at(-60))).of(0, 2),
		},
		"a node that runs the mode already is not restarted": {
			facts: rolling(node("a", "nftables", at(-60)), node("b", "iptables", at(-60))),
			want:  underway("1 of 2 nodes run mode nftables; restarting kube-proxy on b").restarts(node("b", "iptables", at(-60))).of(1, 2),
		},
		"a node that is not Ready is left out": {
			facts: rolling(node("a", "iptables", at(-60), notReady), node("b", "iptables", at(-60))),
			want:  underway("0 of 2 nodes run mode nftables; restarting kube-proxy on b").restarts(node("b", "iptables", at(-60))).of(0, 2),
		},
		"and named when the others are done": {
			facts: rolling(node("a", "iptables", at(-60), notReady), node("b", "nftables", at(10)), node("c", "", at(10), notReady)),
			want:  underway("1 of 3 nodes run mode nftables; not Ready, and updated when they return: a, c").of(1, 3),
		},
		"all run it": {
			facts: rolling(node("a", "nftables", at(10)), node("b", "nftables", at(20))),
			want:  done("2 of 2 nodes run mode nftables; kube-proxy runs as asked").of(2, 2),
		},
		// One at a time: each of these keeps node b from being restarted.
		"the next waits while a pod is being made": {
			facts: rolling(node("a", "iptables", at(-60), noPod), node("b", "iptables", at(-60))),
			want:  underway("0 of 2 nodes run mode nftables; waiting for a: its kube-proxy pod is being made").waits(time.Second).of(0, 2),
		},
		"the next waits while kube-proxy does not answer": {
			facts: rolling(node("a", "", at(10), starting), node("b", "iptables", at(-60))).now(20),
			want:  underway("0 of 2 nodes run mode nftables; waiting for a: its speaker says: kube-proxy does not answer").waits(time.Second).of(0, 2),
		},
		"the next waits while the old mode is reported": {
			facts: rolling(node("a", "iptables", at(10)), node("b", "iptables", at(-60))).now(24),
			want:  underway("0 of 2 nodes run mode nftables; waiting for a: its kube-proxy reports mode iptables").waits(time.Second).of(0, 2),
		},
		"the next waits while a speaker has not reported, wherever it is": {
			facts: rolling(node("a", "iptables", at(-60)), node("b", "iptables", at(-60), silent)),
			want: underway("0 of 2 nodes run mode nftables; waiting for b: its speaker has not reported the mode of the kube-proxy that runs now").
				waits(time.Second).of(0, 2),
		},
		"the next waits when the node is not Ready any more: the restart may be why": {
			facts: rolling(node("a", "iptables", at(10), notReady), node("b", "iptables", at(-60))).now(40),
			want:  underway("0 of 2 nodes run mode nftables; waiting for a: the node is not Ready").waits(time.Second).of(0, 2),
		},
		"a Ready pod is no proof where a speaker can ask": {
			facts: rolling(node("a", "", at(10)), node("b", "iptables", at(-60))).now(60),
			want:  underway("0 of 2 nodes run mode nftables; waiting for a: its speaker says: kube-proxy does not answer").waits(time.Second).of(0, 2),
		},
		"without a speaker, a pod that has just become Ready may still fall over": {
			facts: rolling(node("a", "", at(10), noSpeaker), node("b", "", at(-60), noSpeaker)).now(19),
			want: underway("0 of 2 nodes run mode nftables; waiting for a: its kube-proxy pod is not Ready for long enough yet").
				waits(time.Second).of(0, 2),
		},
		"without a speaker, ten seconds of Ready are believed": {
			facts: rolling(node("a", "", at(10), noSpeaker), node("b", "", at(-60), noSpeaker)).now(20),
			want:  underway("1 of 2 nodes run mode nftables; restarting kube-proxy on b").restarts(node("b", "", at(-60))).of(1, 2),
		},
		"for strictARP every process is restarted, and the report of the one before proves nothing": {
			facts: rolling(node("a", "ipvs", at(10), starting), node("b", "ipvs", at(-60))).mode("ipvs").document(strict).announcing().now(12),
			want: underway("0 of 2 nodes run mode ipvs with strictARP; waiting for a: its kube-proxy pod is not Ready for long enough yet").
				waits(time.Second).of(0, 2),
		},
		// What goes wrong.
		"a pod that started on the old content of the ConfigMap is restarted again": {
			facts: rolling(node("a", "iptables", at(10)), node("b", "iptables", at(-60))).now(25),
			want: underway("0 of 2 nodes run mode nftables; restarting kube-proxy on a again: it started on the old configuration").
				restarts(node("a", "iptables", at(10))).of(0, 2),
		},
		"but not when the content can no longer be old": {
			facts: rolling(node("a", "iptables", at(120)), node("b", "iptables", at(-60))).now(240),
			want: stuck(v1alpha1.ReasonRolloutStalled, "0 of 2 nodes run mode nftables; kube-proxy on a does not come up in mode nftables: "+
				"its kube-proxy reports mode iptables"+advice).waits(10*time.Second).of(0, 2),
		},
		"a crash stops the roll at once, with its cause": {
			facts: rolling(node("a", "", at(10), crashing), node("b", "iptables", at(-60))).now(12),
			want: stuck(v1alpha1.ReasonRolloutStalled, "0 of 2 nodes run mode nftables; kube-proxy on a does not come up in mode nftables: "+
				"CrashLoopBackOff, exit code 1: can't use the nftables proxier: kernel 5.4 is too old"+advice).waits(10*time.Second).of(0, 2),
		},
		"a node that stays away after its restart stops the roll": {
			facts: rolling(node("a", "iptables", at(10), notReady), node("b", "iptables", at(-60))).now(130),
			want: stuck(v1alpha1.ReasonRolloutStalled, "0 of 2 nodes run mode nftables; kube-proxy on a does not come up in mode nftables: "+
				"the node is not Ready"+advice).waits(10*time.Second).of(0, 2),
		},
		"a report without a date may be of the process before: no pod is restarted again for it": {
			facts: rolling(node("a", "iptables", at(10), undated)).now(25),
			want:  underway("0 of 1 nodes run mode nftables; waiting for a: its kube-proxy reports mode iptables").waits(time.Second).of(0, 1),
		},
		"a speaker that says nothing of the new process stops the roll, and is what to look at": {
			facts: rolling(node("a", "", at(10), silent), node("b", "iptables", at(-60))).now(130),
			want: stuck(v1alpha1.ReasonRolloutStalled, "0 of 2 nodes run mode nftables; kube-proxy on a does not come up in mode nftables: "+
				"its speaker has not reported the mode of the kube-proxy that runs now. No further node is touched. See whether the speaker there "+
				"runs and reaches the API server: `kubectl get pods -A -o wide -l app.kubernetes.io/component=speaker`. If it does, "+
				"`kubectl -n kube-system delete pod kube-proxy-a` makes it ask again").waits(10*time.Second).of(0, 2),
		},
		"a kube-proxy that serves its metrics where no speaker asks is not blamed for its mode": {
			facts: rolling(node("a", "", at(10), refusing)).now(130).document(config("nftables") + "metricsBindAddress: 10.0.0.1:10249\n"),
			want: stuck(v1alpha1.ReasonRolloutStalled, "0 of 1 nodes run mode nftables; kube-proxy on a does not come up in mode nftables: "+
				"its speaker says: kube-proxy does not answer: connection refused. No further node is touched. config.conf has "+
				"metricsBindAddress: 10.0.0.1:10249, and speakers ask at 127.0.0.1:10249: set metricsBindAddress to 127.0.0.1:10249 in "+
				"ConfigMap kube-system/kube-proxy").waits(10*time.Second).of(0, 1),
		},
		"a node that never gets a pod stops the roll": {
			facts: rolling(node("a", "", at(10), noPod, since(480)), node("b", "iptables", at(-60))),
			want: stuck(v1alpha1.ReasonRolloutStalled, "0 of 2 nodes run mode nftables; kube-proxy on a does not come up in mode nftables: "+
				"its kube-proxy pod is being made. No further node is touched. `kubectl -n kube-system describe daemonset kube-proxy` tells "+
				"why no pod is made").waits(10*time.Second).of(0, 2),
		},
		"a node whose speaker stays silent has its turn after the others": {
			facts: rolling(node("a", "", at(-60), silent, since(480)), node("b", "iptables", at(-60))),
			want:  underway("0 of 2 nodes run mode nftables; restarting kube-proxy on b").restarts(node("b", "", at(-60))).of(0, 2),
		},
		"and it has it: the restart may be what brings its speaker back": {
			facts: rolling(node("a", "", at(-60), silent, since(480)), node("b", "nftables", at(10))),
			want:  underway("1 of 2 nodes run mode nftables; restarting kube-proxy on a").restarts(node("a", "", at(-60))).of(1, 2),
		},
		"a kube-proxy that is down already is restarted without a speaker's word": {
			facts: rolling(node("a", "", at(-60), silent, crashing, since(599))),
			want: underway("0 of 1 nodes run mode nftables; restarting kube-proxy on a").
				restarts(node("a", "", at(-60), crashing)).of(0, 1),
		},
		"a mode that the nodes can run gets a stalled roll going": {
			facts: rolling(node("a", "", at(-30), crashing), node("b", "iptables", at(-60))).mode("iptables").document(config("iptables")).now(1),
			want:  underway("1 of 2 nodes run mode iptables; restarting kube-proxy on a").restarts(node("a", "", at(-30), crashing)).of(1, 2),
		},
		"nothing is restarted when it is not known who has read the configuration": {
			facts: rolling(node("a", "iptables", at(-60)), node("b", "nftables", at(-60))).written(time.Time{}),
			want: stuck(v1alpha1.ReasonRolloutStalled, "1 of 2 nodes run mode nftables; kube-proxy on a does not run in mode nftables: "+
				"its kube-proxy reports mode iptables. It is not restarted, because it is not known when config.conf was last written; "+
				"`kubectl -n kube-system delete pod kube-proxy-a` restarts it").waits(10*time.Second).of(1, 2),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Plan(tc.facts)); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}
