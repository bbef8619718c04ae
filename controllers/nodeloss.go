package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/nodeloss"
)

// NodeLossReconciler says of the pods of lost nodes that they are not ready, where that is asked for, so that Services leave them out long before
// Kubernetes itself finds that the node is lost. It runs in every manager, not in the one that leads alone: that one may be on the lost node, and the
// next leads after fifteen seconds. What two do at once, the API server lets one do.
type NodeLossReconciler struct {
	client   client.Client
	live     client.Reader
	recorder recorder
	now      func() time.Time
	// marked are the lost nodes whose pods were marked, once for each loss: a kubelet that lives after all is right when it says otherwise.
	marked map[string]bool
	pods   prometheus.Counter
}

func newNodeLossReconciler(mgr ctrl.Manager) *NodeLossReconciler {
	return &NodeLossReconciler{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: newRecorder(mgr), now: time.Now, marked: map[string]bool{},
		pods: registered(metrics.Registry, prometheus.NewCounter(prometheus.CounterOpts{Name: "lanyard_pods_marked_not_ready_total",
			Help: "Pods of lost nodes that were marked not ready since the manager started."})),
	}
}

// SetupWithManager registers the reconciler.
func (r *NodeLossReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("nodeloss").
		Watches(&v1alpha1.ClusterNetworking{}, toSingleton, builder.WithPredicates(specChanged)).
		Watches(&v1alpha1.NodeNetworking{}, toSingleton, builder.WithPredicates(silenceChanged)).
		WithOptions(inEveryManager()).
		Complete(r)
}

// inEveryManager is singleWorker that does not wait for the lead.
func inEveryManager() controller.Options {
	o := singleWorker
	o.NeedLeaderElection = ptr.To(false)
	return o
}

// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch

// Reconcile marks the pods of each node that is lost once. What the cache says is confirmed by the API server itself: a manager that is cut off from it
// knows nothing new.
func (r *NodeLossReconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	cnet, err := clusterNetworking(ctx, r.client)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !marksPods(cnet) {
		r.marked = map[string]bool{}
		return ctrl.Result{}, nil
	}
	suspected, err := r.lost(ctx, r.client)
	if err != nil || !r.anyUnmarked(suspected) {
		return ctrl.Result{}, err
	}
	lost, err := r.lost(ctx, r.live)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.markNew(ctx, cnet, lost)
}

