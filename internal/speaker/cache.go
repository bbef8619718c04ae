package speaker

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// Mapper knows the kinds that a speaker reads and writes: it need not ask for them, and so starts while the API server is away.
func Mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Service"), corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
	} {
		m.Add(kind, meta.RESTScopeNamespace)
	}
	for _, kind := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Node"), v1alpha1.GroupVersion.WithKind("NodeNetworking"),
	} {
		m.Add(kind, meta.RESTScopeRoot)
	}
	return m
}

// CacheOptions watch no more than is read, and keep of each object only what is: every node holds all of the cluster's Services and
// endpoints.
func CacheOptions(scheme *runtime.Scheme, namespace string) cache.Options {
	return cache.Options{Scheme: scheme, Mapper: Mapper(), ByObject: map[client.Object]cache.ByObject{
		&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{
			namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", v1alpha1.ConfigurationConfigMap)}}},
		&corev1.Service{}:            {Transform: slim(slimService(namespace))},
		&discoveryv1.EndpointSlice{}: {Transform: slim(slimEndpoints)},
		&corev1.Node{}:               {Transform: slim(slimNode)},
	}}
}

// slim makes a cache's transformation. What is not of the kind, as the mark of a deletion that was missed, stays as it is.
func slim[T any](drop func(*T)) func(any) (any, error) {
	return func(o any) (any, error) {
		if object, ok := o.(*T); ok {
			drop(object)
		}
		return o, nil
	}
}

// slimService keeps of managedFields what says whether we wrote the status, and the ports of what connections are tried to.
func slimService(namespace string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		var ours []metav1.ManagedFieldsEntry
		for _, m := range svc.ManagedFields {
			if m.Manager == v1alpha1.FieldManager {
				ours = append(ours, m)
			}
		}
		svc.ManagedFields = ours
		svc.Annotations = only(svc.Annotations, v1alpha1.AllocatedAnnotation)
		svc.Labels, svc.Spec.Selector = nil, nil
		if !checked(svc, namespace) {
			svc.Spec.Ports = nil
		}
	}
}

// slimEndpoints keeps which Service the endpoints are of, on which nodes they are, and how they do.
func slimEndpoints(es *discoveryv1.EndpointSlice) {
	es.ManagedFields, es.Annotations, es.Ports = nil, nil, nil
	es.Labels = only(es.Labels, discoveryv1.LabelServiceName)
	for i := range es.Endpoints {
		es.Endpoints[i] = discoveryv1.Endpoint{NodeName: es.Endpoints[i].NodeName, Conditions: es.Endpoints[i].Conditions}
	}
}

// slimNode keeps the labels, which advertisements select by, the conditions, the addresses and the kubelet's port.
func slimNode(n *corev1.Node) {
	n.ManagedFields, n.Annotations, n.Spec = nil, nil, corev1.NodeSpec{}
	n.Status = corev1.NodeStatus{Addresses: n.Status.Addresses, Conditions: n.Status.Conditions, DaemonEndpoints: n.Status.DaemonEndpoints}
}

// only returns a map with no other key.
func only(m map[string]string, key string) map[string]string {
	value, has := m[key]
	if !has {
		return nil
	}
	return map[string]string{key: value}
}
