package controllers

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/endpoints"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// kubernetesService is the API servers' own Service; its EndpointSlice, which they write themselves, has the same name.
const kubernetesService = "kubernetes"

// EndpointsReconciler keeps the list of API servers that the manager and the speakers have as a file, and reach without kube-proxy.
type EndpointsReconciler struct {
	client    client.Client
	namespace string
	// remarked is what was last said of the sources: it is said once.
	remarked string
}

func newEndpointsReconciler(mgr ctrl.Manager, o Options) *EndpointsReconciler {
	return &EndpointsReconciler{client: mgr.GetClient(), namespace: o.Namespace}
}

// SetupWithManager registers the reconciler. It watches the list too, so that an edit by hand does not last.
func (r *EndpointsReconciler) SetupWithManager(mgr ctrl.Manager) error {
	read := predicate.Or(named(kubeproxy.Name), named(endpoints.ConfigMap))
	return ctrl.NewControllerManagedBy(mgr).
		Named("endpoints").
		Watches(&v1alpha1.ClusterNetworking{}, toSingleton, builder.WithPredicates(specChanged)).
		Watches(&corev1.ConfigMap{}, toSingleton, builder.WithPredicates(read)).
		Watches(&corev1.Service{}, toSingleton, builder.WithPredicates(named(kubernetesService))).
		Watches(&discoveryv1.EndpointSlice{}, toSingleton).
		WithOptions(singleWorker).
		Complete(r)
}

// +kubebuilder:rbac:groups=discovery.k8s.io,namespace=default,resources=endpointslices,resourceNames=kubernetes,verbs=get;list;watch

// Reconcile writes the list when it is another one. It needs no ClusterNetworking: without one, kube-proxy may be what is broken.
func (r *EndpointsReconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	cnet, err := clusterNetworking(ctx, r.client)
	if err != nil {
		return ctrl.Result{}, err
	}
	if cnet != nil && cnet.Spec.ManagementState == v1alpha1.Paused {
		return ctrl.Result{}, nil // nothing is written
	}
	sources, listed, err := r.gather(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	list, remarks := endpoints.List(sources)
	r.report(ctx, remarks)
	text := endpoints.Format(list)
	if text == "" || text == listed {
		return ctrl.Result{}, nil
	}
	if err := r.apply(ctx, text); err != nil {
		return ctrl.Result{}, err
	}
	logf.FromContext(ctx).Info("wrote the list of API servers", "endpoints", strings.Fields(text))
	return ctrl.Result{}, nil
}

// gather reads what is known of the API servers, and the list as it stands.
func (r *EndpointsReconciler) gather(ctx context.Context) (sources endpoints.Sources, listed string, err error) {
	proxy, err := getOrNil(ctx, r.client, client.ObjectKey{Namespace: kubeproxy.Namespace, Name: kubeproxy.Name}, &corev1.ConfigMap{})
	if err != nil {
		return sources, "", err
	}
	if proxy != nil {
		sources.Kubeconfig = proxy.Data[kubeproxy.KubeconfigKey]
	}
	service := client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: kubernetesService}
	if sources.Service, err = getOrNil(ctx, r.client, service, &corev1.Service{}); err != nil {
		return sources, "", err
	}
	var slices discoveryv1.EndpointSliceList
	if err := r.client.List(ctx, &slices, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		return sources, "", fmt.Errorf("listing the API servers' EndpointSlices: %w", err)
	}
	sources.Slices = slices.Items
	cm, err := getOrNil(ctx, r.client, client.ObjectKey{Namespace: r.namespace, Name: endpoints.ConfigMap}, &corev1.ConfigMap{})
	if err != nil {
		return sources, "", err
	}
	if cm != nil {
		listed = cm.Data[endpoints.Key]
		sources.Listed, _ = endpoints.Parse(listed)
	}
	return sources, listed, nil
}

// apply writes the list, also into a ConfigMap that a person made: where kube-proxy is broken before Lanyard comes, a list by hand is how it
// gets in. Nobody owns it, like the configuration: it serves the manager that comes after this one.
func (r *EndpointsReconciler) apply(ctx context.Context, text string) error {
	cm := applycorev1.ConfigMap(endpoints.ConfigMap, r.namespace).
		WithLabels(map[string]string{"app.kubernetes.io/name": "lanyard", "app.kubernetes.io/managed-by": "lanyard"}).
		WithData(map[string]string{endpoints.Key: text})
	if err := r.client.Apply(ctx, cm, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", r.namespace, endpoints.ConfigMap, err)
	}
	return nil
}

// report says what is left out of the list, once.
func (r *EndpointsReconciler) report(ctx context.Context, remarks []string) {
	said := strings.Join(remarks, "; ")
	if said != "" && said != r.remarked {
		logf.FromContext(ctx).Info("the list of API servers lacks one", "remarks", said)
	}
	r.remarked = said
}
