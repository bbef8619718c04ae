package controllers

import (
	"math/big"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// addressMetrics tell how far the pools are used.
type addressMetrics struct{ addresses *prometheus.GaugeVec }

func newAddressMetrics(registry prometheus.Registerer) addressMetrics {
	return addressMetrics{addresses: registered(registry, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "lanyard_pool_addresses",
		Help: "Addresses of each pool: total, allocated to Services, available, and quarantined because a foreign host on the LAN has them."},
		[]string{"pool", "state"}))}
}

// observe sets all series anew, so that none of a pool that is gone stays.
func (m addressMetrics) observe(pools []ipam.Usage) {
	m.addresses.Reset()
	for _, p := range pools {
		for state, n := range map[string]*big.Int{
			"total": p.Total, "allocated": p.Allocated, "available": p.Available, "quarantined": p.Quarantined,
		} {
			value, _ := new(big.Float).SetInt(n).Float64() // the nearest one is exact enough for a graph
			m.addresses.WithLabelValues(p.Pool, state).Set(value)
		}
	}
}
