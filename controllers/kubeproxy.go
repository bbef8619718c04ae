package controllers

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// KubeProxyReconciler makes kube-proxy run as the spec asks: it has every node try the new configuration, edits kubeadm's ConfigMap, then
// restarts one kube-proxy after the other, and takes all of them back when one fails.
type KubeProxyReconciler struct {
	client    client.Client
	live      client.Reader
	recorder  recorder
	board     *board
	ownNode   string
	namespace string // Lanyard's own
	forbidden bool   // there is no right to change kube-proxy
	now       func() time.Time
	questions probeQuestions
	probes    *probes
	metrics   kubeProxyMetrics

	// What the cluster does not say, and a manager that restarts finds out anew.
	waits          kubeproxy.Waits
	verified, away since
	logs           crashLogs
	notes          []string
	calico         calicoSeen
	announced      string
}

func newKubeProxyReconciler(mgr ctrl.Manager, b *board, o Options) *KubeProxyReconciler {
	questions := newPodQuestions(corev1client.NewForConfigOrDie(mgr.GetConfig()))
	return &KubeProxyReconciler{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: newRecorder(mgr), board: b, ownNode: o.NodeName,
		namespace: o.Namespace, forbidden: o.LeaveKubeProxy, now: time.Now, questions: questions, probes: newProbes(mgr.GetClient(), o.Namespace, questions),
		metrics: newKubeProxyMetrics(metrics.Registry), waits: kubeproxy.Waits{}, verified: since{}, away: since{}, logs: crashLogs{},
	}
}

// SetupWithManager registers the reconciler.
func (r *KubeProxyReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("kubeproxy").
		Watches(&v1alpha1.ClusterNetworking{}, toSingleton, builder.WithPredicates(specChanged)).
		Watches(&corev1.ConfigMap{}, toSingleton, builder.WithPredicates(predicate.Or(named(kubeproxy.Name), named(v1alpha1.KubeProxyLedger)))).
		Watches(&appsv1.DaemonSet{}, toSingleton).
		Watches(&corev1.Pod{}, toSingleton).
		Watches(&corev1.Node{}, toSingleton, builder.WithPredicates(nodeChanged)).
		Watches(&v1alpha1.NodeNetworking{}, toSingleton).
		WithOptions(singleWorker).
		Complete(r)
}

// What changes kube-proxy stands in roles of its own, which an installation that never does can leave out.
// +kubebuilder:rbac:groups="",namespace=kube-system,roleName=lanyard-kube-proxy,resources=configmaps,resourceNames=kube-proxy,verbs=update
// +kubebuilder:rbac:groups="",namespace=kube-system,roleName=lanyard-kube-proxy,resources=pods,verbs=delete
// +kubebuilder:rbac:groups="",namespace=kube-system,roleName=lanyard-kube-proxy,resources=pods/log,verbs=get
// +kubebuilder:rbac:groups="",namespace=kube-system,resources=configmaps,resourceNames=kube-proxy,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=kube-system,resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,namespace=kube-system,resources=daemonsets,resourceNames=kube-proxy,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=daemonsets,resourceNames=calico-node,verbs=get
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch

// Reconcile takes the one next step of the change.
func (r *KubeProxyReconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	observed, err := r.gather(ctx)
	if err != nil {
		r.report(observed, kubeproxy.Decision{}, err)
		return ctrl.Result{}, err
	}
	decision := kubeproxy.Plan(observed.facts)
	err = r.apply(ctx, observed, decision)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) { // somebody else wrote it meanwhile: plan anew over what they wrote
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	r.report(observed, decision, err)
	r.announce(ctx, observed, decision)
	return ctrl.Result{RequeueAfter: decision.After}, err
}

