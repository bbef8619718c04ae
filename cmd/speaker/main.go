// Command speaker announces the cluster's load balancer addresses on its node's LAN.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/endpoints"
	"github.com/lanyard-dev/lanyard/internal/membership"
	"github.com/lanyard-dev/lanyard/internal/speaker"
)

// config is what the command line says.
type config struct {
	node, nodeIP, namespace, keys, logLevel   string
	apiServers, stateFile, templateGeneration string
	membershipPort, healthPort                int
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "speaker:", err)
		os.Exit(1)
	}
}

func parseFlags() config {
	var c config
	flag.StringVar(&c.node, "node-name", os.Getenv("NODE_NAME"), "the node's name (NODE_NAME)")
	flag.StringVar(&c.nodeIP, "node-ip", os.Getenv("NODE_IP"), "the node's address, on which the other speakers reach this one (NODE_IP)")
	flag.StringVar(&c.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "the namespace with the configuration (POD_NAMESPACE)")
	flag.IntVar(&c.membershipPort, "membership-port", 7956, "the TCP and UDP port of the speakers' gossip, the same on every node")
	flag.StringVar(&c.keys, "membership-keys", "/etc/lanyard/membership", "the folder in which the Secret with the gossip's keys is mounted")
	flag.IntVar(&c.healthPort, "health-port", 7957, "the TCP port, on the node's address, of /healthz, /readyz and /metrics")
	flag.StringVar(&c.apiServers, "api-servers-file", "", "a file with an API server's host:port on each line, tried before the in-cluster one")
	flag.StringVar(&c.stateFile, "state-file", "",
		"a file on the node's disk, in a folder that is there: what is decided from is kept in it, for a start while the API server is away")
	flag.StringVar(&c.templateGeneration, "template-generation", os.Getenv("POD_TEMPLATE_GENERATION"),
		"the revision of the DaemonSet's template that the pod was made from (POD_TEMPLATE_GENERATION); empty if it is not known")
	flag.StringVar(&c.logLevel, "log-level", "Info", "Info or Debug")
	flag.Parse()
	return c
}

func run() error {
	c := parseFlags()
	ctrl.SetLogger(zap.New(zap.UseDevMode(c.logLevel == string(v1alpha1.LogLevelDebug)), zap.JSONEncoder()))
	log := ctrl.Log.WithName("speaker")
	addr, err := netip.ParseAddr(c.nodeIP)
	if err != nil || c.node == "" || c.namespace == "" {
		return fmt.Errorf("--node-name is %q, --node-ip %q, --namespace %q: each is needed, the second as an address", c.node, c.nodeIP, c.namespace)
	}
	if c.membershipPort < 1 || c.membershipPort > math.MaxUint16 {
		return fmt.Errorf("--membership-port is %d: it has to be a port", c.membershipPort)
	}
	if _, err := speaker.ReadKeys(c.keys); err != nil {
		return err // now, and not only once the cluster is known
	}
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics, err := speaker.NewMetrics(registry)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	s := speaker.New(speaker.Config{Node: c.node, Namespace: c.namespace, Addr: addr, MembershipPort: uint16(c.membershipPort),
		Keys: c.keys, StateFile: c.stateFile, Cluster: cluster.id, TemplateGeneration: c.templateGeneration},
		cluster.informers, cluster.writer, func() (*membership.Group, error) { return c.join(addr, debugWriter{log}) }, metrics, log)
	return serve(ctrl.SetupSignalHandler(), healthAddress(addr, c.healthPort), s, registry)
}

// join begins the membership, with the newest keys: until now, nobody has followed them.
func (c config) join(addr netip.Addr, log io.Writer) (*membership.Group, error) {
	keys, err := speaker.ReadKeys(c.keys)
	if err != nil {
		return nil, err
	}
	return membership.Join(membership.Config{Node: c.node, Addr: addr, Port: c.membershipPort, Keys: keys.Keys(), Log: log})
}

// cluster is what the speaker belongs to, and how it reads and writes there.
type cluster struct {
	id        string
	informers cache.Cache
	writer    client.Client
}

// cluster prepares the ways to the API server, which need not answer yet.
func (c config) cluster() (cluster, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return cluster{}, fmt.Errorf("registering API kinds: %w", err)
	}
	inCluster, err := ctrl.GetConfig()
	if err != nil {
		return cluster{}, fmt.Errorf("finding the API server: %w", err)
	}
	id, err := identify(inCluster)
	if err != nil {
		return cluster{}, fmt.Errorf("reading the cluster's certificate authority: %w", err)
	}
	// Without kube-proxy, whose witness a speaker is also when it is broken.
	server, err := endpoints.Direct(inCluster, c.apiServers, ctrl.Log.WithName("endpoints"))
	if err != nil {
		return cluster{}, fmt.Errorf("finding the API server: %w", err)
	}
	informers, err := cache.New(server, speaker.CacheOptions(scheme, c.namespace))
	if err != nil {
		return cluster{}, fmt.Errorf("making the informers: %w", err)
	}
	writer, err := client.New(server, client.Options{Scheme: scheme, Mapper: speaker.Mapper()})
	if err != nil {
		return cluster{}, fmt.Errorf("making the client: %w", err)
	}
	return cluster{id: id, informers: informers, writer: writer}, nil
}

// identify names the cluster: each has a certificate authority of its own.
func identify(config *rest.Config) (string, error) {
	authority := config.CAData
	if len(authority) == 0 && config.CAFile != "" {
		var err error
		if authority, err = os.ReadFile(config.CAFile); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(authority)), nil
}

// healthAddress is where the kubelet's probes are answered.
func healthAddress(node netip.Addr, port int) string {
	return net.JoinHostPort(node.String(), strconv.Itoa(port))
}

// agent is what the probes ask.
type agent interface {
	Alive() bool
	Ready() bool
}

// handler answers the kubelet's probes and serves the metrics.
func handler(a agent, registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	probe := func(path string, good func() bool, otherwise string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if !good() {
				http.Error(w, otherwise, http.StatusServiceUnavailable)
			}
		})
	}
	probe("/healthz", a.Alive, "the speaker hangs")
	probe("/readyz", a.Ready, "the cluster's Services and the configuration have not been read yet, or what follows from them fails, as the log says")
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux
}

// serve runs the speaker, and answers probes and metrics as long.
func serve(ctx context.Context, address string, s *speaker.Speaker, registry *prometheus.Registry) error {
	server := &http.Server{Addr: address, Handler: handler(s, registry), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(fmt.Errorf("serving %s: %w", address, <-failed)) }()
	err := s.Run(ctx)
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return errors.Join(err, server.Close())
}
