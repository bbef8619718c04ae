// Command manager runs Lanyard's reconcilers: one of its replicas leads and works, the others wait.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/controllers"
	"github.com/lanyard-dev/lanyard/internal/endpoints"
)

// leaseName is the Lease that the manager holds which works.
const leaseName = "lanyard-manager"

// config is what the command line says.
type config struct {
	controllers.Options
	metricsAddress, probeAddress string
	leaderElection               bool
	apiServers                   string
	// check asks how the installation is, and ends.
	check bool
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func parseFlags() (config, zap.Options) {
	var c config
	flag.StringVar(&c.Namespace, "namespace", os.Getenv("POD_NAMESPACE"), "the manager's namespace, in which the speakers run (POD_NAMESPACE)")
	flag.StringVar(&c.NodeName, "node-name", os.Getenv("NODE_NAME"), "the manager's node, whose kube-proxy is restarted last (NODE_NAME)")
	flag.StringVar(&c.Deployment, "deployment", "lanyard-manager", "the manager's own Deployment, whose image the speakers run")
	flag.StringVar(&c.SpeakerImage, "speaker-image", "", "the speakers' image, when the manager runs outside the cluster")
	flag.DurationVar(&c.WithdrawAfter, "withdraw-after", 30*time.Second, "how long after ClusterNetworking was deleted addresses are withdrawn")
	flag.StringVar(&c.metricsAddress, "metrics-bind-address", ":8443", "where metrics are served, over TLS to who may read them; 0 turns them off")
	flag.StringVar(&c.probeAddress, "health-probe-bind-address", ":8081", "where /healthz and /readyz are served")
	flag.BoolVar(&c.leaderElection, "leader-elect", true, "let one of several managers work at a time")
	manageKubeProxy := flag.Bool("manage-kube-proxy", true, "false where the rights to change kube-proxy were left out")
	flag.BoolVar(&c.check, "check", false, "say whether the installation works, and end: with 0 when it does")
	flag.StringVar(&c.apiServers, "api-servers-file", "", "a file with an API server's host:port on each line, tried before the in-cluster one")
	var logging zap.Options
	c.Verification = controllers.DefaultVerification
	logging.BindFlags(flag.CommandLine)
	flag.Parse()
	c.LeaveKubeProxy = !*manageKubeProxy
	return c, logging
}

func run() error {
	c, logging := parseFlags()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logging)))
	if c.Namespace == "" {
		return fmt.Errorf("--namespace is empty: set it, or POD_NAMESPACE, to the namespace that Lanyard runs in")
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("registering API kinds: %w", err)
		}
	}
	server, err := c.apiServer()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	if c.check {
		return c.checkInstallation(ctrl.SetupSignalHandler(), server, scheme)
	}
	// client-go's default of 5 requests a second is for people; a thousand Services should not wait for it.
	server.QPS, server.Burst = 500, 1000
	mgr, err := ctrl.NewManager(server, c.managerOptions(scheme))
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	if err := controllers.Setup(mgr, c.Options); err != nil {
		return fmt.Errorf("registering the reconcilers: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("registering the health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("registering the readiness check: %w", err)
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// apiServer is how the API server is reached: where the manager's pod runs, without kube-proxy, which it may have to repair.
func (c config) apiServer() (*rest.Config, error) {
	inCluster, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	return endpoints.Direct(inCluster, c.apiServers, ctrl.Log.WithName("endpoints"))
}

func (c config) managerOptions(scheme *runtime.Scheme) ctrl.Options {
	metrics := metricsserver.Options{BindAddress: c.metricsAddress}
	if c.metricsAddress != "0" {
		metrics.SecureServing = true
		metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
		// HTTP/2 has had denial-of-service holes that metrics do not need to share.
		metrics.TLSOpts = []func(*tls.Config){func(t *tls.Config) { t.NextProtos = []string{"http/1.1"} }}
	}
	return ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metrics,
		HealthProbeBindAddress:        c.probeAddress,
		LeaderElection:                c.leaderElection,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       c.Namespace,
		LeaderElectionReleaseOnCancel: true,
		Cache:                         controllers.CacheOptions(c.Namespace),
	}
}