// markNew marks the pods of those lost nodes whose pods are not marked yet. One node that fails is tried again, and keeps no other waiting.
func (r *NodeLossReconciler) markNew(ctx context.Context, cnet *v1alpha1.ClusterNetworking, lost []nodeloss.Loss) error {
	var failures []error
	for _, loss := range lost {
		if r.marked[loss.Node] {
			continue
		}
		n, err := r.mark(ctx, loss)
		if apierrors.IsConflict(err) { // with another manager, or whoever else writes pods: it is looked at again
			n2, again := r.mark(ctx, loss)
			n, err = n+n2, again
		}
		r.report(ctx, cnet, loss, n, err)
		if r.marked[loss.Node] = err == nil; err != nil {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// marksPods says whether the object asks for it.
func marksPods(cnet *v1alpha1.ClusterNetworking) bool {
	return cnet != nil && cnet.Spec.ManagementState != v1alpha1.Paused &&
		cnet.Spec.FailureDetection.MarkPodsNotReady == v1alpha1.MarkPodsNotReadyEnabled
}

// lost decides which nodes are lost by the reports that the reader shows. Those of nodes that are gone are not among them: they go with the Node.
func (r *NodeLossReconciler) lost(ctx context.Context, reader client.Reader) ([]nodeloss.Loss, error) {
	var nodes v1alpha1.NodeNetworkingList
	if err := reader.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("listing NodeNetworkings: %w", err)
	}
	reports := make([]nodeloss.Report, 0, len(nodes.Items))
	for _, n := range nodes.Items {
		report := nodeloss.Report{Node: n.Name, Silent: map[string]time.Time{}}
		for _, s := range n.Status.SilentNodes {
			report.Silent[s.Name] = s.Since.Time
		}
		reports = append(reports, report)
	}
	return nodeloss.Lost(reports, r.now()), nil
}

// anyUnmarked says whether any of these nodes is news, and forgets those that are lost no longer.
func (r *NodeLossReconciler) anyUnmarked(lost []nodeloss.Loss) bool {
	maps.DeleteFunc(r.marked, func(node string, _ bool) bool {
		return !slices.ContainsFunc(lost, func(l nodeloss.Loss) bool { return l.Node == node })
	})
	return slices.ContainsFunc(lost, func(l nodeloss.Loss) bool { return !r.marked[l.Node] })
}

// mark says of the node's pods that they are not ready, as the node controller does, and returns of how many.
func (r *NodeLossReconciler) mark(ctx context.Context, loss nodeloss.Loss) (int, error) {
	var pods corev1.PodList
	if err := r.live.List(ctx, &pods, client.MatchingFields{"spec.nodeName": loss.Node}); err != nil {
		return 0, fmt.Errorf("listing the pods of node %s: %w", loss.Node, err)
	}
	var (
		n      atomic.Int64
		writes errgroup.Group
	)
	writes.SetLimit(parallelWrites)
	for i := range pods.Items {
		if pod := &pods.Items[i]; podOf(pod).Ready {
			writes.Go(func() error {
				patch, err := notReady(pod, loss, r.now())
				if err == nil {
					err = r.client.Status().Patch(ctx, pod, patch, client.FieldOwner(v1alpha1.FieldManager))
				}
				switch {
				case apierrors.IsNotFound(err):
				case err != nil:
					return fmt.Errorf("marking pod %s/%s not ready: %w", pod.Namespace, pod.Name, err)
				default:
					n.Add(1)
				}
				return nil
			})
		}
	}
	err := writes.Wait()
	return int(n.Load()), err
}

// notReady is the patch of a pod's status. It holds for the pod as it was read: if somebody has written it since, its kubelet may live.
func notReady(pod *corev1.Pod, loss nodeloss.Loss, now time.Time) (client.Patch, error) {
	document, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: v1alpha1.ReasonNodeLost, Message: loss.Message(), LastTransitionTime: metav1.NewTime(now),
		}}},
	})
	if err != nil {
		return nil, fmt.Errorf("writing a patch: %w", err)
	}
	return client.RawPatch(types.StrategicMergePatchType, document), nil
}

// report tells what was done about a lost node.
func (r *NodeLossReconciler) report(ctx context.Context, cnet *v1alpha1.ClusterNetworking, loss nodeloss.Loss, pods int, err error) {
	if pods == 0 && err == nil {
		return // another manager was faster, or there are none
	}
	r.pods.Add(float64(pods))
	logf.FromContext(ctx).Info("marked the pods of a lost node", "node", loss.Node, "pods", pods, "why", loss.Message(), "complete", err == nil)
	if apierrors.IsConflict(err) {
		return // somebody writes these pods all the time; it is tried again
	}
	if err != nil {
		r.recorder.Eventf(cnet, corev1.EventTypeWarning, v1alpha1.ReasonNodeLost, "MarkPodsNotReady",
			"%s; marking its pods not ready failed, and is tried again: %v", loss.Message(), err)
		return
	}
	r.recorder.Eventf(cnet, corev1.EventTypeWarning, v1alpha1.ReasonNodeLost, "MarkPodsNotReady",
		"%s; %d of its pods are marked not ready, so that Services leave them out", loss.Message(), pods)
}

// silenceChanged lets a speaker's report through when it says of other nodes that nothing answers there.
var silenceChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, was := e.ObjectOld.(*v1alpha1.NodeNetworking)
		after, is := e.ObjectNew.(*v1alpha1.NodeNetworking)
		return !was || !is || !equality.Semantic.DeepEqual(before.Status.SilentNodes, after.Status.SilentNodes)
	},
}
