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
	n := Node{Name: name, Ready: true, Witness: Reporting, Mode: mode,
		Pod: &Pod{Name: "kube-proxy-" + name, UID: name, Created: created, Ready: true}}
	for _, change := range but {
		change(&n)
	}
	return n
}

// What may be different about a node.
func notReady(n *Node)  { n.Ready = false }
func noPod(n *Node)     { n.Pod = nil }
func silent(n *Node)    { n.Witness, n.Mode = Silent, "" }
func noSpeaker(n *Node) { n.Witness, n.Mode = NoSpeaker, "" }
func starting(n *Node)  { n.Pod.Ready = false }
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
			want: Decision{Progress: Done, Reason: v1alpha1.ReasonNotManaged,
				Message: "spec.kubeProxy is absent: kube-proxy is not touched"}.of(1, 1),
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
			want:  underway("0 of 2 nodes run mode nftables; waiting for a: its kube-proxy does not answer yet").waits(time.Second).of(0, 2),
		},
		"the next waits while the old mode is reported": {
			facts: rolling(node("a", "iptables", at(10)), node("b", "iptables", at(-60))).now(24),
			want:  underway("0 of 2 nodes run mode nftables; waiting for a: its kube-proxy reports mode iptables").waits(time.Second).of(0, 2),
		},
		"the next waits while a speaker has not reported, wherever it is": {
			facts: rolling(node("a", "iptables", at(-60)), node("b", "iptables", at(-60), silent)),
			want: underway("0 of 2 nodes run mode nftables; waiting for b: its speaker has not reported kube-proxy's mode yet").
				waits(time.Second).of(0, 2),
		},
		"the next waits when the node is not Ready any more: the restart may be why": {
			facts: rolling(node("a", "iptables", at(10), notReady), node("b", "iptables", at(-60))).now(40),
			want:  underway("0 of 2 nodes run mode nftables; waiting for a: the node is not Ready").waits(time.Second).of(0, 2),
		},
		"a Ready pod is no proof where a speaker can ask": {
			facts: rolling(node("a", "", at(10)), node("b", "iptables", at(-60))).now(60),
			want:  underway("0 of 2 nodes run mode nftables; waiting for a: its kube-proxy does not answer yet").waits(time.Second).of(0, 2),
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
