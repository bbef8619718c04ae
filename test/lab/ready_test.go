package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func at(seconds string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, "2026-05-04T10:00:"+seconds+"Z")
	if err != nil {
		panic(err)
	}
	return t
}

func TestParseReadiness(t *testing.T) {
	const listing = `k8s-cp-01 True 2026-05-04T10:00:05Z
k8s-wl-01 Unknown 2026-05-04T10:00:07Z
k8s-wl-02 True 

k8s-wl-03 True yesterday
`
	want := []readiness{{"k8s-cp-01", "True", at("05")}, {"k8s-wl-01", "Unknown", at("07")}}
	if diff := cmp.Diff(want, parseReadiness(listing), compare); diff != "" {
		t.Errorf("readiness (-want +got):\n%s", diff)
	}
}

func TestNotReady(t *testing.T) {
	for name, tc := range map[string]struct {
		turnedOn map[string]time.Time
		said     []readiness
		want     []string
	}{
		"all are": {
			turnedOn: map[string]time.Time{"a": at("10"), "b": at("11")},
			said:     []readiness{{"a", "True", at("15")}, {"b", "True", at("12")}},
		},
		"one is unknown, one not there": {
			turnedOn: map[string]time.Time{"c": at("10"), "b": at("10"), "a": at("10")},
			said:     []readiness{{"a", "True", at("15")}, {"b", "Unknown", at("15")}},
			want:     []string{"b", "c"},
		},
		"what was said before the power cut does not count": {
			turnedOn: map[string]time.Time{"a": at("10")},
			said:     []readiness{{"a", "True", at("09")}},
			want:     []string{"a"},
		},
		"the API's times are whole seconds": {
			turnedOn: map[string]time.Time{"a": at("10.9")},
			said:     []readiness{{"a", "True", at("10")}},
		},
		"of an old and a new pod on a node, one is enough": {
			turnedOn: map[string]time.Time{"a": at("10")},
			said:     []readiness{{"a", "False", at("05")}, {"a", "True", at("11")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, notReady(tc.turnedOn, tc.said)); diff != "" {
				t.Errorf("nodes that are not ready (-want +got):\n%s", diff)
			}
		})
	}
}
