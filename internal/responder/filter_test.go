package responder

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/bpf"
)

var compareAddrs = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func rangeOf(first, last string) Range {
	return Range{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)}
}

// TestAboutLetsOnlyTheRangesThrough runs the part of the filter that looks at bytes. What looks at the packet's interface and type needs a
// kernel: the tests on a virtual wire cover it.
func TestAboutLetsOnlyTheRangesThrough(t *testing.T) {
	pool := []Range{rangeOf("192.168.1.200", "192.168.1.210")}
	for name, tc := range map[string]struct {
		ranges []Range
		target string
		passes bool
	}{
		"the first of a range":                       {pool, "192.168.1.200", true},
		"the last of a range":                        {pool, "192.168.1.210", true},
		"one before the first":                       {pool, "192.168.1.199", false},
		"one after the last":                         {pool, "192.168.1.211", false},
		"a lower range after a higher one":           {append([]Range{rangeOf("203.0.113.0", "203.0.113.255")}, pool...), "192.168.1.205", true},
		"a gap between ranges":                       {append([]Range{rangeOf("192.168.1.220", "192.168.1.229")}, pool...), "192.168.1.215", false},
		"the last address of all":                    {[]Range{rangeOf("255.255.255.0", "255.255.255.255")}, "255.255.255.255", true},
		"no ranges":                                  {nil, "192.168.1.200", false},
		"only IPv6 ranges, which ARP knows not":      {[]Range{rangeOf("fd00::1", "fd00::9")}, "192.168.1.200", false},
		"more ranges than the filter can tell apart": {everySecond(rangeLimit + 1), "192.168.1.200", true},
		"as many ranges as it can, without this one": {everySecond(rangeLimit), "192.168.1.200", false},
		"as many ranges as it can, with this one":    {everySecond(rangeLimit), "10.0.0.2", true},
	} {
		t.Run(name, func(t *testing.T) {
			target := netip.MustParseAddr(tc.target).As4()
			frame := frameOf(t, "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000"+fmt.Sprintf("%x", target))
			vm, err := bpf.NewVM(about(tc.ranges))
			if err != nil {
				t.Fatal(err)
			}
			n, err := vm.Run(frame)
			if err != nil || (n > 0) != tc.passes {
				t.Errorf("the filter passes %d bytes (error %v), want it to pass: %t", n, err, tc.passes)
			}
		})
	}
}

func TestAboutDropsWhatIsNotARP(t *testing.T) {
	frame := frameOf(t, "ffffffffffff 0200000000bb 0800 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8")
	vm, err := bpf.NewVM(about([]Range{rangeOf("0.0.0.0", "255.255.255.255")}))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := vm.Run(frame); n != 0 || err != nil {
		t.Errorf("the filter passes %d bytes of an IPv4 packet (error %v), want none", n, err)
	}
}

// everySecond returns n ranges of one address each, none next to another.
func everySecond(n int) []Range {
	var all []Range
	for i := range n {
		a := netip.AddrFrom4([4]byte{10, 0, byte(i >> 7), byte(i << 1)})
		all = append(all, Range{First: a, Last: a})
	}
	return all
}

// TestFilterFitsTheKernel: Linux takes at most 4096 instructions (BPF_MAXINSNS).
func TestFilterFitsTheKernel(t *testing.T) {
	program, err := filter(7, everySecond(rangeLimit))
	if err != nil {
		t.Fatal(err)
	}
	if len(program) > 4096 {
		t.Errorf("the longest filter has %d instructions, want at most 4096", len(program))
	}
}

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
			if diff := cmp.Diff(tc.want, merge(tc.ranges), compareAddrs); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
		})
	}
}
