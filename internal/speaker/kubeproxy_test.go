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

func TestAskKubeProxy(t *testing.T) {
	const metrics = `# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.78291440123e+09
`
	started := metav1.Date(2026, 7, 1, 14, 0, 1, 0, time.UTC)
	for name, tc := range map[string]struct {
		mode, metrics string // what is not there is answered with 404
		want          v1alpha1.NodeKubeProxy
	}{
		"it says its mode and when it started": {
			mode: "nftables\n", metrics: metrics, want: v1alpha1.NodeKubeProxy{Mode: "nftables", StartTime: &started}},
		"something else listens on its port": {
			metrics: metrics, want: v1alpha1.NodeKubeProxy{Message: "kube-proxy does not answer: BASE/proxyMode answers 404 Not Found"}},
		"its metrics are refused: the mode is told all the same": {
			mode: "ipvs", want: v1alpha1.NodeKubeProxy{Mode: "ipvs", Message: "kube-proxy does not say when it started: BASE/metrics answers 404 Not Found"}},
		"its metrics lack the start": {
			mode: "ipvs", metrics: "process_start_time_seconds_total 7\n",
			want: v1alpha1.NodeKubeProxy{Mode: "ipvs", Message: "kube-proxy's metrics do not say when it started"}},
		"its metrics have no number for the start": {
			mode: "ipvs", metrics: "process_start_time_seconds soon\n",
			want: v1alpha1.NodeKubeProxy{Mode: "ipvs", Message: `reading kube-proxy's start time: strconv.ParseFloat: parsing "soon": invalid syntax`}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer := map[string]string{"/proxyMode": tc.mode, "/metrics": tc.metrics}[r.URL.Path]
				if answer == "" {
					http.NotFound(w, r)
					return
				}
				if _, err := fmt.Fprint(w, answer); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			got := askKubeProxy(t.Context(), server.Client(), server.URL)
			got.Message = strings.ReplaceAll(got.Message, server.URL, "BASE")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAskKubeProxyThatIsNotThere: no mode, and the reason.
func TestAskKubeProxyThatIsNotThere(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	got := askKubeProxy(t.Context(), http.DefaultClient, server.URL)
	if got.Mode != "" || got.StartTime != nil || !strings.HasSuffix(got.Message, "connection refused") {
		t.Errorf("answer is %+v, want no mode and why", got)
	}
}
