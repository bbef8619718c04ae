package controllers

import (
	"sync"

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

// complete says whether every reconciler has reported.
func (r reports) complete() bool {
	return r.kubeProxy != nil && r.dataplane != nil && r.addresses != nil
}

// kubeProxyReport is how kube-proxy stands.
type kubeProxyReport struct {
	verdict conditions.Verdict
	status  v1alpha1.KubeProxyStatus
}

// dataplaneReport is how the configuration and the speakers' objects stand.
type dataplaneReport struct {
	problems []conditions.Problem
	// inForce is the generation of the configuration that is acted on; 0 when there is none.
	inForce int64
	err     error
}

// addressesReport is who has which address.
type addressesReport struct {
	pools       []ipam.Usage
	assignments []ipam.Assignment
	refusals    []ipam.Refusal
	err         error
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
