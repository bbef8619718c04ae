package controllers

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// Options are what the reconcilers need to know about the manager that runs them.
type Options struct {
	// Namespace is the manager's own, in which the speakers run.
	Namespace string
	// Deployment is the manager's own Deployment: the speakers run its image and are removed with it.
	Deployment string
	// NodeName is the node that the manager runs on; its kube-proxy is restarted last. Empty when it runs outside the cluster.
	NodeName string
	// LeaveKubeProxy means that the manager has no right to change kube-proxy, whatever the object asks for.
	LeaveKubeProxy bool
	// SpeakerImage is the speakers' image when there is no such Deployment, because the manager runs outside the cluster.
	SpeakerImage string
	// WithdrawAfter is how long after the ClusterNetworking was deleted its addresses are withdrawn and its speakers removed.
	WithdrawAfter time.Duration
	// Verification is how long a Service waits until the LAN was asked about the address that it would get.
	Verification Verification
}

// Verification is how long Services wait until the LAN was asked about the addresses that they would get. Zero values wait for nothing.
type Verification struct {
	// Asked is how long while speakers report, Unasked while none does yet.
	Asked, Unasked time.Duration
}

// DefaultVerification waits somewhat longer than a speaker takes to ask, which it does ahead of time; where no speaker has reported, for as
// long as they may take to start: without them nobody answers for the address anyway.
var DefaultVerification = Verification{Asked: time.Second, Unasked: 10 * time.Second}

// Setup registers all reconcilers with the manager.
func Setup(mgr ctrl.Manager, options Options) error {
	b := newBoard()
	for _, r := range []interface{ SetupWithManager(ctrl.Manager) error }{
		newKubeProxyReconciler(mgr, b, options),
		newDataplaneReconciler(mgr, b, options),
		newAddressesReconciler(mgr, b, options),
		newStatusReconciler(mgr, b, options),
		newEndpointsReconciler(mgr, options),
		newNodeLossReconciler(mgr),
	} {
		if err := r.SetupWithManager(mgr); err != nil {
			return err
		}
	}
	return nil
}

// CacheOptions watch no more than is read: of the cluster's ConfigMaps, Secrets, Pods and DaemonSets only kube-proxy's and our own, of its
// EndpointSlices only the API servers'; and of each Service, of which there may be thousands, no more than is read.
func CacheOptions(namespace string) cache.Options {
	proxy := cache.Config{FieldSelector: fields.OneTermEqualSelector("metadata.name", kubeproxy.Name)}
	proxyPods := cache.Config{LabelSelector: kubeproxy.PodSelector()}
	apiServers := cache.Config{FieldSelector: fields.OneTermEqualSelector("metadata.name", kubernetesService)}
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.ConfigMap{}:          {Namespaces: map[string]cache.Config{kubeproxy.Namespace: proxy, namespace: {}}},
		&appsv1.DaemonSet{}:          {Namespaces: map[string]cache.Config{kubeproxy.Namespace: proxy, namespace: {}}},
		&corev1.Pod{}:                {Namespaces: map[string]cache.Config{kubeproxy.Namespace: proxyPods, namespace: {}}},
		&corev1.Secret{}:             {Namespaces: map[string]cache.Config{namespace: {}}},
		&discoveryv1.EndpointSlice{}: {Namespaces: map[string]cache.Config{metav1.NamespaceDefault: apiServers}},
		&corev1.Service{}:            {Transform: slimService},
	}}
}

// slimService keeps of managedFields who wrote the status, and of the annotations all but what kubectl keeps for itself. A mark of a deletion that was
// missed stays as it is.
func slimService(o any) (any, error) {
	if svc, ok := o.(*corev1.Service); ok {
		svc.ManagedFields = slices.Clip(slices.DeleteFunc(svc.ManagedFields, func(m metav1.ManagedFieldsEntry) bool { return m.Subresource != "status" }))
		delete(svc.Annotations, corev1.LastAppliedConfigAnnotation)
	}
	return o, nil
}

// singleton is the one request that every reconciler works on: the whole network is planned at once.
var singleton = reconcile.Request{NamespacedName: types.NamespacedName{Name: v1alpha1.ClusterNetworkingName}}

// toSingleton lets any event cause a pass over everything; passes coalesce in the queue.
var toSingleton = handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{singleton}
})

// singleWorker runs a reconciler alone and retries errors after 50 ms to 30 s.
var singleWorker = controller.Options{
	MaxConcurrentReconciles: 1,
	RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, 30*time.Second),
}

// named lets only the object of this name through.
func named(name string) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == name })
}

// specChanged lets changes of the spec through, not those of the status, which we write ourselves.
var specChanged = predicate.GenerationChangedPredicate{}

// surroundingsChanged lets changes through of a node's addresses and routers, and of what it hears of others' and of free ones; other parts of its report
// change often.
var surroundingsChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, was := e.ObjectOld.(*v1alpha1.NodeNetworking)
		after, is := e.ObjectNew.(*v1alpha1.NodeNetworking)
		return !was || !is || !equality.Semantic.DeepEqual(before.Status.Interfaces, after.Status.Interfaces) ||
			!slices.Equal(before.Status.Gateways, after.Status.Gateways) ||
			!equality.Semantic.DeepEqual(before.Status.Foreign, after.Status.Foreign) || !slices.Equal(before.Status.Free, after.Status.Free)
	},
}

// nodeChanged lets changes through that matter to a roll: the node comes, goes, or turns Ready or not. Its heartbeat does not.
var nodeChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, was := e.ObjectOld.(*corev1.Node)
		after, is := e.ObjectNew.(*corev1.Node)
		return !was || !is || nodeReady(before) != nodeReady(after)
	},
}

// nodeReady says whether the node's kubelet reports that it is Ready.
func nodeReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
