package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseUsage(t *testing.T) {
	const status = "\nName:\tspeaker\nVmRSS:\t   55628 kB\nRssAnon:\t   23456 kB\nRssFile:\t   32172 kB\n"
	for name, tc := range map[string]struct {
		text string
		want usage
		bad  bool
	}{
		"user and system time, and memory": {
			text: "17 (speaker) S 1 17 17 0 -1 4194560 7049 0 1 0 250 125 0 0 20 0 11 0 3" + status,
			want: usage{processor: 3750 * time.Millisecond, anonymous: 23456 << 10},
		},
		"the process has gone": {text: "", bad: true},
		"no memory":            {text: "17 (speaker) S 1 17 17 0 -1 4194560 7049 0 1 0 250 125 0 0 20 0 11 0 3\n", bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseUsage(tc.text)
			if (err != nil) != tc.bad {
				t.Fatalf("error %v, want one: %v", err, tc.bad)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(usage{})); diff != "" && !tc.bad {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCostLine(t *testing.T) {
	c := cost{load: "at rest", cores: map[string]float64{"w2": 0.021, "w1": 0.0104}, anonymous: map[string]int{"w1": 20 << 20, "w2": 21 << 20}, sent: 4,
		took: []time.Duration{3 * time.Millisecond, time.Millisecond, 2 * time.Millisecond}}
	const want = "| lanyard | at rest | 3 | 1 | 1.04 % to 2.10 % | 21 MiB | 4 | 75.00 %, p50 2ms, p99 3ms, max 3ms |"
	if got := c.line("lanyard", 3, 1); len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("line %q, want %q and the load", got, want)
	}
}
