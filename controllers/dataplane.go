package controllers

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/apply"
	"github.com/lanyard-dev/lanyard/internal/configuration"
	"github.com/lanyard-dev/lanyard/internal/dataplane"
	"github.com/lanyard-dev/lanyard/internal/keyring"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// managerContainer is the container of the manager's Deployment whose image the speakers run too.
const managerContainer = "manager"

// DataplaneReconciler puts the configuration in force and keeps the speakers' objects as rendered.
type DataplaneReconciler struct {
	client    client.Client
	live      client.Reader
	version   discovery.ServerVersionInterface
	board     *board
	options   Options
	now       func() time.Time
	goneSince time.Time
	// known is what the Secret with the keys of the speakers' gossip held last.
	known keyring.Keyring
	// fresh is the next of them, which is not in the Secret yet: while it cannot be written, no pass makes another.
	fresh []byte
}

func newDataplaneReconciler(mgr ctrl.Manager, b *board, o Options) *DataplaneReconciler {
	return &DataplaneReconciler{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), board: b, options: o, now: time.Now,
		version: discovery.NewDiscoveryClientForConfigOrDie(mgr.GetConfig()),
	}
}

// SetupWithManager registers the reconciler. It watches what it writes, so that drift heals. The first pass needs no event: where there is
// nothing to watch, addresses of an installation before this one still have to be withdrawn.
func (r *DataplaneReconciler) SetupWithManager(mgr ctrl.Manager) error {
	start := make(chan event.TypedGenericEvent[struct{}], 1)
	signal(start)
	return ctrl.NewControllerManagedBy(mgr).
		Named("dataplane").
		Watches(&v1alpha1.ClusterNetworking{}, toSingleton, builder.WithPredicates(predicate.Or(specChanged, predicate.AnnotationChangedPredicate{}))).
		Watches(&v1alpha1.NodeNetworking{}, toSingleton, builder.WithPredicates(keysChanged)).
		Watches(&appsv1.DaemonSet{}, toSingleton, builder.WithPredicates(named(v1alpha1.SpeakerDaemonSet))).
		Watches(&corev1.Secret{}, toSingleton, builder.WithPredicates(named(v1alpha1.MembershipSecret))).
		Watches(&corev1.ConfigMap{}, toSingleton, builder.WithPredicates(
			predicate.Or(named(v1alpha1.ConfigurationConfigMap), named(kubeproxy.Name)))).
		Watches(&corev1.Service{}, toSingleton, builder.WithPredicates(named(v1alpha1.SpeakerService))).
		Watches(&corev1.Namespace{}, toSingleton, builder.WithPredicates(named(r.options.Namespace), predicate.LabelChangedPredicate{})).
		WatchesRawSource(signals(start)).
		WithOptions(singleWorker).
		Complete(r)
}

// +kubebuilder:rbac:groups=networking.lanyard.dev,resources=clusternetworkings,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.lanyard.dev,resources=nodenetworkings,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=lanyard-system,resources=pods,verbs=list
// +kubebuilder:rbac:groups="",namespace=lanyard-system,resources=configmaps;secrets;services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,namespace=lanyard-system,resources=daemonsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,namespace=lanyard-system,resources=deployments,verbs=get

// Reconcile checks the spec, puts it in force, and writes the speakers' objects.
func (r *DataplaneReconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	cnet, err := clusterNetworking(ctx, r.client)
	if err != nil {
		return ctrl.Result{}, err
	}
	if cnet == nil {
		return r.withdraw(ctx)
	}
	r.goneSince = time.Time{}
	report := dataplaneReport{revision: revisionOf(cnet), problems: check(cnet.Spec)}
	if cnet.Spec.ManagementState != v1alpha1.Paused {
		report.keys, report.err = r.apply(ctx, cnet, len(report.problems) == 0)
	}
	inForce, err := configurationInForce(ctx, r.live, r.options.Namespace)
	if err == nil && inForce != nil {
		report.inForce = inForce.Generation
	}
	if report.err == nil {
		report.err = err
	}
	r.board.post(func(b *reports) { b.dataplane = &report })
	return ctrl.Result{}, report.err
}

// apply writes the objects: the speakers' always, the configuration only when it is good, so that the last good one stays in force.
func (r *DataplaneReconciler) apply(ctx context.Context, cnet *v1alpha1.ClusterNetworking, good bool) (keysReport, error) {
	values, err := r.gather(ctx, cnet)
	if err != nil {
		return keysReport{}, err
	}
	keys, err := r.keys(ctx, cnet)
	if err != nil {
		return keysReport{}, err
	}
	report := keysReport{reason: keys.Reason, message: keys.Message}
	values.MembershipKeys, values.MembershipRotatedFor = keys.Entries, keys.Served
	objects, err := dataplane.Render(values)
	if err != nil {
		return report, fmt.Errorf("rendering the speakers' objects: %w", err)
	}
	keys.pin(objects)
	if good {
		c := configuration.FromObject(cnet)
		if c.KubeProxyMetricsAddress, err = r.kubeProxyMetricsAddress(ctx); err != nil {
			return report, err
		}
		cm, err := r.configMap(c)
		if err != nil {
			return report, err
		}
		// First the configuration: a speaker that starts should find it.
		objects = append([]*unstructured.Unstructured{cm}, objects...)
	}
	if err := r.applier().Apply(ctx, objects); err != nil {
		return report, err
	}
	r.keysWritten(ctx, keys)
	return report, nil
}

