package controllers

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// kubeProxyMetrics tell how a change of kube-proxy stands.
type kubeProxyMetrics struct {
	phase, modes      *prometheus.GaugeVec
	rollbacks         prometheus.Counter
	preflightFailures prometheus.Counter
	// lastReason is what was observed last: preflight failures are counted as they begin.
	lastReason *string
}

var phases = []v1alpha1.KubeProxyPhase{
	v1alpha1.PhaseIdle, v1alpha1.PhasePlanned, v1alpha1.PhasePreflight, v1alpha1.PhaseCanary, v1alpha1.PhaseRolling, v1alpha1.PhaseInspecting,
	v1alpha1.PhaseRollingBack, v1alpha1.PhaseStalled,
}

func newKubeProxyMetrics(registry prometheus.Registerer) kubeProxyMetrics {
	return kubeProxyMetrics{
		phase: registered(registry, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "lanyard_kubeproxy_phase",
			Help: "1 for the phase that the change of kube-proxy is in, 0 for the others."}, []string{"phase"})),
		modes: registered(registry, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "lanyard_kubeproxy_nodes",
			Help: "Nodes by the mode that their kube-proxy reports."}, []string{"mode"})),
		rollbacks: registered(registry, prometheus.NewCounter(prometheus.CounterOpts{Name: "lanyard_kubeproxy_rollbacks_total",
			Help: "Changes of kube-proxy that were rolled back since the manager started."})),
		preflightFailures: registered(registry, prometheus.NewCounter(prometheus.CounterOpts{Name: "lanyard_kubeproxy_preflight_failures_total",
			Help: "Changes of kube-proxy that a node could not run in a trial since the manager started."})),
		lastReason: new(string),
	}
}

// registered registers a collector, or returns the one that a manager before this one in the same process has registered.
func registered[C prometheus.Collector](registry prometheus.Registerer, c C) C {
	err := registry.Register(c)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		return already.ExistingCollector.(C) // of the same description, and made here alone
	}
	if err != nil {
		panic(err) // a name that is no name, which a test would have shown
	}
	return c
}

func (m kubeProxyMetrics) observe(d kubeproxy.Decision, modes []v1alpha1.ObservedMode) {
	for _, phase := range phases {
		value := 0.0
		if phase == d.Phase {
			value = 1
		}
		m.phase.WithLabelValues(string(phase)).Set(value)
	}
	m.modes.Reset()
	for _, mode := range modes {
		m.modes.WithLabelValues(mode.Mode).Set(float64(len(mode.Nodes)))
	}
	if d.Reason == v1alpha1.ReasonPreflightFailed && *m.lastReason != v1alpha1.ReasonPreflightFailed {
		m.preflightFailures.Inc()
	}
	*m.lastReason = d.Reason
}

// recorded counts what the ledger has that it did not have before.
func (m kubeProxyMetrics) recorded(before, after kubeproxy.Ledger) {
	if failedAnew(before, after) {
		m.rollbacks.Inc()
	}
}

// failedAnew says whether the change that was under way is rolled back from now on. The way back goes through phases more than once, stalls,
// and outlives the manager, and somebody may lead kube-proxy astray after it: all that is of the one failure that the ledger has already.
func failedAnew(before, after kubeproxy.Ledger) bool {
	return before.Attempt != nil && before.Attempt.Failed == nil && after.Attempt != nil && after.Attempt.Failed != nil
}
