package speaker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// large are the parts of an object's metadata that nobody reads, and one label and one annotation that somebody does.
func large(label, annotation string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "ns", Name: "name", UID: types.UID("uid"), ResourceVersion: "7",
		Labels:        map[string]string{label: "svc", "team": "a"},
		Annotations:   map[string]string{annotation: "192.168.1.200=lan-pool", "kubectl.kubernetes.io/last-applied-configuration": "{…}"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: "Update"}},
	}
}

// TestTheCacheKeepsWhatIsRead, and drops the rest.
func TestTheCacheKeepsWhatIsRead(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: large("app", v1alpha1.AllocatedAnnotation)}
	svc.Spec = corev1.ServiceSpec{Type: "LoadBalancer", ExternalTrafficPolicy: "Local",
		Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": "web"}}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.168.1.200"}}
	svc.ManagedFields = append(svc.ManagedFields, metav1.ManagedFieldsEntry{Manager: v1alpha1.FieldManager, Subresource: "status"})
	wantSvc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "name", UID: "uid", ResourceVersion: "7",
		Annotations:   map[string]string{v1alpha1.AllocatedAnnotation: "192.168.1.200=lan-pool"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: v1alpha1.FieldManager, Subresource: "status"}}}}
	wantSvc.Spec = corev1.ServiceSpec{Type: "LoadBalancer", ExternalTrafficPolicy: "Local"}
	wantSvc.Status = svc.Status

	ready := discoveryv1.EndpointConditions{Ready: ptr.To(true)}
	es := &discoveryv1.EndpointSlice{ObjectMeta: large(discoveryv1.LabelServiceName, "note"), AddressType: "IPv4",
		Ports:     []discoveryv1.EndpointPort{{Port: ptr.To[int32](80)}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, NodeName: ptr.To("w1"), Conditions: ready, TargetRef: &corev1.ObjectReference{Kind: "Pod"}}}}
	wantES := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "name", UID: "uid", ResourceVersion: "7",
		Labels: map[string]string{discoveryv1.LabelServiceName: "svc"}}, AddressType: "IPv4",
		Endpoints: []discoveryv1.Endpoint{{NodeName: ptr.To("w1"), Conditions: ready}}}

	n := &corev1.Node{ObjectMeta: large("rack", "note"), Spec: corev1.NodeSpec{PodCIDRs: []string{"10.0.0.0/24"}}}
	n.Status = corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: []string{"nginx"}}},
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.168.1.7"}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue}}}
	wantNode := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "name", UID: "uid", ResourceVersion: "7",
		Labels: map[string]string{"rack": "svc", "team": "a"}}}
	wantNode.Status = corev1.NodeStatus{Addresses: n.Status.Addresses, Conditions: n.Status.Conditions}

	transforms := map[string]toolscache.TransformFunc{}
	for kind, by := range CacheOptions(nil, "lanyard-system").ByObject {
		if by.Transform != nil {
			transforms[kindOf(kind)] = by.Transform
		}
	}
	for _, tc := range []struct{ has, want client.Object }{{svc, wantSvc}, {es, wantES}, {n, wantNode}} {
		got, err := transforms[kindOf(tc.has)](tc.has)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(asJSON(t, tc.want), asJSON(t, got)); diff != "" {
			t.Errorf("%s in the cache (-want +got):\n%s", kindOf(tc.has), diff)
		}
		missed := toolscache.DeletedFinalStateUnknown{Key: "ns/name"}
		if got, err := transforms[kindOf(tc.has)](missed); got != missed || err != nil {
			t.Errorf("the mark of a deletion becomes %v, %v", got, err)
		}
	}
}

// TestTheCacheKeepsThePortsOfWhatIsChecked, and of no other Service.
func TestTheCacheKeepsThePortsOfWhatIsChecked(t *testing.T) {
	var kept []string
	for _, key := range []client.ObjectKey{
		{Namespace: "default", Name: "kubernetes"}, {Namespace: "lanyard-system", Name: "lanyard-speaker"},
		{Namespace: "default", Name: "lanyard-speaker"}, {Namespace: "lanyard-system", Name: "kubernetes"}, {Namespace: "default", Name: "web"},
	} {
		svc := clusterIP(key.Namespace, key.Name, 443, "10.96.0.1")
		slimService("lanyard-system")(svc)
		if len(svc.Spec.Ports) > 0 && len(svc.Spec.ClusterIPs) > 0 {
			kept = append(kept, key.String())
		}
	}
	if diff := cmp.Diff([]string{"default/kubernetes", "lanyard-system/lanyard-speaker"}, kept); diff != "" {
		t.Errorf("Services with addresses and ports in the cache (-want +got):\n%s", diff)
	}
}