// kubeProxyMetricsAddress returns where speakers ask kube-proxy; empty where that is the default.
func (r *DataplaneReconciler) kubeProxyMetricsAddress(ctx context.Context) (string, error) {
	cm, err := getOrNil(ctx, r.client, client.ObjectKey{Namespace: kubeproxy.Namespace, Name: kubeproxy.Name}, &corev1.ConfigMap{})
	if err != nil || cm == nil {
		return "", err
	}
	address := kubeproxy.MetricsAddress(cm.Data[kubeproxy.ConfigKey])
	if address == v1alpha1.KubeProxyMetricsAddress {
		return "", nil
	}
	return address, nil
}

// applier writes the speakers' objects. The ConfigMap is no kind that is pruned: while the spec is bad it is not among the objects.
func (r *DataplaneReconciler) applier() apply.Applier {
	return apply.Applier{
		Client: r.client, Reader: r.live, FieldManager: v1alpha1.FieldManager, Namespace: r.options.Namespace, Labels: speakerLabels(),
		Kinds: []schema.GroupVersionKind{
			appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
			corev1.SchemeGroupVersion.WithKind("Secret"),
			corev1.SchemeGroupVersion.WithKind("Service"),
		},
	}
}

func speakerLabels() map[string]string {
	return map[string]string{"app.kubernetes.io/managed-by": "lanyard", "app.kubernetes.io/component": "speaker"}
}

// gather reads what the objects depend on besides the spec.
func (r *DataplaneReconciler) gather(ctx context.Context, cnet *v1alpha1.ClusterNetworking) (dataplane.Values, error) {
	v := dataplane.Values{Namespace: r.options.Namespace, Image: r.options.SpeakerImage, Speaker: cnet.Spec.Speaker}
	version, err := r.version.ServerVersion()
	if err != nil {
		return v, fmt.Errorf("asking for the cluster's version: %w", err)
	}
	v.KubeVersion = version.GitVersion
	ns, err := getOrNil(ctx, r.client, client.ObjectKey{Name: r.options.Namespace}, &corev1.Namespace{})
	if err != nil {
		return v, err
	}
	if ns != nil {
		v.PodSecurity = ns.Labels[v1alpha1.PodSecurityLabel]
	}
	own, err := getOrNil(ctx, r.live, client.ObjectKey{Namespace: r.options.Namespace, Name: r.options.Deployment}, &appsv1.Deployment{})
	if err != nil {
		return v, err
	}
	if own != nil {
		v.Owner = dataplane.Owner{Name: own.Name, UID: string(own.UID)}
		v.PullSecrets = own.Spec.Template.Spec.ImagePullSecrets
		for _, c := range own.Spec.Template.Spec.Containers {
			if c.Name == managerContainer {
				v.Image, v.PullPolicy = c.Image, c.ImagePullPolicy
			}
		}
	}
	if v.Image == "" {
		return v, fmt.Errorf("there is no Deployment %s/%s with a container %q to take the speakers' image from: name it with --deployment, or the image with --speaker-image",
			r.options.Namespace, r.options.Deployment, managerContainer)
	}
	return v, nil
}

// configMap is the object that holds a configuration. Nobody owns it: it stays in force while the manager's Deployment is replaced, and
// goes with the object that it was made from, or with the namespace.
func (r *DataplaneReconciler) configMap(c configuration.Configuration) (*unstructured.Unstructured, error) {
	doc, err := c.Encode()
	if err != nil {
		return nil, err
	}
	cm := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: r.options.Namespace, Name: v1alpha1.ConfigurationConfigMap, Labels: speakerLabels()},
		Data:       map[string]string{v1alpha1.ConfigurationKey: doc},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cm)
	if err != nil {
		return nil, fmt.Errorf("converting the configuration's ConfigMap: %w", err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// How long the speakers stay for the sake of addresses that cannot be taken back, and how often it is looked whether they are.
const (
	takeBackWithin = 10 * time.Second
	takeBackPoll   = 50 * time.Millisecond
)

// withdraw removes the speakers and the configuration once the object has been gone for the grace period. Gone is what the API server
// itself says, twice: a cache that lost sight of it proves nothing.
func (r *DataplaneReconciler) withdraw(ctx context.Context) (ctrl.Result, error) {
	cnet, err := clusterNetworking(ctx, r.live)
	if err != nil || cnet != nil {
		r.goneSince = time.Time{}
		return ctrl.Result{RequeueAfter: time.Second}, err
	}
	if r.goneSince.IsZero() {
		r.goneSince = r.now()
	}
	if left := r.options.WithdrawAfter - r.now().Sub(r.goneSince); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.options.Namespace, Name: v1alpha1.ConfigurationConfigMap}}
	if err := r.client.Delete(ctx, cm); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("removing the configuration: %w", err)
	}
	// First the Services' addresses: none should show one that nobody answers for, also where the manager is removed as soon as the speakers are.
	r.board.post(func(b *reports) { b.dataplane = &dataplaneReport{withdrawn: true} })
	if waited := r.now().Sub(r.goneSince) - r.options.WithdrawAfter; !r.board.read().takenBack() && waited < takeBackWithin {
		return ctrl.Result{RequeueAfter: takeBackPoll}, nil
	}
	err = r.applier().Apply(ctx, nil)
	r.known = keyring.Keyring{} // no speaker has them any longer
	r.board.post(func(b *reports) { b.dataplane = &dataplaneReport{withdrawn: true, err: err} })
	return ctrl.Result{}, err
}
