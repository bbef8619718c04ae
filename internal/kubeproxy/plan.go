package kubeproxy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// The times of a roll.
const (
	// progressDeadline is for specs that do not set theirs: as long as the API's default.
	progressDeadline = 2 * time.Minute
	// staleAfter is how long a restarted kube-proxy may report the old mode before it is restarted again: kubelet may start a pod on the
	// ConfigMap's old content, until its watch or its next sync brings the new one.
	staleAfter = 15 * time.Second
	// staleFor is how long after a write old content can be the cause: kubelet's sync takes up to 90 s.
	staleFor = 2 * time.Minute
	// settledAfter is how long a pod without a witness has to stay Ready to be believed.
	settledAfter = 10 * time.Second
	// awayWithin is how long the restart of a node waits for others to take its addresses over: with policy Local nobody may be able to.
	awayWithin = 10 * time.Second
	// lookAgain is when to look at what is under way, should no event come.
	lookAgain = time.Second
)

// Plan returns the next step of bringing kube-proxy to what the spec asks for, without a moment in which more nodes than allowed are
// without it. Nothing is written before every node has shown, in a pod of its own, that it can run the new configuration.
//
//	Planned ─▶ Preflight ─▶ Canary ─▶ Rolling ─▶ Inspecting ─▶ Idle
//	               │           │         │
//	               │           └────┬────┘ a node does not come up
//	               ▼                ▼
//	            Stalled        RollingBack ─▶ Stalled (rolled back; the others never stopped working)
func Plan(f Facts) Decision {
	f.Nodes = f.inOrder()
	switch {
	case f.Spec == nil && !f.Ledger.Restores():
		return f.leave()
	case !f.Layout.Managed:
		return Decision{Progress: Stuck, Phase: v1alpha1.PhaseStalled, Reason: v1alpha1.ReasonUnmanagedLayout, Message: f.Layout.Message,
			Total: len(f.Nodes)}
	case f.Config.Err != nil:
		return f.invalid(f.Config.Err)
	}
	r := roll{Facts: f, goal: f.goal()}
	if err := startable(r.mode); err != nil {
		return f.invalid(err)
	}
	for _, phase := range []func() (Decision, bool){r.forget, r.unnamed, r.write, r.nodes, r.inspect, r.complete} {
		if d, ends := phase(); ends {
			return r.finish(d)
		}
	}
	return r.finish(r.rest())
}

// leave judges a kube-proxy that is not managed, and forgets what was going on with it.
func (f Facts) leave() Decision {
	l := f.Ledger
	if f.Paused || l.Attempt == nil && l.Refused == nil && l.Original == nil && l.Applied == "" {
		return f.untouched()
	}
	d := record(Ledger{Good: l.Good}, v1alpha1.PhaseIdle, "spec.kubeProxy is absent: kube-proxy stays as it runs now")
	d.Total = len(f.Nodes)
	return d
}

func (f Facts) invalid(err error) Decision {
	return Decision{Progress: Stuck, Phase: v1alpha1.PhaseStalled, Reason: v1alpha1.ReasonInvalidConfiguration,
		Message: fmt.Sprintf("ConfigMap %s/%s: %v", Namespace, Name, err), Total: len(f.Nodes)}
}

// startable refuses a mode that no kube-proxy starts with: it stands in config.conf, and the spec leaves it open.
func startable(mode string) error {
	switch v1alpha1.ProxyMode(mode) {
	case v1alpha1.ProxyModeIPTables, v1alpha1.ProxyModeIPVS, v1alpha1.ProxyModeNFTables:
		return nil
	}
	return fmt.Errorf("config.conf: mode is %s, which kube-proxy does not start with: write iptables, ipvs or nftables there, "+
		"or set spec.kubeProxy.mode", mode)
}

// roll is a change on its way, of nodes that are in the order in which they are restarted.
type roll struct {
	Facts
	goal
}

