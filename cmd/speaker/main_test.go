package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
)

func TestHealthAddress(t *testing.T) {
	for node, want := range map[string]string{"192.168.1.7": "192.168.1.7:7957", "fd00::7": "[fd00::7]:7957"} {
		if got := healthAddress(netip.MustParseAddr(node), 7957); got != want {
			t.Errorf("of a node at %s it is %s, want %s", node, got, want)
		}
	}
}

// TestIdentify: a cluster is known by its certificate authority, however that comes.
func TestIdentify(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	const abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	for name, tls := range map[string]rest.TLSClientConfig{"as a file": {CAFile: file}, "as it is": {CAData: []byte("abc")}} {
		if got, err := identify(&rest.Config{TLSClientConfig: tls}); got != abc || err != nil {
			t.Errorf("%s: %s, %v; want %s", name, got, err, abc)
		}
	}
	if _, err := identify(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: file + ".missing"}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without its file the error is %v, want %v", err, os.ErrNotExist)
	}
}

// state is a speaker's.
type state struct{ alive, ready bool }

func (s state) Alive() bool { return s.alive }
func (s state) Ready() bool { return s.ready }

// TestProbesAreAnsweredAsTheSpeakerIs: one that is not ready is not started anew.
func TestProbesAreAnsweredAsTheSpeakerIs(t *testing.T) {
	for name, tc := range map[string]struct {
		is   state
		want map[string]int
	}{
		"it works":                 {is: state{alive: true, ready: true}, want: map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200}},
		"it waits for the cluster": {is: state{alive: true}, want: map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 200}},
		"it hangs":                 {is: state{}, want: map[string]int{"/healthz": 503, "/readyz": 503, "/metrics": 200}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]int{}
			for path := range tc.want {
				answer := httptest.NewRecorder()
				handler(tc.is, prometheus.NewRegistry()).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
				got[path] = answer.Code
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}
