package controllers

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/conditions"
	"github.com/lanyard-dev/lanyard/internal/ipam"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// board is where each reconciler posts its latest report, and where the status reconciler reads them. Reports are made anew from
// observed facts by every pass, so a restart loses nothing.
//
//	kubeproxy.go ─┐
//	dataplane.go ─┼─▶ board ──▶ status.go ──▶ ClusterNetworking.status
//	addresses.go ─┘    └──▶ addresses.go: whether addresses may be taken back
type board struct {
	mu      sync.Mutex
	reports reports
	// posted wakes the status reconciler. One pending signal is enough: it reads all reports.
	posted chan event.TypedGenericEvent[struct{}]
	// withdrawal wakes the address reconciler when it may take addresses back, or may not any more.
	withdrawal chan event.TypedGenericEvent[struct{}]
}

// reports holds the latest report of each reconciler; nil until its first pass has ended.
type reports struct {
	kubeProxy *kubeProxyReport
	dataplane *dataplaneReport
	addresses *addressesReport
}

// revision is which object a report speaks of, at which generation; zero when there was none.
type revision struct {
	uid        types.UID
	generation int64
}

func revisionOf(cnet *v1alpha1.ClusterNetworking) revision {
	if cnet == nil {
		return revision{}
	}
	return revision{cnet.UID, cnet.Generation}
}

// speakOf says whether every reconciler has reported on this revision: only then may a status claim that it was observed. Addresses are
// given out from the configuration in force, so it must be the one that the dataplane reports, unless the report is of a failure.
func (r reports) speakOf(of revision) bool {
	return r.kubeProxy != nil && r.kubeProxy.revision == of &&
		r.dataplane != nil && r.dataplane.revision == of &&
		r.addresses != nil && (r.addresses.inForce == r.dataplane.inForce || r.addresses.err != nil)
}

// kubeProxyReport is how kube-proxy stands.
type kubeProxyReport struct {
	revision revision
	verdict  conditions.Verdict
	status   v1alpha1.KubeProxyStatus
	// deprecation is what an upgrade of the cluster will end.
	deprecation kubeproxy.Deprecation
}

// dataplaneReport is how the configuration and the speakers' objects stand.
type dataplaneReport struct {
	revision revision
	problems []conditions.Problem
	// inForce is the generation of the configuration that is acted on; 0 when there is none.
	inForce int64
	// withdrawn means that the object has been gone for the grace period, by the API server's own word.
	withdrawn bool
	keys      keysReport
	err       error
}

// addressesReport is who has which address.
type addressesReport struct {
	// inForce is the generation of the configuration that they were given from; 0 when there is none.
	inForce int64
	// plan is nil when what it is made from could not be read.
	plan *ipam.Result
	// clashes are the Services that keep an address which somebody outside has too.
	clashes []ipam.Refusal
	// foreign are the addresses of pools that foreign hosts have.
	foreign []v1alpha1.QuarantinedIP
	// overlaps are sentences about addresses of pools that are given to nobody.
	overlaps []string
	// takenBack means that no Service has an address of ours any more.
	takenBack bool
	err       error
}

func newBoard() *board {
	return &board{posted: make(chan event.TypedGenericEvent[struct{}], 1), withdrawal: make(chan event.TypedGenericEvent[struct{}], 1)}
}

// takenBack says whether addresses were taken back.
func (r reports) takenBack() bool { return r.addresses != nil && r.addresses.takenBack }

// withdrawn says whether addresses may be taken back.
func (r reports) withdrawn() bool { return r.dataplane != nil && r.dataplane.withdrawn }

// post changes one report and wakes who reads it.
func (b *board) post(change func(*reports)) {
	b.mu.Lock()
	before := b.reports.withdrawn()
	change(&b.reports)
	after := b.reports.withdrawn()
	b.mu.Unlock()
	signal(b.posted)
	if before != after {
		signal(b.withdrawal)
	}
}

// signal wakes the reader of a channel that holds one signal.
func signal(c chan<- event.TypedGenericEvent[struct{}]) {
	select {
	case c <- event.TypedGenericEvent[struct{}]{}:
	default: // one is pending already
	}
}

// signals is a channel of the board as a source: each signal causes a pass.
func signals(c <-chan event.TypedGenericEvent[struct{}]) source.Source {
	return source.TypedChannel(c, handler.TypedFuncs[struct{}, reconcile.Request]{
		GenericFunc: func(_ context.Context, _ event.TypedGenericEvent[struct{}], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			q.Add(singleton)
		},
	})
}

// read returns the latest reports.
func (b *board) read() reports {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reports
}