// apply takes the step that was decided, and keeps what goes with it: the probes, and the nodes whose addresses others should answer for.
func (r *KubeProxyReconciler) apply(ctx context.Context, o kubeProxyObservation, d kubeproxy.Decision) error {
	r.verified.keep(d.Verified, o.facts.Now)
	r.away.keep(d.Away, o.facts.Now)
	if o.facts.Paused {
		return nil
	}
	if o.facts.Layout.Managed {
		if err := r.probes.ensure(ctx, d.Probes, o.setup); err != nil {
			return err
		}
	}
	if err := r.sendAway(ctx, d.Away); err != nil {
		return err
	}
	switch d.Action {
	case kubeproxy.Record:
		return r.record(ctx, o, *d.Ledger)
	case kubeproxy.Write:
		return r.write(ctx, o.configMap.DeepCopy(), d)
	case kubeproxy.Restart:
		return r.restart(ctx, d)
	case kubeproxy.Rest, kubeproxy.Wait:
	}
	return nil
}

func (r *KubeProxyReconciler) write(ctx context.Context, cm *corev1.ConfigMap, d kubeproxy.Decision) error {
	cm.Data[kubeproxy.ConfigKey] = d.Edited
	// The resourceVersion goes along: a write over somebody else's is refused.
	if err := r.client.Update(ctx, cm, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", cm.Namespace, cm.Name, err)
	}
	logf.FromContext(ctx).Info("wrote kube-proxy's configuration", "changes", d.Changes)
	return nil
}

func (r *KubeProxyReconciler) restart(ctx context.Context, d kubeproxy.Decision) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: kubeproxy.Namespace, Name: d.Restart.Name}}
	uid := types.UID(d.Restart.UID)
	if err := r.client.Delete(ctx, pod, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("restarting kube-proxy pod %s: %w", d.Restart.Name, err)
	}
	logf.FromContext(ctx).Info("restarted kube-proxy", "pod", d.Restart.Name, "progress", d.Message)
	return nil
}

// record writes the ledger. An old copy in the cache makes the write fail, so that nothing that stands there is lost.
func (r *KubeProxyReconciler) record(ctx context.Context, o kubeProxyObservation, l kubeproxy.Ledger) error {
	data, err := ledgerData(l)
	if err != nil {
		return err
	}
	if o.ledger == nil {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: v1alpha1.KubeProxyLedger,
			Labels: map[string]string{"app.kubernetes.io/managed-by": "lanyard"}}, Data: data}
		err = r.client.Create(ctx, cm, client.FieldOwner(v1alpha1.FieldManager))
	} else {
		cm := o.ledger.DeepCopy()
		if cm.Data == nil {
			cm.Data = map[string]string{}
		}
		maps.Copy(cm.Data, data)
		err = r.client.Patch(ctx, cm, client.MergeFromWithOptions(o.ledger, client.MergeFromWithOptimisticLock{}), client.FieldOwner(v1alpha1.FieldManager))
	}
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", r.namespace, v1alpha1.KubeProxyLedger, err)
	}
	r.metrics.recorded(o.facts.Ledger, l)
	return nil
}

// ledgerData is a ledger as its ConfigMap holds it, and whether kube-proxy is still to be given back: who removes Lanyard waits for that.
func ledgerData(l kubeproxy.Ledger) (map[string]string, error) {
	text, err := l.Encode()
	if err != nil {
		return nil, err
	}
	restore := v1alpha1.RestoreNone
	if l.Restores() {
		restore = v1alpha1.RestorePending
	}
	return map[string]string{v1alpha1.LedgerKey: text, v1alpha1.LedgerRestoreKey: restore}, nil
}

// sendAway tells the speakers which nodes to leave out while another is left. Without a configuration there are no speakers to tell.
func (r *KubeProxyReconciler) sendAway(ctx context.Context, nodes []string) error {
	key := types.NamespacedName{Namespace: r.namespace, Name: v1alpha1.ConfigurationConfigMap}
	cm, err := getOrNil(ctx, r.client, key, &corev1.ConfigMap{})
	if err != nil || cm == nil {
		return err
	}
	text := strings.Join(nodes, "\n")
	if cm.Data[v1alpha1.AwayKey] == text {
		return nil
	}
	next := cm.DeepCopy()
	next.Data[v1alpha1.AwayKey] = text
	if len(nodes) == 0 {
		delete(next.Data, v1alpha1.AwayKey)
	}
	if err := r.client.Patch(ctx, next, client.MergeFrom(cm), client.FieldOwner(v1alpha1.FieldManager+"-away")); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("telling the speakers which nodes to leave out: %w", err)
	}
	return nil
}