// forget drops from the ledger what the spec has made void: the refusal of another declaration, or one that a person wants to try again.
func (r roll) forget() (Decision, bool) {
	if r.Paused {
		return Decision{}, false
	}
	l := r.Ledger.clone()
	switch refused := l.Refused; {
	case refused != nil && refused.Asked != r.asked:
		l.Refused = nil
		return record(l, v1alpha1.PhasePlanned, "the spec has changed: what was rolled back before it is forgotten"), true
	case refused != nil && r.held():
		l.Refused = nil
		return record(l, v1alpha1.PhasePlanned, "the roll is paused: what was rolled back may be tried again"), true
	case r.Spec != nil && l.OnDelete != r.Spec.OnDelete && (l.Original != nil || l.OnDelete != ""):
		l.OnDelete = r.Spec.OnDelete
		return record(l, v1alpha1.PhasePlanned, "writing down spec.kubeProxy.onDelete"), true
	}
	return Decision{}, false
}

// unnamed refuses to lead nodes between iptables and ipvs where only config.conf, which somebody has changed, names the mode: on the way by
// nftables it would not be there any more. To restart their kube-proxies at once would leave the rules of before.
func (r roll) unnamed() (Decision, bool) {
	nodes := r.Nodes
	i := slices.IndexFunc(nodes, func(n Node) bool { return n.Ready && opposite(n.Mode, r.mode) })
	if i < 0 || r.names() || !r.holds(byNFTables) {
		return Decision{}, false
	}
	remedy := fmt.Sprintf("Set spec.kubeProxy.mode: %s, and all nodes are led there by way of nftables; or %s, and config.conf is put back", r.mode, nodes[i].Mode)
	if r.restoring {
		remedy = fmt.Sprintf("Set mode: %s there again, or reboot the nodes one by one, and it is given back as it was", nodes[i].Mode)
	}
	return stalled(v1alpha1.ReasonDrifted, fmt.Sprintf("%s has changed config.conf to mode %s, and %s runs %s. No node is touched, as a restart of "+
		"kube-proxy alone would leave the old rules behind. %s", r.writer(), r.mode, nodes[i].Name, nodes[i].Mode, remedy)), true
}

// held says whether the spec wants to see the plan only.
func (r roll) held() bool { return r.Spec != nil && r.Spec.Rollout.State == v1alpha1.RolloutPaused }

// write brings config.conf to the step's settings, once all that speaks against it has been looked at.
func (r roll) write() (Decision, bool) {
	changes := r.changes()
	if len(changes) == 0 {
		return Decision{}, false
	}
	for _, gate := range []func(changes []Change) (Decision, bool){r.drift, r.enclosed, r.validate, r.await} {
		if d, closed := gate(changes); closed {
			d.Changes = changes
			return d, true
		}
	}
	edited, changes, err := r.edit()
	if err != nil {
		return r.invalid(err), true
	}
	for _, gate := range []func(edited string, changes []Change) (Decision, bool){r.pause, r.preflight, r.writeDown} {
		if d, closed := gate(edited, changes); closed {
			d.Changes = changes
			return d, true
		}
	}
	phase := v1alpha1.PhaseCanary
	if r.back {
		phase = v1alpha1.PhaseRollingBack
	}
	return Decision{Action: Write, Edited: edited, Changes: changes, Progress: Underway, Phase: phase, Reason: v1alpha1.ReasonRollingOut,
		Message: "writing " + describe(changes)}, true
}

// changes are those that make a difference to kube-proxy. To give it back as it was found, those that make none are made too.
func (r roll) changes() []Change {
	changes := r.next.Against(r.Config.Settings, r.open())
	if len(changes) == 0 && r.restoring && r.stepMode == r.mode {
		_, changes, _ = Edit(r.Config.Document, r.next) // a document that cannot be edited does all the same what it should
	}
	return changes
}

