package controllers

import (
	"math/big"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// addressMetrics tell how far the pools are used.
type addressMetrics struct{ addresses, pending *prometheus.GaugeVec }

func newAddressMetrics(registry prometheus.Registerer) addressMetrics {
	return addressMetrics{addresses: registered(registry, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "lanyard_pool_addresses",
		Help: "Addresses of each pool: total, allocated to Services, available, quarantined because a foreign host on the LAN has them, and draining, which Services go on having although the pool does not give them any more."},
		[]string{"pool", "state"})),
		pending: registered(registry, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "lanyard_services_without_address",
			Help: "Services that ask for an address and have none, by the reason."}, []string{"reason"}))}
}

// observe sets all series anew, so that none of a pool or a reason that is gone stays.
func (m addressMetrics) observe(plan ipam.Result) {
	m.addresses.Reset()
	for _, p := range plan.Pools {
		for state, n := range map[string]*big.Int{
			"total": p.Total, "allocated": p.Allocated, "available": p.Available, "quarantined": p.Quarantined, "draining": p.Draining,
		} {
			value, _ := new(big.Float).SetInt(n).Float64() // the nearest one is exact enough for a graph
			m.addresses.WithLabelValues(p.Pool, state).Set(value)
		}
	}
	m.pending.Reset()
	for _, r := range plan.Refusals {
		m.pending.WithLabelValues(string(r.Reason)).Inc()
	}
}
