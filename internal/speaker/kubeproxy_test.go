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

const startMetrics = `# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds %s
`

// fakeProxy answers as kube-proxy does; what is empty is answered with 404. It lists what it was asked.
type fakeProxy struct {
	*httptest.Server
	mode, metrics string
	asked         []string
}

func newFakeProxy(t *testing.T) *fakeProxy {
	t.Helper()
	f := &fakeProxy{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked = append(f.asked, r.URL.Path)
		answer := map[string]string{"/proxyMode": f.mode, "/metrics": f.metrics}[r.URL.Path]
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

func TestAskKubeProxy(t *testing.T) {
	started := metav1.Date(2026, 7, 1, 14, 0, 1, 0, time.UTC)
	for name, tc := range map[string]struct {
		mode, metrics string
		want          v1alpha1.NodeKubeProxy
	}{
		"it says its mode and when it started": {
			mode: "nftables\n", metrics: fmt.Sprintf(startMetrics, "1.78291440123e+09"), want: v1alpha1.NodeKubeProxy{Mode: "nftables", StartTime: &started}},
		"something else listens on its port": {
			metrics: startMetrics, want: v1alpha1.NodeKubeProxy{
				Message: "kube-proxy does not answer on BASE (/proxyMode answers 404 Not Found): it does not run, or its metricsBindAddress is another"}},
		"its metrics are refused: the mode is told all the same": {
			mode: "ipvs", want: v1alpha1.NodeKubeProxy{Mode: "ipvs", Message: "kube-proxy does not say when it started: /metrics answers 404 Not Found"}},
		"its metrics lack the start": {
			mode: "ipvs", metrics: "process_start_time_seconds_total 7\n",
			want: v1alpha1.NodeKubeProxy{Mode: "ipvs", Message: "kube-proxy's metrics do not say when it started"}},
		"its metrics have no number for the start": {
			mode: "ipvs", metrics: "process_start_time_seconds soon\n",
			want: v1alpha1.NodeKubeProxy{Mode: "ipvs", Message: `reading kube-proxy's start time: strconv.ParseFloat: parsing "soon": invalid syntax`}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeProxy(t)
			f.mode, f.metrics = tc.mode, tc.metrics
			got := newKubeProxy(f.URL).ask(t.Context())
			got.Message = strings.ReplaceAll(got.Message, f.Listener.Addr().String(), "BASE")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKubeProxysMetricsAreFetchedOnce for each process: they are some megabytes. A process that was replaced is known by its connection,
// though it runs in the same mode.
func TestKubeProxysMetricsAreFetchedOnce(t *testing.T) {
	f := newFakeProxy(t)
	k := newKubeProxy(f.URL)
	for _, step := range []struct {
		what      string
		before    func()
		want      v1alpha1.NodeKubeProxy
		wantAsked []string
	}{
		{what: "at first it cannot say when it started",
			before:    func() { f.mode = "ipvs" },
			want:      v1alpha1.NodeKubeProxy{Mode: "ipvs", Message: "kube-proxy does not say when it started: /metrics answers 404 Not Found"},
			wantAsked: []string{"/proxyMode", "/metrics"}},
		{what: "then it can",
			before:    func() { f.metrics = fmt.Sprintf(startMetrics, "7") },
			want:      v1alpha1.NodeKubeProxy{Mode: "ipvs", StartTime: &metav1.Time{Time: time.Unix(7, 0).UTC()}},
			wantAsked: []string{"/proxyMode", "/metrics"}},
		{what: "the same process is not asked again",
			before:    func() { f.metrics = fmt.Sprintf(startMetrics, "8") },
			want:      v1alpha1.NodeKubeProxy{Mode: "ipvs", StartTime: &metav1.Time{Time: time.Unix(7, 0).UTC()}},
			wantAsked: []string{"/proxyMode"}},
		{what: "its connections end with a process, and the next one is asked",
			before:    f.CloseClientConnections,
			want:      v1alpha1.NodeKubeProxy{Mode: "ipvs", StartTime: &metav1.Time{Time: time.Unix(8, 0).UTC()}},
			wantAsked: []string{"/proxyMode", "/metrics"}},
	} {
		f.asked = nil
		step.before()
		got := k.ask(t.Context())
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: answer (-want +got):\n%s", step.what, diff)
		}
		if diff := cmp.Diff(step.wantAsked, f.asked); diff != "" {
			t.Errorf("%s: asked (-want +got):\n%s", step.what, diff)
		}
	}
}

// TestAModeOfTheProcessBeforeIsNotTheNextOnes: here the process ends between its mode and its metrics.
func TestAModeOfTheProcessBeforeIsNotTheNextOnes(t *testing.T) {
	f := newFakeProxy(t)
	f.mode, f.metrics = "ipvs", fmt.Sprintf(startMetrics, "7")
	f.Config.SetKeepAlivesEnabled(false)
	want := v1alpha1.NodeKubeProxy{Message: "kube-proxy closed the connection while it was asked; it is asked again"}
	if diff := cmp.Diff(want, newKubeProxy(f.URL).ask(t.Context())); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// TestAskKubeProxyThatIsNotThere: no mode, the reason, and what a person could look at. The connection's own port is not told: each report
// would differ from the one before.
func TestAskKubeProxyThatIsNotThere(t *testing.T) {
	f := newFakeProxy(t)
	f.Close()
	want := v1alpha1.NodeKubeProxy{Message: "kube-proxy does not answer on " + f.Listener.Addr().String() +
		" (connect: connection refused): it does not run, or its metricsBindAddress is another"}
	if diff := cmp.Diff(want, newKubeProxy(f.URL).ask(t.Context())); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}
