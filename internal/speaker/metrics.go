package speaker

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-dev/lanyard/internal/responder"
)

// Metrics are what a speaker counts.
type Metrics struct {
	addresses     prometheus.Gauge
	replies       prometheus.Counter
	announcements prometheus.Counter
	unsent        prometheus.Counter
	drops         *prometheus.CounterVec
}

// NewMetrics registers a speaker's metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		addresses: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lanyard_speaker_announced_addresses", Help: "Addresses that this node answers for."}),
		replies: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lanyard_speaker_arp_replies_total", Help: "ARP requests that were answered."}),
		announcements: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lanyard_speaker_arp_announcements_total", Help: "Times that an address was announced to the LAN."}),
		unsent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lanyard_speaker_arp_unsent_total", Help: "ARP frames that the interface's queue had no room for."}),
		drops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lanyard_speaker_arp_drops_total", Help: "ARP frames that got no answer, by reason."}, []string{"reason"}),
	}
	for _, c := range []prometheus.Collector{m.addresses, m.replies, m.announcements, m.unsent, m.drops} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) announced(n int) { m.addresses.Set(float64(n)) }

// counters are the responder's counters.
func (m *Metrics) counters() responder.Counters {
	return responder.Counters{
		Replied:   m.replies.Inc,
		Announced: m.announcements.Inc,
		Unsent:    m.unsent.Inc,
		Dropped:   func(d responder.Drop) { m.drops.WithLabelValues(string(d)).Inc() },
	}
}
