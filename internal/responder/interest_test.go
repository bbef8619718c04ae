package responder

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var compareAddrs = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func TestMerge(t *testing.T) {
	for name, tc := range map[string]struct{ ranges, want []Range }{
		"nothing": {},
		"apart, in order": {
			ranges: []Range{rangeOf("10.0.0.9", "10.0.0.9"), rangeOf("10.0.0.1", "10.0.0.3")},
			want:   []Range{rangeOf("10.0.0.1", "10.0.0.3"), rangeOf("10.0.0.9", "10.0.0.9")},
		},
		"touching": {
			ranges: []Range{rangeOf("10.0.0.1", "10.0.0.3"), rangeOf("10.0.0.4", "10.0.0.9")},
			want:   []Range{rangeOf("10.0.0.1", "10.0.0.9")},
		},
		"one within another": {
			ranges: []Range{rangeOf("10.0.0.1", "10.0.0.9"), rangeOf("10.0.0.2", "10.0.0.3"), rangeOf("10.0.0.5", "10.0.0.6")},
			want:   []Range{rangeOf("10.0.0.1", "10.0.0.9")},
		},
		"up to the last address of all": {
			ranges: []Range{rangeOf("255.255.255.255", "255.255.255.255"), rangeOf("255.255.255.0", "255.255.255.255")},
			want:   []Range{rangeOf("255.255.255.0", "255.255.255.255")},
		},
		"IPv6 is left out": {
			ranges: []Range{rangeOf("fd00::1", "fd00::2"), rangeOf("10.0.0.1", "10.0.0.1")},
			want:   []Range{rangeOf("10.0.0.1", "10.0.0.1")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, merge(tc.ranges, arp{}.family), compareAddrs); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCoarsen(t *testing.T) {
	three := []Range{rangeOf("10.0.0.1", "10.0.0.2"), rangeOf("10.0.0.9", "10.0.0.9"), rangeOf("10.0.0.12", "10.0.0.12")}
	for name, tc := range map[string]struct {
		merged []Range
		atMost int
		want   []Range
	}{
		"nothing":                         {nil, 2, nil},
		"as many as there may be":         {three, 3, three},
		"those closest together are one":  {three, 2, []Range{rangeOf("10.0.0.1", "10.0.0.2"), rangeOf("10.0.0.9", "10.0.0.12")}},
		"all are one":                     {three, 1, []Range{rangeOf("10.0.0.1", "10.0.0.12")}},
		"of equal gaps the last are gone": {everySecond(4), 3, []Range{rangeOf("210.0.0.0", "210.0.0.0"), rangeOf("210.0.0.2", "210.0.0.2"), rangeOf("210.0.0.4", "210.0.0.6")}},
		"IPv6, far apart": {[]Range{rangeOf("fd00::1", "fd00::2"), rangeOf("fd00:0:0:1::1", "fd00:0:0:1::1"), rangeOf("fd00:0:0:1:8000::", "fd00:0:0:1:8000::")}, 2,
			[]Range{rangeOf("fd00::1", "fd00::2"), rangeOf("fd00:0:0:1::1", "fd00:0:0:1:8000::")}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, coarsen(tc.merged, tc.atMost), compareAddrs); diff != "" {
				t.Errorf("coarsened (-want +got):\n%s", diff)
			}
		})
	}
}
