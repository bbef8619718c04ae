package speaker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/election"
	"github.com/lanyard-dev/lanyard/internal/membership"
)

// gathered are the values of some series, as "labels value".
func gathered(t *testing.T, registry prometheus.Gatherer, name string) (series []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
			series = append(series, strings.TrimSpace(fmt.Sprintf("%s %v", strings.Join(labels, ","), value)))
		}
	}
	return series
}

// TestNoSeriesStaysOfAnAddressThatWent: a cluster that makes and deletes Services for years does not grow its metrics.
func TestNoSeriesStaysOfAnAddressThatWent(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	two := map[string]membership.Member{"w1": {}, "w2": {}}
	m.observe(observation{members: two, verdicts: []verdict{claiming(sought, "eth0", election.Held), claiming(spare, "eth1", election.Held)}}, 0)
	if diff := cmp.Diff([]string{"192.168.1.200,eth0 1", "192.168.1.201,eth1 1"}, gathered(t, registry, "lanyard_speaker_address")); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	m.observe(observation{members: two, verdicts: []verdict{claiming(sought, "eth0", election.Taking), claiming(spare, "eth0", election.Held)}}, 1)
	for name, want := range map[string][]string{
		"lanyard_speaker_address":             {"192.168.1.201,eth0 1"},
		"lanyard_speaker_announced_addresses": {"1"},
		"lanyard_speaker_contested_addresses": {"1"},
		"lanyard_speaker_peers":               {"1"},
	} {
		if diff := cmp.Diff(want, gathered(t, registry, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestMovesAreCounted by their reason, and those after which nobody answered for a time are timed. What a restarted speaker resumes is no move.
func TestMovesAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []move{{}, {from: "w2", reason: v1alpha1.MoveSpeakerStopped}, {"w2", v1alpha1.MoveNodeSilent, 500 * time.Millisecond}} {
		m.moved(how)
	}
	for name, want := range map[string][]string{
		"lanyard_speaker_moves_total":      {"NodeSilent 1", "SpeakerStopped 1"},
		"lanyard_speaker_failover_seconds": {"0.5"},
	} {
		if diff := cmp.Diff(want, gathered(t, registry, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
