package kubeproxy

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// at is a moment, in seconds after config.conf was written.
func at(second int) time.Time { return time.Unix(1_800_000_000+int64(second), 0) }

// config is a configuration with a mode.
func config(mode string) string { return head + "mode: " + mode + "\n" }

// rev is a configuration as the ledger keeps it.
func rev(document string) *Revision { return ReadConfig(document).revision() }

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
func notReady(n *Node) { n.Ready = false }
func noPod(n *Node)    { n.Pod = nil }

// leaving is a node whose pod is being deleted since then.
func leaving(second int) func(*Node) {
	return func(n *Node) { n.Pod, n.Left = nil, at(second) }
}
func silent(n *Node)    { n.Witness, n.Mode, n.Dated = Silent, "", false }
func noSpeaker(n *Node) { n.Witness, n.Mode, n.Dated = NoSpeaker, "", false }
func undated(n *Node)   { n.Dated = false }
func refusing(n *Node) {
	n.Mode, n.Dated, n.Says = "", false, "kube-proxy does not answer: connection refused"
}

// metAt is when the manager saw the pod first.
func metAt(second int) func(*Node) {
	return func(n *Node) { n.Pod.Met = at(second) }
}

func since(second int) func(*Node) {
	return func(n *Node) { n.Since = at(second) }
}
func verifiedSince(second int) func(*Node) {
	return func(n *Node) { n.Verified = at(second) }
}
func announces(addresses int) func(*Node) {
	return func(n *Node) { n.Announces = addresses }
}
func awaySince(second int) func(*Node) {
	return func(n *Node) { n.Away = at(second) }
}
func with(path Path, value string) func(*Node) {
	return func(n *Node) { n.Settings = Settings{PathMode: n.Mode, path: value} }
}
func withoutRules(n *Node) { n.Rules = v1alpha1.RulesPending }
func failingRules(n *Node) { n.Rules, n.Failures = v1alpha1.RulesPending, 3 }
func rulesEnded(n *Node)   { n.Rules, n.Failures = v1alpha1.RulesFailing, 3 }
func found(n *Node)        { n.Pod.Found = true }
func untried(n *Node)      { n.Untried = true }
func loose(n *Node)        { n.LooseARP = []string{"eth0"} }
func blocked(n *Node)      { n.Blocked = "default/kubernetes cannot be reached: i/o timeout" }

// nowhere is what is said of a node that is blocked.
const nowhere = "the rules lead nowhere: default/kubernetes cannot be reached: i/o timeout"

func littered(n *Node)     { n.Residue = []string{"kube-ipvs0 is there"} }
func controlPlane(n *Node) { n.ControlPlane = true }
func starting(n *Node)     { n.Pod.Ready = false }
func crashing(n *Node) {
	n.Pod.Ready, n.Pod.Failure = false, crash
}

const (
	image = "registry.k8s.io/kube-proxy:v1.36.3"
	crash = "CrashLoopBackOff, exit code 1: can't use the nftables proxier: kernel 5.4 is too old"
)

// asking are facts in which a spec asks for nftables, and nothing was done for it yet.
func asking(document string, nodes ...Node) Facts {
	return Facts{Spec: &v1alpha1.KubeProxySpec{Mode: v1alpha1.ProxyModeNFTables}, Layout: Layout{Managed: true}, Config: ReadConfig(document),
		Written: at(0), Now: at(600), Image: image, Nodes: nodes}
}

// rolling are facts ten minutes after nftables was written over iptables. Every node has shown that it can run it.
func rolling(nodes ...Node) Facts {
	return asking(config("nftables"), nodes...).attempting(config("iptables"))
}

// attempting puts into the ledger that what config.conf says is rolled out, and can be taken back to what it said before.
func (f Facts) attempting(before string) Facts {
	g := f.goal()
	f.Ledger.Original, f.Ledger.Touched = rev(before), []Path{PathMode}
	f.Ledger.Attempt = &Attempt{Asked: g.asked, Next: roll{Facts: f, goal: g}.stage(), Before: rev(before), Probed: namesOf(f.Nodes)}
	return f
}

// noted puts into the ledger that what is asked will be written over what config.conf says.
func (f Facts) noted() Facts {
	f = f.attempting(f.Config.Document)
	f.Ledger.Attempt.Over = f.version()
	return f
}

// settled puts into the ledger that what is asked ran everywhere.
func (f Facts) settled() Facts { f.Ledger.Applied = f.goal().asked; return f }

// ledger changes the ledger.
func (f Facts) ledger(change func(*Ledger)) Facts {
	f.Ledger = f.Ledger.clone()
	change(&f.Ledger)
	return f
}

func nothingBefore(l *Ledger) { l.Attempt.Before = nil }

// probed gives all probes that the plan wants a result; of those on a node, another one.
func (f Facts) probed(state ProbeState, but ...func(Probe, *ProbeResult)) Facts {
	f.Probes = map[ProbeKey]ProbeResult{}
	for _, p := range Plan(f).Probes {
		result := ProbeResult{Key: p.Key(), State: state}
		for _, change := range but {
			change(p, &result)
		}
		f.Probes[p.Key()] = result
	}
	return f
}

// fails has the shadow on a node fail.
func fails(node, message, log string) func(Probe, *ProbeResult) {
	return func(p Probe, r *ProbeResult) {
		if p.Node == node && p.Kind == ProbeShadow {
			r.State, r.Message, r.LogTail = ProbeFailed, message, log
		}
	}
}

