package controllers

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/conditions"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// KubeProxyReconciler makes kube-proxy run as the spec asks: it edits kubeadm's ConfigMap, then restarts one kube-proxy after the other.
type KubeProxyReconciler struct {
	client   client.Client
	board    *board
	ownNode  string
	speakers string // the namespace of the speakers
	now      func() time.Time
	waits    kubeproxy.Waits
}

func newKubeProxyReconciler(mgr ctrl.Manager, b *board, o Options) *KubeProxyReconciler {
	return &KubeProxyReconciler{client: mgr.GetClient(), board: b, ownNode: o.NodeName, speakers: o.Namespace, now: time.Now,
		waits: kubeproxy.Waits{}}
}

// SetupWithManager registers the reconciler.
func (r *KubeProxyReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("kubeproxy").
		Watches(&v1alpha1.ClusterNetworking{}, toSingleton, builder.WithPredicates(specChanged)).
		Watches(&corev1.ConfigMap{}, toSingleton, builder.WithPredicates(named(kubeproxy.Name))).
		Watches(&appsv1.DaemonSet{}, toSingleton).
		Watches(&corev1.Pod{}, toSingleton).
		Watches(&corev1.Node{}, toSingleton, builder.WithPredicates(nodeChanged)).
		Watches(&v1alpha1.NodeNetworking{}, toSingleton).
		WithOptions(singleWorker).
		Complete(r)
}

// +kubebuilder:rbac:groups="",namespace=kube-system,resources=configmaps,resourceNames=kube-proxy,verbs=get;list;watch;update
// +kubebuilder:rbac:groups="",namespace=kube-system,resources=pods,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=apps,namespace=kube-system,resources=daemonsets,resourceNames=kube-proxy,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch

// Reconcile takes the one next step of the roll.
func (r *KubeProxyReconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	observed, err := r.gather(ctx)
	if err != nil {
		r.report(observed, kubeproxy.Decision{}, err)
		return ctrl.Result{}, err
	}
	decision := kubeproxy.Plan(observed.facts)
	err = r.apply(ctx, observed, decision)
	if apierrors.IsConflict(err) { // somebody else wrote it meanwhile: plan anew over what they wrote
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	r.report(observed, decision, err)
	return ctrl.Result{RequeueAfter: decision.After}, err
}

// kubeProxyObservation is all that a pass decides from.
type kubeProxyObservation struct {
	facts     kubeproxy.Facts
	configMap *corev1.ConfigMap
	revision  revision
}

func (r *KubeProxyReconciler) gather(ctx context.Context) (kubeProxyObservation, error) {
	o := kubeProxyObservation{facts: kubeproxy.Facts{OwnNode: r.ownNode, Now: r.now()}}
	cnet, err := clusterNetworking(ctx, r.client)
	if err != nil {
		return o, err
	}
	if cnet != nil {
		o.revision = revisionOf(cnet)
		o.facts.Spec = cnet.Spec.KubeProxy
		o.facts.Announcing = len(cnet.Spec.L2Advertisements) > 0
		o.facts.Paused = cnet.Spec.ManagementState == v1alpha1.Paused
	}
	key := types.NamespacedName{Namespace: kubeproxy.Namespace, Name: kubeproxy.Name}
	cm, err := getOrNil(ctx, r.client, key, &corev1.ConfigMap{})
	if err != nil {
		return o, err
	}
	ds, err := getOrNil(ctx, r.client, key, &appsv1.DaemonSet{})
	if err != nil {
		return o, err
	}
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes); err != nil {
		return o, fmt.Errorf("listing nodes: %w", err)
	}
	o.facts.Layout = kubeproxy.CheckLayout(kubeproxy.Evidence{ConfigMap: cm, DaemonSet: ds, Nodes: nodes.Items})
	if cm != nil {
		o.configMap = cm
		o.facts.Document = cm.Data[kubeproxy.ConfigKey]
		o.facts.Written = writtenAt(cm)
	}
	if o.facts.Nodes, err = r.nodes(ctx, ds, nodes.Items); err != nil {
		return o, err
	}
	r.waits.Mark(o.facts.Nodes, o.facts.Now)
	return o, nil
}

// getOrNil reads an object; nil when it does not exist.
func getOrNil[T client.Object](ctx context.Context, c client.Reader, key types.NamespacedName, into T) (T, error) {
	var none T
	err := c.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("reading %T %s: %w", into, key, err)
	}
	return into, nil
}

// writtenAt is when kube-proxy's configuration was last written, by whomever, as the object's managedFields say; zero when nobody is
// known to have written it.
func writtenAt(cm *corev1.ConfigMap) time.Time {
	var latest time.Time
	for _, m := range cm.ManagedFields {
		if m.Time != nil && kubeproxy.WroteConfig(m) && m.Time.After(latest) {
			latest = m.Time.Time
		}
	}
	return latest
}

// apply takes the step that was decided.
func (r *KubeProxyReconciler) apply(ctx context.Context, o kubeProxyObservation, d kubeproxy.Decision) error {
	log := logf.FromContext(ctx)
	switch d.Action {
	case kubeproxy.Write:
		cm := o.configMap.DeepCopy()
		cm.Data[kubeproxy.ConfigKey] = d.Edited
		// The resourceVersion goes along: a write over somebody else's is refused.
		if err := r.client.Update(ctx, cm, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
			return fmt.Errorf("writing ConfigMap %s/%s: %w", cm.Namespace, cm.Name, err)
		}
		log.Info("wrote kube-proxy's configuration", "changes", d.Changes)
	case kubeproxy.Restart:
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: kubeproxy.Namespace, Name: d.Restart.Name}}
		uid := types.UID(d.Restart.UID)
		if err := r.client.Delete(ctx, pod, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("restarting kube-proxy pod %s: %w", d.Restart.Name, err)
		}
		log.Info("restarted kube-proxy", "pod", d.Restart.Name, "progress", d.Message)
	case kubeproxy.Rest, kubeproxy.Wait:
	}
	return nil
}

// report posts how kube-proxy stands.
func (r *KubeProxyReconciler) report(o kubeProxyObservation, d kubeproxy.Decision, err error) {
	standing := map[kubeproxy.Progress]conditions.Standing{
		kubeproxy.Done: conditions.Settled, kubeproxy.Underway: conditions.Working, kubeproxy.Stuck: conditions.Failing,
	}[d.Progress]
	report := kubeProxyReport{revision: o.revision, verdict: conditions.Verdict{Standing: standing, Reason: d.Reason, Message: d.Message}}
	if err != nil {
		report.verdict = conditions.Verdict{Standing: conditions.Failing, Reason: v1alpha1.ReasonApplyFailed, Message: err.Error() + "; it is tried again"}
	}
	report.status.Mode, report.status.ObservedModes = kubeproxy.Observe(o.facts.Nodes)
	report.status.UpdatedNodes, report.status.TotalNodes = int32(d.Updated), int32(d.Total) //nolint:gosec // numbers of nodes
	if o.facts.Spec != nil {
		report.status.DesiredMode = o.facts.Spec.Mode
	}
	r.board.post(func(b *reports) { b.kubeProxy = &report })
}
