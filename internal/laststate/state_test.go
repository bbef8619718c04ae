package laststate

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCheck(t *testing.T) {
	now := time.Date(2026, 12, 2, 20, 0, 0, 0, time.UTC)
	mine := Origin{Node: "w1", Cluster: "a"}
	for name, tc := range map[string]struct {
		state State
		want  string
	}{
		"of a moment ago":                      {state: State{Origin: mine, AsOf: metav1.NewTime(now.Add(-time.Second))}},
		"of the outage's first hour":           {state: State{Origin: mine, AsOf: metav1.NewTime(now.Add(-time.Hour))}},
		"as old as it may be":                  {state: State{Origin: mine, AsOf: metav1.NewTime(now.Add(-MaxAge))}},
		"of a clock that was set back a while": {state: State{Origin: mine, AsOf: metav1.NewTime(now.Add(time.Hour))}},
		"of a node that was off for days": {
			state: State{Origin: mine, AsOf: metav1.NewTime(now.Add(-72 * time.Hour))}, want: "it is 72h0m0s old, and after 24h0m0s too much may have changed"},
		"of a clock that is wrong by years": {
			state: State{Origin: mine, AsOf: metav1.NewTime(now.AddDate(3, 0, 0))}, want: "it is from 2029-12-02T20:00:00Z, and the node's clock says 2026-12-02T20:00:00Z: one of them is wrong"},
		"of the node whose disk this is a clone of": {
			state: State{Origin: Origin{Node: "w2", Cluster: "a"}, AsOf: metav1.NewTime(now)}, want: `it is node "w2"'s, and this is "w1"`},
		"of the cluster that the node was in before": {
			state: State{Origin: Origin{Node: "w1", Cluster: "b"}, AsOf: metav1.NewTime(now)}, want: "it is another cluster's"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := tc.state.Check(mine, now); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
		})
	}
}
