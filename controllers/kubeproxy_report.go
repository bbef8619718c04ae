package controllers

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/conditions"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// report posts how kube-proxy stands.
func (r *KubeProxyReconciler) report(o kubeProxyObservation, d kubeproxy.Decision, err error) {
	standing := map[kubeproxy.Progress]conditions.Standing{
		kubeproxy.Done: conditions.Settled, kubeproxy.Underway: conditions.Working, kubeproxy.Stuck: conditions.Failing,
	}[d.Progress]
	report := kubeProxyReport{revision: o.revision, verdict: conditions.Verdict{Standing: standing, Reason: d.Reason, Message: d.Message}}
	if err != nil {
		report.verdict = conditions.Verdict{Standing: conditions.Failing, Reason: v1alpha1.ReasonApplyFailed, Message: err.Error() + "; it is tried again"}
	}
	s := &report.status
	s.Mode, s.ObservedModes = kubeproxy.Observe(o.facts.Nodes)
	s.UpdatedNodes, s.TotalNodes = int32(d.Updated), int32(d.Total) //nolint:gosec // numbers of nodes
	s.Phase, s.PlannedDiff = d.Phase, d.Diff()
	if d.Failure != nil {
		s.LastFailure = &v1alpha1.KubeProxyFailure{Node: d.Failure.Node, Phase: d.Failure.Phase, Message: d.Failure.Message}
	}
	if o.facts.Spec != nil {
		s.DesiredMode = o.facts.Spec.Mode
	}
	if outlook, ok := o.outlook(); ok {
		s.Warnings, report.deprecation = r.warnings(o, outlook, d), kubeproxy.DeprecationOf(outlook)
	}
	r.board.post(func(b *reports) { b.kubeProxy = &report })
	r.metrics.observe(d, s.ObservedModes)
}

// maxWarnings bounds what the status lists.
const maxWarnings = 20

// outlook is what warnings are judged from; not ok where kube-proxy is not managed, or what it reads cannot be read.
func (o kubeProxyObservation) outlook() (outlook kubeproxy.Outlook, ok bool) {
	if o.facts.Spec == nil || !o.facts.Layout.Managed || o.facts.Config.Err != nil {
		return outlook, false
	}
	mode, declared := kubeproxy.Asked(o.facts)
	outlook = kubeproxy.Outlook{Declared: declared, Document: o.facts.Config.Document, Image: o.facts.Image, Mode: mode,
		Announcing: o.facts.Announcing, Uses: o.uses, Calico: o.calico}
	for _, n := range o.facts.Nodes {
		if n.Mode != "" && !slices.Contains(outlook.Running, n.Mode) {
			outlook.Running = append(outlook.Running, n.Mode)
		}
	}
	return outlook, true
}

// warnings are what may go wrong, by what the spec asks for, by what config.conf holds, and by what probes have seen on nodes.
func (r *KubeProxyReconciler) warnings(o kubeProxyObservation, outlook kubeproxy.Outlook, d kubeproxy.Decision) []string {
	all := kubeproxy.Warnings(outlook)
	for _, doubt := range kubeproxy.Doubts(outlook.Declared, outlook.Document, outlook.Image) {
		all = append(all, doubt.Message)
	}
	if seen := kubeproxy.NotesOf(o.facts.Probes); len(seen) > 0 || d.Phase == v1alpha1.PhasePreflight {
		r.notes = seen
	}
	all = append(all, r.notes...)
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), maxWarnings)]
}

// announce tells each new thing that is done or goes wrong, in an Event and in the log. Without an object, that is all there is to see.
func (r *KubeProxyReconciler) announce(ctx context.Context, o kubeProxyObservation, d kubeproxy.Decision) {
	text, fresh := headline(r.announced, d)
	if !fresh {
		return
	}
	r.announced = text
	log, kind := logf.FromContext(ctx).WithValues("phase", d.Phase, "reason", d.Reason, "message", d.Message), corev1.EventTypeNormal
	if d.Progress == kubeproxy.Stuck {
		kind = corev1.EventTypeWarning
		log.Error(nil, "kube-proxy needs a person")
	} else {
		log.Info("kube-proxy")
	}
	if about := o.about(); about != nil {
		r.recorder.Eventf(about, kind, d.Reason, string(d.Phase), "%s", d.Message)
	}
}

// headline is a decision in short, by which it is told once, and whether it is to be told after the one before. What only waits is told by its
// phase alone: its message counts nodes and seconds.
func headline(before string, d kubeproxy.Decision) (text string, fresh bool) {
	text = string(d.Phase) + d.Reason
	if d.Action == kubeproxy.Write || d.Action == kubeproxy.Restart || d.Action == kubeproxy.Record || d.Progress == kubeproxy.Stuck {
		text += d.Message
	}
	return text, text != before && (before != "" || d.Phase != v1alpha1.PhaseIdle)
}

// about is what Events are about: the object; or once it is gone, what is still done: kube-proxy's ConfigMap, or else the ledger. It is nil when
// there is none of them.
func (o kubeProxyObservation) about() client.Object {
	switch {
	case o.object != nil:
		return o.object
	case o.configMap != nil:
		return o.configMap
	case o.ledger != nil:
		return o.ledger
	}
	return nil
}
