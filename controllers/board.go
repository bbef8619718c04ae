package controllers

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/conditions"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// board is where each reconciler posts its latest report, and where the status reconciler reads them. Reports are made anew from
// observed facts by every pass, so a restart loses nothing.
//
//	kubeproxy.go ─┐
//	dataplane.go ─┼─▶ board ──▶ status.go ──▶ ClusterNetworking.status
//	addresses.go ─┘
type board struct {
	mu      sync.Mutex
	reports reports
	// posted wakes the status reconciler. One pending signal is enough: it reads all reports.
	posted chan event.TypedGenericEvent[struct{}]
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
}

// dataplaneReport is how the configuration and the speakers' objects stand.
type dataplaneReport struct {
	revision revision
	problems []conditions.Problem
	// inForce is the generation of the configuration that is acted on; 0 when there is none.
	inForce int64
	err     error
}

// addressesReport is who has which address.
type addressesReport struct {
	// inForce is the generation of the configuration that they were given from; 0 when there is none.
	inForce int64
	// plan is nil when what it is made from could not be read.
	plan *ipam.Result
	err  error
}

func newBoard() *board {
	return &board{posted: make(chan event.TypedGenericEvent[struct{}], 1)}
}

// post changes one report and wakes the status reconciler.
func (b *board) post(change func(*reports)) {
	b.mu.Lock()
	change(&b.reports)
	b.mu.Unlock()
	select {
	case b.posted <- event.TypedGenericEvent[struct{}]{}:
	default: // a signal is pending already
	}
}

// read returns the latest reports.
func (b *board) read() reports {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reports
}
