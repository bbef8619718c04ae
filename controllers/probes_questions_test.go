package controllers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

func TestAShadowIsAsked(t *testing.T) {
	const metrics = `kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} 1
kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 2
`
	serve := func(mode, metrics string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body := map[string]string{"/proxyMode": mode, "/metrics": metrics}[r.URL.Path]
			if body == "" {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write([]byte(body))
		}
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc // nil: nothing listens
		want    kubeproxy.Answer
	}{
		"for mode and rules": {serve("nftables\n", metrics),
			kubeproxy.Answer{Mode: "nftables", Syncs: kubeproxy.Syncs{Families: map[string]bool{"IPv4": true}}}},
		"and says what part is missing": {serve("nftables", ""), kubeproxy.Answer{Mode: "nftables", Problem: "GET /metrics: 404 Not Found"}},
		"and nothing listens yet":       {nil, kubeproxy.Answer{Problem: "GET /proxyMode: connection refused"}},
		"and a line is too long to be one": {serve("nftables", strings.Repeat("x", 1<<20)),
			kubeproxy.Answer{Mode: "nftables", Problem: "GET /metrics: reading /metrics: bufio.Scanner: token too long"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.handler)
			defer server.Close()
			if c.handler == nil {
				server.Close()
			}
			q := newPodQuestions(nil)
			q.at = func(*corev1.Pod) (netip.AddrPort, bool) {
				return netip.MustParseAddrPort(strings.TrimPrefix(server.URL, "http://")), true
			}
			if diff := cmp.Diff(c.want, q.answer(context.Background(), &corev1.Pod{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAShadowWithoutAnAddressIsNotAsked(t *testing.T) {
	want := kubeproxy.Answer{Problem: "it has no address yet"}
	if diff := cmp.Diff(want, newPodQuestions(nil).answer(context.Background(), &corev1.Pod{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
