package results

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestARunIsReadAsWritten(t *testing.T) {
	want := []Run{
		{Series: Series{Product: "lanyard", Fault: "cut", Placement: "survivors", Nodes: 3, VIPs: 1}, Number: 1,
			At: time.Date(2026, 12, 2, 10, 0, 0, 0, time.UTC), Gap: 812.345, SampleGaps: []float64{1, 2}},
		{Series: Series{Product: "metallb"}, Open: true},
	}
	var lines []byte
	for _, r := range want {
		line, err := Line(r)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	got, err := Parse(lines)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

func TestALineThatIsNoRunIsNamed(t *testing.T) {
	if _, err := Parse([]byte("{}\n{")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("the error is %v, want one that names line 2", err)
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for name, tc := range map[string]struct {
		values []float64
		q      float64
		want   float64
	}{
		"the median of an odd number is the middle one":    {values: []float64{3, 1, 2}, q: .5, want: 2},
		"the median of an even number is the lower one":    {values: []float64{4, 1, 3, 2}, q: .5, want: 2},
		"99 of 100 do not exceed the second largest":       {values: hundred, q: .99, want: 99},
		"of twenty values the largest stands for the 99 %": {values: hundred[:20], q: .99, want: 100},
		"the largest":  {values: hundred, q: 1, want: 100},
		"the smallest": {values: hundred, q: 0, want: 1},
		"of no values there is none, which is written as 0": {q: .5},
		"of one value each quantile is that":                {values: []float64{7}, q: .99, want: 7},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Quantile(tc.values, tc.q); got != tc.want {
				t.Errorf("the quantile %v is %v, want %v", tc.q, got, tc.want)
			}
		})
	}
}

func TestTable(t *testing.T) {
	cut := Series{Product: "lanyard", Fault: "cut", Placement: "survivors", Nodes: 3, VIPs: 1}
	control := Series{Product: "lanyard", Fault: "control", Placement: "survivors", Nodes: 3, VIPs: 1}
	got := Table([]Run{
		{Series: cut, Gap: 800, Connect: 900, LostDuring: 795, Claimed: 799, AllClaimed: 799, SampleGaps: []float64{7, 5}, Moved: 1},
		{Series: control, Gap: 60_000, Open: true, Connect: 60_100, LostDuring: 59_000},
		{Series: cut, Gap: 9.25, Connect: 12, LostOtherwise: 3, Duplicate: 12, DuplicateHealing: 40},
	})
	want := `| product | fault | backends | nodes | VIPs | n | gap p50 | p99 | max | connect p50 | max | lost p50 | max | lost after, max | claimed p50 | all claimed, max | other VIPs' gap, max | two owners, max | moved |
|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
| lanyard | cut | survivors | 3 | 1 | 2 | 9.2 ms | 800 ms | 800 ms | 12 ms | 900 ms | 0 | 795 | 3 | - | 799 ms | 7.0 ms | 40 ms | 1 of 2 |
| lanyard | control | survivors | 3 | 1 | 1 | 60.0 s | 60.0 s | > 60.0 s | 60.1 s | 60.1 s | 59000 | 59000 | 0 | - | - | - | - | 0 of 1 |
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
