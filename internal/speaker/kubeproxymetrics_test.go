package speaker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// startLine is of a process that was started at 14:00:01.
const startLine = "process_start_time_seconds 1.78291440123e+09\n"

// proxyText is what a dual-stack kube-proxy in mode nftables says, as far as it matters, between much else.
const proxyText = `# HELP kubeproxy_sync_proxy_rules_duration_seconds [ALPHA] SyncProxyRules latency in seconds
# TYPE kubeproxy_sync_proxy_rules_duration_seconds histogram
kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family="IPv4",le="0.001"} 0
# HELP kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds [ALPHA] The last time a sync of proxy rules was queued
# TYPE kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds gauge
kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} 1.782914402e+09
kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv6"} 1.782914402e+09
# TYPE kubeproxy_sync_proxy_rules_last_timestamp_seconds gauge
kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 1.782914403e+09
kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv6"} 1.782914404e+09
kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total{ip_family="IPv4"} 40
kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family="IPv4"} 2
kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family="IPv6"} 3
process_start_time_seconds 1.78291440123e+09
rest_client_requests_total{code="200",host="10.0.0.1:6443",method="GET"} 7
`

func TestReadMetrics(t *testing.T) {
	started := time.Date(2026, 7, 1, 14, 0, 1, 0, time.UTC)
	none := map[string]float64{}
	for name, tc := range map[string]struct {
		text    string
		want    proxyMetrics
		wantErr string
	}{
		"both families; failures to clean up are none to write": {text: proxyText, want: proxyMetrics{started: started, failures: map[string]float64{"IPv4": 2, "IPv6": 3},
			queued:  map[string]float64{"IPv4": 1782914402, "IPv6": 1782914402},
			written: map[string]float64{"IPv4": 1782914403, "IPv6": 1782914404}}},
		"up to 1.32 there is no family, and zero before the first time": {
			text: startLine + "kubeproxy_sync_proxy_rules_last_timestamp_seconds 0\nkubeproxy_sync_proxy_rules_iptables_restore_failures_total 4\n",
			want: proxyMetrics{started: started, failures: map[string]float64{"": 4}, queued: none, written: map[string]float64{"": 0}}},
		"what is used of mode iptables; a part that failed is not counted twice": {
			text: startLine + "kubeproxy_iptables_ct_state_invalid_dropped_packets_total 12\n" +
				"kubeproxy_iptables_localhost_nodeports_accepted_packets_total 3\n" +
				"kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total{ip_family=\"IPv4\"} 9\n",
			want: proxyMetrics{started: started, failures: none, queued: none, written: none, invalidPackets: 12, nodePortPackets: 3}},
		"a label may hold what looks like an end, and a time may follow": {
			text: startLine + `kubeproxy_sync_proxy_rules_last_timestamp_seconds{a="} 7",ip_family="IPv6"} 5 1782914400000` + "\n",
			want: proxyMetrics{started: started, failures: none, queued: none, written: map[string]float64{"IPv6": 5}}},
		"another metric whose name begins alike is not it": {
			text: startLine + "process_start_time_seconds_total 9\n", want: proxyMetrics{started: started, failures: none, queued: none, written: none}},
		"the start is not said": {text: "go_goroutines 7\n", wantErr: "its metrics lack process_start_time_seconds"},
		"the start is no number": {text: "process_start_time_seconds soon\n",
			wantErr: `reading process_start_time_seconds of its metrics: strconv.ParseFloat: parsing "soon": invalid syntax`},
		"there is no value":       {text: "process_start_time_seconds \n", wantErr: `reading process_start_time_seconds of its metrics: strconv.ParseFloat: parsing "": invalid syntax`},
		"a line without an end":   {text: strings.Repeat("x", longestLine+1), wantErr: "reading its metrics: bufio.Scanner: token too long"},
		"the start cannot be":     {text: "process_start_time_seconds NaN\n", wantErr: "its metrics lack process_start_time_seconds"},
		"there is nothing at all": {wantErr: "its metrics lack process_start_time_seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readMetrics(strings.NewReader(tc.text))
			if said := fmt.Sprint(err); err != nil && said != tc.wantErr || err == nil && tc.wantErr != "" {
				t.Errorf("error is %v, want %s", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(proxyMetrics{})); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRulesAreWritten(t *testing.T) {
	type families = map[string]float64
	for name, tc := range map[string]struct {
		queued, written families
		want            v1alpha1.RulesState
	}{
		"nothing is known":                                   {want: v1alpha1.RulesPending},
		"they are to be written":                             {queued: families{"IPv4": 5}, want: v1alpha1.RulesPending},
		"they are written":                                   {queued: families{"IPv4": 5}, written: families{"IPv4": 6}, want: v1alpha1.RulesWritten},
		"more is to be written: what was still holds":        {queued: families{"IPv4": 9}, written: families{"IPv4": 6}, want: v1alpha1.RulesWritten},
		"one of two families is":                             {queued: families{"IPv4": 5, "IPv6": 5}, written: families{"IPv4": 6}, want: v1alpha1.RulesPending},
		"one of two families is, the other says never":       {written: families{"IPv4": 6, "IPv6": 0}, want: v1alpha1.RulesPending},
		"both families are":                                  {queued: families{"IPv4": 5, "IPv6": 5}, written: families{"IPv4": 6, "IPv6": 6}, want: v1alpha1.RulesWritten},
		"up to 1.32 one metric stands for both: never":       {queued: families{"": 5}, written: families{"": 0}, want: v1alpha1.RulesPending},
		"up to 1.32 one metric stands for both: they are":    {queued: families{"": 5}, written: families{"": 6}, want: v1alpha1.RulesWritten},
		"a family that a kernel without IPv6 has not at all": {queued: families{"IPv4": 5, "IPv6": 0}, written: families{"IPv4": 6}, want: v1alpha1.RulesWritten},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (proxyMetrics{queued: tc.queued, written: tc.written}).rules(); got != tc.want {
				t.Errorf("the rules are %s, want %s", got, tc.want)
			}
		})
	}
}

func TestUses(t *testing.T) {
	got := proxyMetrics{nodePortPackets: 1, invalidPackets: 1}.uses()
	if diff := cmp.Diff([]v1alpha1.KubeProxyUse{v1alpha1.UseInvalidPacketsDropped, v1alpha1.UseLocalhostNodePorts}, got); diff != "" {
		t.Errorf("with both (-want +got):\n%s", diff)
	}
	if got := (proxyMetrics{}).uses(); got != nil {
		t.Errorf("with neither: %v", got)
	}
}

// FuzzReadMetrics: whatever listens on kube-proxy's port, what is read can be reported.
func FuzzReadMetrics(f *testing.F) {
	for _, seed := range []string{proxyText, startLine, "", "{", "{}", "process_start_time_seconds{ 1", "process_start_time_seconds} NaN", "# x", " 1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := readMetrics(strings.NewReader(text))
		if (err == nil) == m.started.IsZero() {
			t.Errorf("error is %v, and it was started at %v", err, m.started)
		}
		if written := m.rules() == v1alpha1.RulesWritten; written && len(m.written) == 0 {
			t.Errorf("nothing was written of %+v", m)
		}
	})
}

func TestFailing(t *testing.T) {
	type families = map[string]float64
	type failing = map[string]bool
	counts := func(written, failures families) proxyMetrics {
		return proxyMetrics{written: written, failures: failures}
	}
	before := counts(families{"IPv4": 5, "IPv6": 5}, families{"IPv4": 2, "IPv6": 0})
	for name, tc := range map[string]struct {
		before, now proxyMetrics
		failed      failing
		want        failing
	}{
		"nothing has happened":                    {before: before, now: before, want: failing{}},
		"it still fails, and has not tried again": {before: before, now: before, failed: failing{"IPv4": true}, want: failing{"IPv4": true}},
		"it failed, and then wrote them": {
			before: before, now: counts(families{"IPv4": 6, "IPv6": 5}, families{"IPv4": 3, "IPv6": 0}), want: failing{}},
		"one family fails while the other is right": {
			before: before, now: counts(families{"IPv4": 5, "IPv6": 6}, families{"IPv4": 3, "IPv6": 0}), want: failing{"IPv4": true}},
		"it has recovered": {
			before: before, failed: failing{"IPv4": true}, now: counts(families{"IPv4": 6, "IPv6": 5}, families{"IPv4": 2, "IPv6": 0}), want: failing{}},
		"its clock was set back": {
			before: before, failed: failing{"IPv4": true}, now: counts(families{"IPv4": 1, "IPv6": 5}, families{"IPv4": 2, "IPv6": 0}), want: failing{}},
		"what failed before it was counted first": {now: before, want: failing{}},
		"up to 1.32 one count stands for both": {
			before: counts(families{"": 5}, families{"": 1}), now: counts(families{"": 5}, families{"": 2}), want: failing{"": true}},
		"a count for both, and what is written by family": {
			before: counts(families{"IPv4": 5}, families{"": 1}), now: counts(families{"IPv4": 6}, families{"": 2}), want: failing{}},
	} {
		if diff := cmp.Diff(tc.want, tc.now.failing(tc.before, tc.failed)); diff != "" {
			t.Errorf("%s: failing (-want +got):\n%s", name, diff)
		}
	}
}
