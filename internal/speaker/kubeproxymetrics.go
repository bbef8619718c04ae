package speaker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// proxyMetrics are what counts of kube-proxy's metrics.
type proxyMetrics struct {
	// started is when the process was started, to the second; zero when the metrics do not say it.
	started time.Time
	// queued and written hold, for each IP family, when rules were last to be written and when they last were, in seconds since 1970; zero
	// is never. Up to 1.32 there is one for both families, under the empty name.
	queued, written map[string]float64
	// failures hold, for each IP family, how often the process tried to write rules and could not. The empty name stands for both.
	failures map[string]float64
	// nodePortPackets went to NodePorts at 127.0.0.1, and invalidPackets were dropped because conntrack calls them invalid.
	nodePortPackets, invalidPackets float64
}

// The metrics that are read besides those of the rules.
const (
	metricStart           = "process_start_time_seconds"
	metricNodePortPackets = "kubeproxy_iptables_localhost_nodeports_accepted_packets_total"
	metricInvalidPackets  = "kubeproxy_iptables_ct_state_invalid_dropped_packets_total"
)

// endOfTime is the year 5138, in seconds since 1970: a start after it cannot be, and one much later cannot be written in a report.
const endOfTime = 1e11

// longestLine bounds a line of metrics, in bytes.
const longestLine = 1 << 20

// readMetrics finds them in the Prometheus text format, to the end of it: a big cluster's are not kept in memory.
func readMetrics(text io.Reader) (proxyMetrics, error) {
	m := proxyMetrics{queued: map[string]float64{}, written: map[string]float64{}, failures: map[string]float64{}}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		if err := m.add(lines.Text()); err != nil {
			return proxyMetrics{}, err
		}
	}
	if err := lines.Err(); err != nil {
		return proxyMetrics{}, fmt.Errorf("reading its metrics: %w", err)
	}
	if m.started.IsZero() {
		return proxyMetrics{}, errors.New("its metrics lack " + metricStart)
	}
	return m, nil
}

// add takes a line in. One of a metric that is not read is passed over.
func (m *proxyMetrics) add(line string) error {
	sample, err := kubeproxy.ReadSample(line, func(name string) bool { return m.taking(name) != nil })
	if err == nil && sample.Name != "" {
		m.taking(sample.Name)(sample.Family, sample.Value)
	}
	return err
}

// taking returns what takes in a value of a metric; nil when it is not read.
func (m *proxyMetrics) taking(name string) func(family string, value float64) {
	switch name {
	case metricStart:
		return func(_ string, value float64) {
			if value > 0 && value < endOfTime {
				m.started = time.Unix(int64(value), 0).UTC()
			}
		}
	case kubeproxy.MetricWritten:
		return func(family string, value float64) { m.written[family] = value }
	case kubeproxy.MetricQueued:
		return func(family string, value float64) { m.queued[family] = value }
	// That stale chains stay a little longer (…_nftables_cleanup_failures_total) leaves the rules right, and a part that cannot be written
	// (…_iptables_partial_restore_failures_total) is also counted as a failure to restore.
	case kubeproxy.MetricNFTablesFailures, kubeproxy.MetricIPTablesFailures:
		return func(family string, value float64) { m.failures[family] += value }
	case metricNodePortPackets:
		return func(_ string, value float64) { m.nodePortPackets += value }
	case metricInvalidPackets:
		return func(_ string, value float64) { m.invalidPackets += value }
	}
	return nil
}

// rules says whether the process has written the rules of every family that it serves. It counts what it did itself: what is set at all was
// written after its start, even where the node's clock has been set back since. A family in which nothing was written yet shows only in
// what is queued.
func (m proxyMetrics) rules() v1alpha1.RulesState {
	if len(m.written) == 0 {
		return v1alpha1.RulesPending
	}
	for _, at := range m.written {
		if at <= 0 {
			return v1alpha1.RulesPending
		}
	}
	for family, at := range m.queued {
		if at > 0 && m.written[family] <= 0 {
			return v1alpha1.RulesPending
		}
	}
	return v1alpha1.RulesWritten
}

// failed is how often the process could not write rules, of any family.
func (m proxyMetrics) failed() int64 {
	all := 0.0
	for _, count := range m.failures {
		all += count
	}
	return int64(all)
}

// failing returns the families whose rules the process has tried to write since it wrote them last, and could not, after those that were
// found so before. One that fails before it is counted for the first time may have succeeded since.
func (m proxyMetrics) failing(before proxyMetrics, failed map[string]bool) map[string]bool {
	now := map[string]bool{}
	for family, count := range m.failures {
		wrote := m.written[family] != before.written[family] // in either direction: the clock may have been set back
		if family == "" {
			wrote = !maps.Equal(m.written, before.written)
		}
		if !wrote && (failed[family] || count > before.failures[family] && before.failures != nil) {
			now[family] = true
		}
	}
	return now
}

// uses are the features in use that another mode lacks, in order.
func (m proxyMetrics) uses() []v1alpha1.KubeProxyUse {
	var uses []v1alpha1.KubeProxyUse
	if m.invalidPackets > 0 {
		uses = append(uses, v1alpha1.UseInvalidPacketsDropped)
	}
	if m.nodePortPackets > 0 {
		uses = append(uses, v1alpha1.UseLocalhostNodePorts)
	}
	return uses
}