func kindOf(o client.Object) string {
	switch o.(type) {
	case *corev1.Service:
		return "Service"
	case *discoveryv1.EndpointSlice:
		return "EndpointSlice"
	case *corev1.Node:
		return "Node"
	}
	return "another kind"
}

func asJSON(t *testing.T, o any) string {
	t.Helper()
	text, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestMapper: the resources are those that the API has.
func TestMapper(t *testing.T) {
	got := map[string]string{}
	for _, kind := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Service"), corev1.SchemeGroupVersion.WithKind("Node"), corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
		v1alpha1.GroupVersion.WithKind("NodeNetworking"),
	} {
		mapping, err := Mapper().RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Fatal(err)
		}
		got[kind.Kind] = string(mapping.Scope.Name()) + " " + mapping.Resource.Resource
	}
	want := map[string]string{"Service": "namespace services", "Node": "root nodes", "ConfigMap": "namespace configmaps",
		"EndpointSlice": "namespace endpointslices", "DaemonSet": "namespace daemonsets", "NodeNetworking": "root nodenetworkings"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scopes and resources (-want +got):\n%s", diff)
	}
}

// emptyCluster is an API server that has nothing of any kind, and is asked for no more than the kinds that are watched.
func emptyCluster(t *testing.T) *rest.Config {
	t.Helper()
	lists := map[string]string{
		"/api/v1/services": "v1 ServiceList", "/api/v1/nodes": "v1 NodeList", "/api/v1/namespaces/lanyard-system/configmaps": "v1 ConfigMapList",
		"/apis/discovery.k8s.io/v1/endpointslices": "discovery.k8s.io/v1 EndpointSliceList",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		version, kind, known := strings.Cut(lists[r.URL.Path], " ")
		w.Header().Set("Content-Type", "application/json")
		switch query := r.URL.Query(); {
		case !known:
			t.Errorf("the API server is asked for %s", r.URL)
			w.WriteHeader(http.StatusNotFound)
		case query.Has("sendInitialEvents"): // as API servers before 1.32 do: a list is asked for instead
			w.WriteHeader(http.StatusUnprocessableEntity)
		case query.Has("watch"):
			_ = http.NewResponseController(w).Flush() // the test ends as well without
			<-r.Context().Done()
		default:
			fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"1"},"items":[]}`, kind, version)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}}
}

// TestTheCacheAnswersAllThatIsAsked: what is read from the fake clients of other tests can be read from the real caches, too, and they fill without
// asking the API server which kinds it has.
func TestTheCacheAnswersAllThatIsAsked(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := cache.New(emptyCluster(t), CacheOptions(scheme, "lanyard-system"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	s := source{reader: c, namespace: "lanyard-system"}
	speaker := &Speaker{cache: c, dirty: make(chan struct{}, 1)}
	if err := speaker.watchCluster(ctx); err != nil || !c.WaitForCacheSync(ctx) {
		t.Fatalf("the caches do not fill: %v", err)
	}
	for what, read := range map[string]func() error{
		"the configuration": func() error { _, err := s.configuration(ctx); return err },
		"the snapshot":      func() error { _, err := s.snapshot(ctx, "w1", settings{}, nil); return err },
		"the peers":         func() error { _, err := s.peers(ctx, "w1", 7956); return err },
		"what is kept":      func() error { _, err := s.lasting(ctx); return err },
		"its revision":      func() error { _, err := s.revision(ctx); return err },
		"what is checked":   func() error { _, err := s.targets(ctx, "w1", netip.MustParseAddr("192.168.1.1")); return err },
		"the endpoints here": func() error {
			_, err := s.leadsTo(ctx, client.ObjectKey{Namespace: "lanyard-system", Name: v1alpha1.SpeakerService}, "w1")
			return err
		},
		"the cluster IPs": func() error { _, err := s.clusterIPs(ctx); return err },
	} {
		if err := read(); err != nil {
			t.Errorf("reading %s: %v", what, err)
		}
	}
}
