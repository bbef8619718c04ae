package speaker

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// started is a metric of a process that was started so many seconds after 1970, and written one of rules that are written.
func started(seconds int) string { return fmt.Sprintf("process_start_time_seconds %d.5\n", seconds) }

const written = "kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"} 99\n"

// configz is what a process of 1.36 says that it runs with, and configzBefore what one of 1.35 does.
const (
	configz       = `{"kubeproxy.config.k8s.io":{"metricsBindAddress":"127.0.0.1:10249","mode":"nftables","ipvs":{"strictARP":false,"scheduler":""}}}`
	configzBefore = `{"kubeproxy.config.k8s.io":{"MetricsBindAddress":"127.0.0.1:10249","Mode":"nftables"}}`
)

var settingsInConfigz = map[string]string{"metricsBindAddress": "127.0.0.1:10249", "mode": "nftables"}

// fakeProxy answers as kube-proxy does; what is empty is answered with 404. It lists what it was asked. What follows a path's answer, as the
// end of its process, happens once.
type fakeProxy struct {
	*httptest.Server
	mode, metrics, configz string
	asked                  []string
	after                  map[string]func()
}

func newFakeProxy(t *testing.T) *fakeProxy {
	t.Helper()
	f := &fakeProxy{after: map[string]func(){}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked = append(f.asked, r.URL.Path)
		answer := map[string]string{"/proxyMode": f.mode, "/metrics": f.metrics, "/configz": f.configz}[r.URL.Path]
		if then := f.after[r.URL.Path]; then != nil {
			delete(f.after, r.URL.Path)
			w.Header().Set("Connection", "close")
			defer then()
		}
		if answer == "" {
			http.NotFound(w, r)
			return
		}
		if _, err := fmt.Fprint(w, answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fakeProxy) address() string { return f.Listener.Addr().String() }

// at is a start time.
func at(seconds int) *metav1.Time { return &metav1.Time{Time: time.Unix(int64(seconds), 0).UTC()} }

func TestAskKubeProxy(t *testing.T) {
	for name, tc := range map[string]struct {
		mode, metrics, configz string
		want                   v1alpha1.NodeKubeProxy
	}{
		"it says how it runs, and that it has written its rules": {
			mode: "nftables\n", metrics: started(7) + written, configz: configz,
			want: v1alpha1.NodeKubeProxy{Mode: "nftables", StartTime: at(7), Rules: v1alpha1.RulesWritten, Settings: settingsInConfigz}},
		"it cannot write its rules, and dropped packets": {
			mode: "iptables", configz: configz, metrics: started(7) + "kubeproxy_sync_proxy_rules_iptables_restore_failures_total 4\n" +
				"kubeproxy_iptables_ct_state_invalid_dropped_packets_total 1\n",
			want: v1alpha1.NodeKubeProxy{Mode: "iptables", StartTime: at(7), Rules: v1alpha1.RulesPending, SyncFailures: 4, Settings: settingsInConfigz,
				Uses: []v1alpha1.KubeProxyUse{v1alpha1.UseInvalidPacketsDropped}}},
		"up to 1.35 its settings are not known": {
			mode: "nftables", metrics: started(7) + written, configz: configzBefore,
			want: v1alpha1.NodeKubeProxy{Mode: "nftables", StartTime: at(7), Rules: v1alpha1.RulesWritten}},
		"something else listens on its port": {
			metrics: started(7), want: v1alpha1.NodeKubeProxy{
				Message: "kube-proxy does not answer on BASE (/proxyMode answers 404 Not Found): it does not run, or its metricsBindAddress is another"}},
		"its metrics are refused: the mode is told all the same": {
			mode: "ipvs", want: v1alpha1.NodeKubeProxy{Mode: "ipvs", Message: "kube-proxy does not say when it started: /metrics answers 404 Not Found"}},
		"its metrics lack the start": {
			mode: "ipvs", metrics: "go_goroutines 7\n",
			want: v1alpha1.NodeKubeProxy{Mode: "ipvs", Message: "kube-proxy does not say when it started: its metrics lack process_start_time_seconds"}},
		"its settings are refused": {
			mode: "ipvs", metrics: started(7),
			want: v1alpha1.NodeKubeProxy{Mode: "ipvs", StartTime: at(7), Rules: v1alpha1.RulesPending,
				Message: "kube-proxy does not say its settings: /configz answers 404 Not Found"}},
		"its settings cannot be read": {
			mode: "ipvs", metrics: started(7), configz: "{}",
			want: v1alpha1.NodeKubeProxy{Mode: "ipvs", StartTime: at(7), Rules: v1alpha1.RulesPending,
				Message: "kube-proxy does not say its settings: reading /configz: it has no kubeproxy.config.k8s.io"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeProxy(t)
			f.mode, f.metrics, f.configz = tc.mode, tc.metrics, tc.configz
			got := newKubeProxy(time.Now).ask(t.Context(), f.address())
			got.Message = strings.ReplaceAll(got.Message, f.address(), "BASE")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKubeProxyIsAskedNoMoreThanNeeded: its metrics are large, and its settings stay while its process lives. A process that was replaced is
// known by its connection, though it runs in the same mode.
func TestKubeProxyIsAskedNoMoreThanNeeded(t *testing.T) {
	f := newFakeProxy(t)
	f.mode, f.configz = "ipvs", configz
	now := time.Unix(1000, 0)
	k := newKubeProxy(func() time.Time { return now })
	says := func(start int, rules v1alpha1.RulesState) v1alpha1.NodeKubeProxy {
		return v1alpha1.NodeKubeProxy{Mode: "ipvs", StartTime: at(start), Rules: rules, Settings: settingsInConfigz}
	}
	failing := func(start int, failures int64) v1alpha1.NodeKubeProxy {
		answer := says(start, v1alpha1.RulesFailing)
		answer.SyncFailures = failures
		return answer
	}
	mode, modeAndMetrics, all := []string{"/proxyMode"}, []string{"/proxyMode", "/metrics"}, []string{"/proxyMode", "/metrics", "/configz"}
	for _, step := range []struct {
		what      string
		before    func()
		want      v1alpha1.NodeKubeProxy
		wantAsked []string
	}{
		{what: "at first it cannot say when it started", before: func() {},
			want:      v1alpha1.NodeKubeProxy{Mode: "ipvs", Message: "kube-proxy does not say when it started: /metrics answers 404 Not Found"},
			wantAsked: modeAndMetrics},
		{what: "then it can", before: func() { f.metrics = started(7) }, want: says(7, v1alpha1.RulesPending), wantAsked: all},
		{what: "until its rules are written it is asked for them", before: func() {},
			want: says(7, v1alpha1.RulesPending), wantAsked: modeAndMetrics},
		{what: "they are", before: func() { f.metrics = started(7) + written }, want: says(7, v1alpha1.RulesWritten), wantAsked: modeAndMetrics},
		{what: "in its first half minute it is asked whether it still can", before: func() {
			now, f.metrics = now.Add(probation-time.Second), started(7)+written+"kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family=\"IPv4\"} 1\n"
		}, want: failing(7, 1), wantAsked: modeAndMetrics},
		{what: "and again until it can", before: func() { now = now.Add(time.Second) }, want: failing(7, 1), wantAsked: modeAndMetrics},
		{what: "which it can", before: func() { f.metrics = started(7) + strings.Replace(written, "99", "100", 1) },
			want: says(7, v1alpha1.RulesWritten), wantAsked: modeAndMetrics},
		{what: "then it is left alone", before: func() { now = now.Add(countEvery - time.Second) },
			want: says(7, v1alpha1.RulesWritten), wantAsked: mode},
		{what: "for a while; that its metrics fail once changes nothing",
			before: func() { now, f.metrics = now.Add(time.Second), "" }, want: says(7, v1alpha1.RulesWritten), wantAsked: modeAndMetrics},
		{what: "and then it is left alone again", before: func() { f.metrics = started(8) }, want: says(7, v1alpha1.RulesWritten), wantAsked: mode},
		{what: "its connections end with a process, and the next one is asked",
			before: f.CloseClientConnections, want: says(8, v1alpha1.RulesPending), wantAsked: all},
	} {
		f.asked = nil
		step.before()
		got := k.ask(t.Context(), f.address())
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: answer (-want +got):\n%s", step.what, diff)
		}
		if diff := cmp.Diff(step.wantAsked, f.asked); diff != "" {
			t.Errorf("%s: asked (-want +got):\n%s", step.what, diff)
		}
	}
}

// TestAnAnswerIsOfOneProcess: when it ends between two questions, what it said before is not told as if the next process had. The next time
// all is that one's.
func TestAnAnswerIsOfOneProcess(t *testing.T) {
	for name, tc := range map[string]struct {
		ends  string
		known bool // the first process was asked before
	}{
		"after it said its mode":                      {ends: "/proxyMode"},
		"after it said when it started":               {ends: "/metrics"},
		"after it said its mode, and it is known":     {ends: "/proxyMode", known: true},
		"after it was counted again, and it is known": {ends: "/metrics", known: true},
		"after it said its settings, at the very end": {ends: "/configz"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeProxy(t)
			f.mode, f.metrics, f.configz = "ipvs", started(7), configz
			k := newKubeProxy(time.Now)
			if tc.known {
				k.ask(t.Context(), f.address())
			}
			f.after[tc.ends] = func() {
				f.mode, f.metrics, f.configz = "nftables", started(8)+written, `{"kubeproxy.config.k8s.io":{"metricsBindAddress":":20249"}}`
			}
			first := k.ask(t.Context(), f.address())
			before := v1alpha1.NodeKubeProxy{Mode: "ipvs", StartTime: at(7), Rules: v1alpha1.RulesPending, Settings: settingsInConfigz}
			if first.Message != errReplaced.Error() && !cmp.Equal(before, first) {
				t.Errorf("it says %+v, which is of two processes", first)
			}
			want := v1alpha1.NodeKubeProxy{Mode: "nftables", StartTime: at(8), Rules: v1alpha1.RulesWritten,
				Settings: map[string]string{"metricsBindAddress": ":20249"}}
			if diff := cmp.Diff(want, k.ask(t.Context(), f.address())); diff != "" {
				t.Errorf("the next answer (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAKubeProxyThatWasNotRestartedYetAnswersWhereItDid: its address in the configuration may be of the next process.
func TestAKubeProxyThatWasNotRestartedYetAnswersWhereItDid(t *testing.T) {
	before, after := newFakeProxy(t), newFakeProxy(t)
	before.mode, before.metrics, before.configz = "ipvs", started(7)+written, configz
	after.metrics, after.configz = started(8)+written, configz
	k := newKubeProxy(time.Now)
	for _, step := range []struct {
		what    string
		at      string
		prepare func()
		want    string
	}{
		{what: "it answers", at: before.address(), prepare: func() {}, want: "ipvs, started at 7"},
		{what: "the configuration has another address", at: after.address(), prepare: func() {}, want: "ipvs, started at 7"},
		{what: "it was restarted", at: after.address(), prepare: func() { before.Close(); after.mode = "nftables" }, want: "nftables, started at 8"},
		{what: "it goes on", at: after.address(), prepare: func() {}, want: "nftables, started at 8"},
	} {
		step.prepare()
		got := k.ask(t.Context(), step.at)
		if said := fmt.Sprintf("%s, started at %d", got.Mode, got.StartTime.Unix()); said != step.want {
			t.Errorf("%s: it runs %s, want %s", step.what, said, step.want)
		}
	}
}

// TestAskKubeProxyThatIsNotThere: no mode, the reason, and what a person could look at. The connection's own port is not told: each report
// would differ from the one before.
func TestAskKubeProxyThatIsNotThere(t *testing.T) {
	f := newFakeProxy(t)
	f.Close()
	want := v1alpha1.NodeKubeProxy{Message: "kube-proxy does not answer on " + f.address() +
		" (connect: connection refused): it does not run, or its metricsBindAddress is another"}
	if diff := cmp.Diff(want, newKubeProxy(time.Now).ask(t.Context(), f.address())); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}
