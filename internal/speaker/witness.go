package speaker

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/links"
)

// lookEvery is how often the kernel is looked at while the same process runs.
const lookEvery = 10 * time.Second

// failuresEvery is how often further failures of one process are told, which may come each second.
const failuresEvery = 30 * time.Second

// witness tells how kube-proxy on the node really runs: by what it says, by connections through its rules, and by the kernel.
type witness struct {
	config Config
	source source
	log    logr.Logger
	proxy  *kubeProxy
	dial   dialer
	look   func() (kernel, error)
	// tell passes on what has changed.
	tell func(v1alpha1.NodeKubeProxy)
	// address is where kube-proxy should answer; nil means by default.
	address atomic.Pointer[string]
	// again wakes whoever makes the checks.
	again chan struct{}

	mu sync.Mutex
	// told is what was told last, toldAt when it told of failures; told is nil before the first time.
	told   *v1alpha1.NodeKubeProxy
	toldAt time.Time
	// stage counts the changes after which a check made before proves nothing any more.
	stage int
}

func newWitness(config Config, s source, log logr.Logger, tell func(v1alpha1.NodeKubeProxy)) *witness {
	return &witness{
		config: config, source: s, log: log, proxy: newKubeProxy(time.Now), dial: connect, look: lookAtNode, tell: tell, again: make(chan struct{}, 1),
	}
}

// lookAtNode looks at the kernel of the node.
func lookAtNode() (kernel, error) {
	interfaces, err := links.List()
	if err != nil {
		return kernel{}, err
	}
	names := make([]string, 0, len(interfaces))
	for _, i := range interfaces {
		names = append(names, i.Name)
	}
	return lookAtKernel(os.DirFS("/proc"), ipvsLinkAddresses, names)
}

// askAt sets where kube-proxy is asked from now on; empty means by default.
func (w *witness) askAt(address string) {
	address = cmp.Or(address, v1alpha1.KubeProxyMetricsAddress)
	w.address.Store(&address)
}

// watchProxy asks kube-proxy and looks at the kernel again and again, until the context ends.
func (w *witness) watchProxy(ctx context.Context) error {
	defer w.proxy.client.CloseIdleConnections()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	var (
		before   v1alpha1.NodeKubeProxy
		lookedAt time.Time
		left     traces
	)
	for {
		address := v1alpha1.KubeProxyMetricsAddress
		if set := w.address.Load(); set != nil {
			address = *set
		}
		answer := w.proxy.ask(ctx, address)
		if now := time.Now(); !sameProcess(answer, before) || now.Sub(lookedAt) >= lookEvery {
			left = w.traces(ctx, answer.Mode, left)
			before, lookedAt = answer, now
		}
		if ctx.Err() != nil { // it was not kube-proxy that did not answer
			return nil
		}
		answer.Residue, answer.Sysctls, answer.LooseARP = left.residue, left.sysctls, left.loose
		w.hear(answer, time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// traces are what the kernel shows, and what was logged of it.
type traces struct {
	residue   []string
	sysctls   map[string]string
	loose     []string
	complaint string
}

// traces looks at the kernel. Where that fails it is logged once, and nothing is known.
func (w *witness) traces(ctx context.Context, mode string, before traces) traces {
	k, err := w.look()
	var services map[netip.Addr]bool
	if err == nil && len(k.virtual) > 0 {
		services, err = w.source.clusterIPs(ctx)
	}
	if err == nil {
		return traces{residue: k.residue(mode, services), sysctls: k.sysctls, loose: k.loose(mode)}
	}
	if err.Error() != before.complaint {
		w.log.Error(err, "cannot look for what kube-proxy has left in the kernel; it is tried again")
	}
	return traces{complaint: err.Error()}
}

// clusterIPs are those of all Services.
func (s source) clusterIPs(ctx context.Context) (map[netip.Addr]bool, error) {
	var services corev1.ServiceList
	if err := s.reader.List(ctx, &services); err != nil {
		return nil, fmt.Errorf("listing Services: %w", err)
	}
	all := map[netip.Addr]bool{}
	for i := range services.Items {
		for _, ip := range services.Items[i].Spec.ClusterIPs {
			if addr, err := netip.ParseAddr(ip); err == nil {
				all[addr] = true
			}
		}
	}
	return all, nil
}

// hear takes in what kube-proxy says, and tells it when it differs. Checks of another process, or made while the rules were another's, are
// forgotten and made again at once.
func (w *witness) hear(next v1alpha1.NodeKubeProxy, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told != nil {
		last := *w.told
		if sameStage(last, next) {
			next.Checks = last.Checks
			next.SyncFailures = paced(last.SyncFailures, next.SyncFailures, now.Sub(w.toldAt))
		}
		if equality.Semantic.DeepEqual(last, next) {
			return
		}
	}
	if w.told == nil || !sameStage(*w.told, next) {
		w.stage++
		wake(w.again)
	}
	if w.told == nil || w.told.SyncFailures != next.SyncFailures {
		w.toldAt = now
	}
	w.told = &next
	w.tell(next)
}

// sameProcess says whether two answers are of one process, as far as can be told.
func sameProcess(a, b v1alpha1.NodeKubeProxy) bool {
	return a.Mode == b.Mode && a.StartTime.Equal(b.StartTime)
}

// sameStage says whether what was checked under one answer still holds under another.
func sameStage(a, b v1alpha1.NodeKubeProxy) bool { return sameProcess(a, b) && a.Rules == b.Rules }

// paced is the number of failures to tell: the first at once, further ones now and then.
func paced(told, counted int64, ago time.Duration) int64 {
	if told > 0 && counted > told && ago < failuresEvery {
		return told
	}
	return counted
}

// watchRules tries the connections again and again, until the context ends.
func (w *witness) watchRules(ctx context.Context) error {
	for {
		stage := w.stageNow()
		targets, err := w.source.targets(ctx, w.config.Node, w.config.Addr)
		if err != nil && ctx.Err() == nil {
			w.log.Error(err, "cannot find what to try connections to; it is tried again")
		}
		checks := check(ctx, targets, w.dial)
		if ctx.Err() != nil {
			return nil
		}
		again := time.NewTimer(w.note(stage, checks))
		select {
		case <-ctx.Done():
		case <-w.again:
		case <-again.C:
		}
		again.Stop()
	}
}

// stageNow is the stage that checks begun now belong to.
func (w *witness) stageNow() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stage
}

// note takes checks in that belong to a stage, tells them when they differ, and returns how long they hold. Before kube-proxy was asked for
// the first time, and when the stage is over, they prove nothing.
func (w *witness) note(stage int, checks []v1alpha1.NodeCheck) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told == nil {
		return checkAgain
	}
	if stage != w.stage {
		return 0
	}
	next := *w.told
	next.Checks = checks
	if !equality.Semantic.DeepEqual(*w.told, next) {
		w.told = &next
		w.tell(next)
	}
	return checkPause(next.Rules, checks)
}