// edit returns the new config.conf. On the way back it is the very document of before, unless others have changed it since.
func (r roll) edit() (edited string, changes []Change, err error) {
	edited, changes, err = Edit(r.Config.Document, r.next)
	switch attempt := r.Ledger.Attempt; {
	case err != nil || r.stepMode != r.mode:
		return edited, changes, err
	case r.restoring && r.Ledger.intact(r.Config.Document):
		return r.Ledger.Original.Document, changes, nil
	case r.back && attempt != nil && attempt.Before != nil:
		again, _, err := Edit(attempt.Before.Document, FieldsOf(r.Config.Settings, r.next.Paths()))
		if err == nil && again == r.Config.Document {
			return attempt.Before.Document, changes, nil
		}
	}
	return edited, changes, nil
}

// own says whether the attempt in the ledger is the one that is under way.
func (r roll) own() bool { return r.Ledger.Attempt != nil && r.Ledger.Attempt.Asked == r.asked }

// drift judges what others have changed after it had run everywhere.
func (r roll) drift(changes []Change) (Decision, bool) {
	again := r.settledOnce()
	if again && r.Spec != nil && r.Spec.Drift == v1alpha1.DriftWarn {
		return stalled(v1alpha1.ReasonDrifted, fmt.Sprintf("%s has changed config.conf, and spec.kubeProxy.drift is Warn: Enforce would write %s. "+
			"Set drift to Enforce, or the spec to what is wanted", r.writer(), describe(changes))), true
	}
	recent := r.Ledger.corrections(r.Now)
	if len(recent) < fought || !again && !r.rewritten() {
		return Decision{}, false
	}
	d := stalled(v1alpha1.ReasonContested, fmt.Sprintf("%s keeps changing config.conf: it was written back %d times within %d minutes, and is left "+
		"alone for a while. Would write %s. Find out who it is and stop it, or set drift to Warn",
		r.writer(), len(recent), int(foughtWithin.Minutes()), describe(changes)))
	d.After = max(lookAgain, foughtWithin-r.Now.Sub(recent[0]))
	return d, true
}

// stage is the step that is under way, in short. It names the mode, which others may change where it is left open.
func (r roll) stage() string { return identity(r.next.With(PathMode, r.stepMode)) }

// stepped says whether the attempt in the ledger is at the very step that is under way.
func (r roll) stepped() bool { return r.own() && r.Ledger.Attempt.Next == r.stage() }

// noted says whether this very write stands in the ledger already.
func (r roll) noted() bool {
	return r.stepped() && r.Ledger.Attempt.Over == r.version()
}

// version is config.conf in short, with when it was written: somebody may write the same again after Lanyard has written over it.
func (f Facts) version() string {
	return digits(f.Config.Document + f.Written.UTC().Format(time.RFC3339))
}

// settledOnce says whether every node has run what is asked, or what it was rolled back to: what differs now, others have changed since.
func (r roll) settledOnce() bool {
	return r.Ledger.Attempt == nil && (r.Ledger.Applied == r.asked || r.back)
}

// rewritten says whether somebody else has changed config.conf since this attempt wrote it, at whichever step.
func (r roll) rewritten() bool {
	return r.own() && !r.noted() && r.Ledger.Attempt.Next != "" &&
		(r.Ledger.Attempt.Over != "" || r.Ledger.Attempt.Next != identity(FieldsOf(r.Config.Settings, r.next.Paths()).With(PathMode, r.configured())))
}

func (r roll) writer() string {
	if r.Writer == "" || r.Writer == v1alpha1.FieldManager {
		return "somebody"
	}
	return "the field manager " + r.Writer
}

// enclosed refuses to restart kube-proxies that reach the API server by an address that they have to serve themselves.
func (r roll) enclosed([]Change) (Decision, bool) {
	if r.Enclosed == "" || r.back {
		return Decision{}, false
	}
	return stalled(v1alpha1.ReasonServerInPool, fmt.Sprintf("kube-proxy reaches the API server at %s: a kube-proxy that starts could not, as nobody "+
		"has written the rules for that address yet. Set the server in key kubeconfig.conf of ConfigMap %s/%s to an address outside the pools, "+
		"or exclude it from the pool", r.Enclosed, Namespace, Name)), true
}

