package controllers

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// namespace is the manager's own.
const namespace = "lanyard-system"

var (
	scheme     = runtime.NewScheme()
	server     *envtest.Environment
	restConfig *rest.Config
	k8s        client.Client
)

// TestControllers runs the reconcilers against a real etcd and kube-apiserver. There are no nodes and no other controllers: what kubelets
// and speakers would write, the tests write.
func TestControllers(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: `make test` builds etcd and kube-apiserver and sets it")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "controllers")
}

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	server = &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
		Scheme:                scheme,
	}
	// Else the API server writes its own address among those of Service default/kubernetes every 10 s, and the specs write that list.
	server.ControlPlane.GetAPIServer().Configure().Set("endpoint-reconciler-type", "none")
	// Both families, IPv4 the first: a Service that says nothing has IPv4 alone.
	server.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.0.0.0/24,fd00:10:96::/112")
	var err error
	restConfig, err = server.Start()
	Expect(err).NotTo(HaveOccurred())
	restConfig.QPS, restConfig.Burst = 500, 1000
	k8s, err = client.New(restConfig, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	Expect(k8s.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(15 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(time.Second)
})

var _ = AfterSuite(func() {
	if server != nil {
		Expect(server.Stop()).To(Succeed())
	}
})

// Every spec begins with nothing of Lanyard's, whatever the one before left when its manager ended.
var _ = BeforeEach(func(ctx SpecContext) {
	for _, left := range []client.Object{
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.SpeakerDaemonSet}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.MembershipSecret}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.SpeakerService}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.ConfigurationConfigMap}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.KubeProxyLedger}},
	} {
		Expect(client.IgnoreNotFound(k8s.Delete(ctx, left))).To(Succeed())
	}
})

// startManager runs a manager until the returned function is called, which waits for its end.
func startManager(elect bool, change ...func(*Options)) (stop func()) {
	GinkgoHelper()
	_, stop = startElected(elect, change...)
	return stop
}

// startElected is startManager that also tells, by closing a channel, when the manager leads.
func startElected(elect bool, change ...func(*Options)) (leads <-chan struct{}, stop func()) {
	GinkgoHelper()
	options := Options{Namespace: namespace, Deployment: "lanyard-manager", SpeakerImage: "lanyard:test", WithdrawAfter: time.Second}
	for _, c := range change {
		c(&options)
	}
	lease, renew, retry := 3*time.Second, 2*time.Second, 200*time.Millisecond
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		Cache:                         CacheOptions(namespace),
		LeaderElection:                elect,
		LeaderElectionID:              "lanyard-manager",
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease, RenewDeadline: &renew, RetryPeriod: &retry,
		// Several managers run in this one process, one after the other: their controllers have the same names.
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(Setup(mgr, options)).To(Succeed())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return mgr.Elected(), func() {
		GinkgoHelper()
		cancel()
		Eventually(ended, 20*time.Second).Should(Receive(BeNil()), "the manager should end when it is told to")
	}
}
