package speaker

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-dev/lanyard/internal/responder"
)

// Metrics are what a speaker counts.
type Metrics struct {
	addresses     prometheus.Gauge
	lastState     prometheus.Gauge
	replies       *prometheus.CounterVec
	announcements *prometheus.CounterVec
	unsent        *prometheus.CounterVec
	drops         *prometheus.CounterVec
	owned         *prometheus.GaugeVec
	moves         *prometheus.CounterVec
	failover      prometheus.Histogram
	conflicts     prometheus.Counter
	foreign       prometheus.Gauge
	contested     prometheus.Gauge
	peers         prometheus.Gauge
}

// NewMetrics registers a speaker's metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		addresses: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lanyard_speaker_announced_addresses", Help: "Addresses that this node answers for."}),
		lastState: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lanyard_speaker_last_state", Help: "1 while this speaker goes by the last state on the node's disk, as the API server does not answer."}),
		replies: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lanyard_speaker_replies_total", Help: "Questions for an address that were answered."}, []string{"protocol"}),
		announcements: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lanyard_speaker_announcements_total", Help: "Times that an address was announced to the LAN."}, []string{"protocol"}),
		unsent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lanyard_speaker_unsent_total", Help: "Frames that the interface's queue had no room for."}, []string{"protocol"}),
		drops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lanyard_speaker_drops_total", Help: "Frames that got no answer, by reason."}, []string{"protocol", "reason"}),
		owned: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "lanyard_speaker_address", Help: "1 for each address that this node answers for."}, []string{"address", "interface"}),
		moves: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lanyard_speaker_moves_total", Help: "Addresses that came to this node, by why the node before does not answer any more."}, []string{"reason"}),
		failover: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "lanyard_speaker_failover_seconds", Help: "How long nobody answered for an address that came to this node, at most.",
			Buckets: []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.5, 2, 5, 10}}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lanyard_speaker_conflicts_total", Help: "Times that an address was announced again because somebody else said to have it."}),
		foreign: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lanyard_speaker_foreign_addresses", Help: "Addresses of pools that hosts which are no speakers were heard to have."}),
		contested: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lanyard_speaker_contested_addresses", Help: "Addresses of this node for which another speaker is heard to answer as well."}),
		peers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lanyard_speaker_peers", Help: "Other speakers that are heard."}),
	}
	for _, c := range []prometheus.Collector{m.addresses, m.lastState, m.replies, m.announcements, m.unsent, m.drops,
		m.owned, m.moves, m.failover, m.conflicts, m.foreign, m.contested, m.peers} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// observe sets what a pass found. The series of addresses are set anew: none of an address that went stays.
func (m *Metrics) observe(o observation, contested int) {
	m.owned.Reset()
	answered := 0
	for _, v := range o.verdicts {
		if v.answers() {
			answered++
			m.owned.WithLabelValues(v.addr.String(), v.iface).Set(1)
		}
	}
	m.addresses.Set(float64(answered))
	m.foreign.Set(float64(len(o.foreign)))
	m.contested.Set(float64(contested))
	m.peers.Set(float64(max(0, len(o.members)-1)))
}

// moved counts an address that came to this node.
func (m *Metrics) moved(how move) {
	if how.reason != "" {
		m.moves.WithLabelValues(string(how.reason)).Inc()
	}
	if how.silence > 0 {
		m.failover.Observe(how.silence.Seconds())
	}
}

func (m *Metrics) recalled(is bool) {
	m.lastState.Set(0)
	if is {
		m.lastState.Set(1)
	}
}

// counters are a responder's counters.
func (m *Metrics) counters(by protocol) responder.Counters {
	return responder.Counters{
		Replied:   m.replies.WithLabelValues(string(by)).Inc,
		Announced: m.announcements.WithLabelValues(string(by)).Inc,
		Unsent:    m.unsent.WithLabelValues(string(by)).Inc,
		Dropped:   func(d responder.Drop) { m.drops.WithLabelValues(string(by), string(d)).Inc() },
	}
}