// validate refuses what the cluster's own version of kube-proxy does not start with, or would not do what it says.
func (r roll) validate([]Change) (Decision, bool) {
	if r.back {
		return Decision{}, false
	}
	problems := Validate(r.want, r.Config.Document, r.Image)
	if len(problems) == 0 {
		return Decision{}, false
	}
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.Message)
	}
	return stalled(v1alpha1.ReasonInvalidConfiguration, strings.Join(texts, ". ")+". Nothing was written"), true
}

// pause says what would be done.
func (r roll) pause(_ string, changes []Change) (Decision, bool) {
	way := ""
	if r.stepMode != r.mode {
		way = ", on the way to " + r.mode
	}
	if !r.stopped() {
		return Decision{}, false
	}
	return r.paused("would write " + describe(changes) + way), true
}

// paused says what would be done, and which field holds it up.
func (r roll) paused(would string) Decision {
	field, value := "spec.managementState", "Managed"
	if !r.Paused {
		field, value = "spec.kubeProxy.rollout.state", "Active"
	}
	d := goesOn(v1alpha1.PhasePlanned, fmt.Sprintf("paused; %s. Set %s to %s to go on", would, field, value))
	d.Reason, d.After = v1alpha1.ReasonPaused, 10*lookAgain
	return d
}

// await waits for nodes that lack a pod or a report: a roll that cannot go on is not begun, for any pod that is made meanwhile would run
// what nobody has tried. It is begun after a while even so, because the new configuration may be what brings that node back.
func (r roll) await(changes []Change) (Decision, bool) {
	nodes := r.Nodes
	i := slices.IndexFunc(nodes, r.awaited)
	if i < 0 || r.back || r.stopped() {
		return Decision{}, false
	}
	return goesOn(v1alpha1.PhasePlanned, fmt.Sprintf("before writing %s, waiting for %s: %s", describe(changes), nodes[i].Name, r.doing(nodes[i]))), true
}

// writeDown puts the step into the ledger before it is taken.
func (r roll) writeDown(edited string, changes []Change) (Decision, bool) {
	if r.noted() {
		return Decision{}, false
	}
	l := r.Ledger.clone()
	why := ""
	if r.settledOnce() || r.rewritten() {
		l.Corrections = append(l.corrections(r.Now), r.Now)
		why = r.writer() + " has changed config.conf; "
	}
	if l.Original == nil {
		l.Original = r.Config.revision()
		if r.Spec != nil {
			l.OnDelete = r.Spec.OnDelete
		}
	}
	if l.intact(r.Config.Document) {
		l.Wrote = []string{digits(edited), digits(r.Config.Document)}
	} else {
		l.Wrote = nil
	}
	l.touch(changes)
	l.Attempt = r.attempt()
	l.Attempt.Next, l.Attempt.Over = r.stage(), r.version()
	l.Attempt.Probed, l.Attempt.Detour = r.passed(edited), r.stepMode != r.mode
	l.Attempt.Crossed = l.Attempt.Crossed && !l.Attempt.Detour
	if r.back {
		return record(l, v1alpha1.PhaseRollingBack, "writing down how to go back"), true
	}
	return record(l, v1alpha1.PhasePreflight, why+"writing down what will be changed, and what to go back to"), true
}

// attempt is the attempt under way, or a new one.
func (r roll) attempt() *Attempt {
	if r.own() {
		attempt := *r.Ledger.Attempt
		return &attempt
	}
	if r.back { // somebody has changed what it was rolled back to
		refused := *r.Ledger.Refused
		return &Attempt{Asked: r.asked, Before: &refused.Back, Failed: &refused.Failed}
	}
	a := &Attempt{Asked: r.asked, Before: r.Config.revision()}
	switch {
	case r.Ledger.Attempt != nil && r.Ledger.Attempt.Before != nil:
		a.Before = r.Ledger.Attempt.Before
	case r.Ledger.latest() != nil:
		a.Before = r.Ledger.latest()
	}
	if len(r.want.Against(a.Before.Settings, r.open())) == 0 { // it would lead back here
		a.Before = nil
	}
	return a
}