// finds has the survey of a node find what was left.
func finds(node, leftover string) func(Probe, *ProbeResult) {
	return func(p Probe, r *ProbeResult) {
		if p.Node == node && p.Kind == ProbeSurvey {
			r.Leftovers = []string{leftover}
		}
	}
}

func (f Facts) now(second int) Facts          { f.Now = at(second); return f }
func (f Facts) written(when time.Time) Facts  { f.Written = when; return f }
func (f Facts) by(writer string) Facts        { f.Writer = writer; return f }
func (f Facts) document(text string) Facts    { f.Config = ReadConfig(text); return f }
func (f Facts) announcing() Facts             { f.Announcing = true; return f }
func (f Facts) paused() Facts                 { f.Paused = true; return f }
func (f Facts) managerOn(node string) Facts   { f.OwnNode = node; return f }
func (f Facts) enclosedBy(where string) Facts { f.Enclosed = where; return f }

// spec changes the spec; nil removes it.
func (f Facts) spec(change func(*v1alpha1.KubeProxySpec)) Facts {
	if change == nil {
		f.Spec = nil
		return f
	}
	f.Spec = f.Spec.DeepCopy()
	change(f.Spec)
	return f
}

func (f Facts) asksFor(mode v1alpha1.ProxyMode) Facts {
	return f.spec(func(s *v1alpha1.KubeProxySpec) { s.Mode = mode })
}

// What may be different about a spec.
func scheduler(name v1alpha1.IPVSScheduler) func(*v1alpha1.KubeProxySpec) {
	return func(s *v1alpha1.KubeProxySpec) { s.IPVS.Scheduler = name }
}
func warned(s *v1alpha1.KubeProxySpec)    { s.Drift = v1alpha1.DriftWarn }
func held(s *v1alpha1.KubeProxySpec)      { s.Rollout.State = v1alpha1.RolloutPaused }
func pausing(s *v1alpha1.KubeProxySpec)   { s.Rollout.OnFailure = v1alpha1.FailurePause }
func restoring(s *v1alpha1.KubeProxySpec) { s.OnDelete = v1alpha1.OnDeleteRestore }
func unavailable(most int32) func(*v1alpha1.KubeProxySpec) {
	return func(s *v1alpha1.KubeProxySpec) { s.Rollout.MaxUnavailable = most }
}
func pauseOf(seconds int32) func(*v1alpha1.KubeProxySpec) {
	return func(s *v1alpha1.KubeProxySpec) { s.Rollout.PauseSeconds = &seconds }
}

func deadlineOf(seconds int32) func(*v1alpha1.KubeProxySpec) {
	return func(s *v1alpha1.KubeProxySpec) { s.Rollout.ProgressDeadlineSeconds = &seconds }
}

// Decisions of each kind, with their messages.

func done(message string) Decision {
	return Decision{Progress: Done, Phase: v1alpha1.PhaseIdle, Reason: v1alpha1.ReasonReady, Message: message}
}

func underway(phase v1alpha1.KubeProxyPhase, message string) Decision {
	return Decision{Progress: Underway, Phase: phase, Reason: v1alpha1.ReasonRollingOut, Message: message}
}

func goingOn(phase v1alpha1.KubeProxyPhase, message string) Decision {
	return underway(phase, message).waits(time.Second)
}

func stuck(reason, message string) Decision {
	return Decision{Progress: Stuck, Phase: v1alpha1.PhaseStalled, Reason: reason, Message: message}
}

// left is stuck, and looked at again now and then.
func left(reason, message string) Decision { return stuck(reason, message).waits(10 * time.Second) }

func onHold(message string) Decision {
	d := goingOn(v1alpha1.PhasePlanned, message).waits(10 * time.Second)
	d.Reason = v1alpha1.ReasonPaused
	return d
}

// of says of how many nodes which run as asked.
func (d Decision) of(total int, verified ...string) Decision {
	d.Updated, d.Total, d.Verified = len(verified), total, verified
	return d
}

func (d Decision) waits(after time.Duration) Decision { d.Action, d.After = Wait, after; return d }

func (d Decision) restarts(n Node) Decision {
	d.Action, d.Restart, d.After = Restart, n.Pod, time.Second
	return d.away(n.Name)
}

func (d Decision) writes(edited string, changes ...Change) Decision {
	d.Action, d.Edited = Write, edited
	return d.changing(changes...)
}

func (d Decision) changing(changes ...Change) Decision { d.Changes = changes; return d }

func (d Decision) records(l Ledger) Decision { d.Action, d.Ledger = Record, &l; return d }

func (d Decision) away(nodes ...string) Decision {
	d.Away = slices.Sorted(slices.Values(append(d.Away, nodes...)))
	return d
}

func (d Decision) because(node string, phase v1alpha1.KubeProxyPhase, message string) Decision {
	d.Failure = &Failure{Node: node, Phase: phase, Message: message}
	return d
}

// trying asks for the probes.
func (d Decision) trying(probes ...Probe) Decision { d.Probes = probes; return d }

// shadow is the probe of a document on a node, and survey that of the rules there.
func shadow(node, mode, document string) Probe {
	return Probe{Kind: ProbeShadow, Node: node, Hash: Hash(document, image), Mode: mode, Document: document}
}

func survey(node, mode, document string) Probe {
	return Probe{Kind: ProbeSurvey, Node: node, Hash: Hash(document, image), Mode: mode}
}

// on136 is an outlook with kubeadm's document and image of Kubernetes 1.36 where it has none.
func (o Outlook) on136(t *testing.T) Outlook {
	t.Helper()
	o.Document, o.Image = cmp.Or(o.Document, documents(t)["kubeadm-v1.36"]), cmp.Or(o.Image, image136)
	return o
}
