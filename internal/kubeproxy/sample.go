package kubeproxy

import (
	"fmt"
	"strconv"
	"strings"
)

// The metrics that tell how far kube-proxy has come with its rules. A family's rules are queued once it works in it, so that this has the
// families that the other may lack.
const (
	metricPrefix  = "kubeproxy_sync_proxy_rules_"
	MetricQueued  = metricPrefix + "last_queued_timestamp_seconds"
	MetricWritten = metricPrefix + "last_timestamp_seconds"
	// The attempts of which nothing was written.
	MetricIPTablesFailures = metricPrefix + "iptables_restore_failures_total"
	MetricNFTablesFailures = metricPrefix + "nftables_sync_failures_total"
)

// Sample is a line of the Prometheus text format.
type Sample struct {
	Name string
	// Family is the IP family that the sample speaks of; empty when it does not say.
	Family string
	Value  float64
}

// ReadSample reads a line, if it is a sample of a wanted metric: Name is empty when it is not. The error says which metric has no number.
func ReadSample(line string, wanted func(name string) bool) (Sample, error) {
	end := strings.IndexAny(line, "{ ")
	if end < 0 || line[0] == '#' || !wanted(line[:end]) {
		return Sample{}, nil
	}
	s, rest := Sample{Name: line[:end]}, line[end:]
	if brace := strings.LastIndexByte(rest, '}'); brace >= 0 {
		_, after, _ := strings.Cut(rest[:brace], `ip_family="`)
		s.Family, _, _ = strings.Cut(after, `"`)
		rest = rest[brace+1:]
	}
	text, _, _ := strings.Cut(strings.TrimSpace(rest), " ") // a time may follow
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return Sample{}, fmt.Errorf("reading %s of its metrics: %w", s.Name, err)
	}
	s.Value = value
	return s, nil
}
