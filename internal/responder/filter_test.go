package responder

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	codec "github.com/mdlayher/arp"
	"golang.org/x/net/bpf"
)

var compareAddrs = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func rangeOf(first, last string) Range {
	return Range{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)}
}

// passes runs the part of the filter that looks at bytes. What looks at the packet's interface and type needs a kernel: the tests on a
// virtual wire cover it.
func passes(t *testing.T, p protocol, ranges []Range, frame []byte) bool {
	t.Helper()
	vm, err := bpf.NewVM(p.selection().about(merge(ranges, p.family), instructionLimit-len(forThisHost(7, 0))))
	if err != nil {
		t.Fatal(err)
	}
	n, err := vm.Run(frame)
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}

// arpRanges is how many ranges of one address the filter for ARP tells apart.
const arpRanges = 681

func TestTheFilterForARPLetsOnlyTheRangesThrough(t *testing.T) {
	for name, tc := range map[string]struct {
		ranges         []Range
		sender, target string
		passes         bool
	}{
		"a request for the first of a range":         {ourPool, "192.168.1.122", "192.168.1.200", true},
		"a request for the last of a range":          {ourPool, "192.168.1.122", "192.168.1.210", true},
		"a request for one before the first":         {ourPool, "192.168.1.122", "192.168.1.199", false},
		"a request for one after the last":           {ourPool, "192.168.1.122", "192.168.1.211", false},
		"a claim of the first of a range":            {ourPool, "192.168.1.200", "192.168.1.122", true},
		"a claim of the last of a range":             {ourPool, "192.168.1.210", "192.168.1.122", true},
		"a claim of one before the first":            {ourPool, "192.168.1.199", "192.168.1.122", false},
		"a claim of one after the last":              {ourPool, "192.168.1.211", "192.168.1.122", false},
		"a probe":                                    {ourPool, "0.0.0.0", "192.168.1.205", true},
		"a lower range after a higher one":           {append([]Range{rangeOf("203.0.113.0", "203.0.113.255")}, ourPool...), "0.0.0.0", "192.168.1.205", true},
		"a gap between ranges":                       {append([]Range{rangeOf("192.168.1.220", "192.168.1.229")}, ourPool...), "0.0.0.0", "192.168.1.215", false},
		"the last address of all":                    {[]Range{rangeOf("255.255.255.0", "255.255.255.255")}, "0.0.0.0", "255.255.255.255", true},
		"all addresses":                              {[]Range{rangeOf("0.0.0.0", "255.255.255.255")}, "0.0.0.0", "10.0.0.1", true},
		"no ranges":                                  {nil, "192.168.1.200", "192.168.1.200", false},
		"only IPv6 ranges, which ARP knows not":      {[]Range{rangeOf("fd00::1", "fd00::9")}, "0.0.0.0", "192.168.1.200", false},
		"more ranges than the filter can tell apart": {everySecond(arpRanges + 1), "0.0.0.0", "192.168.1.200", true},
		"as many ranges as it can, without this one": {everySecond(arpRanges), "0.0.0.0", "192.168.1.200", false},
		"as many ranges as it can, with this one":    {everySecond(arpRanges), "0.0.0.0", "10.0.0.2", true},
	} {
		t.Run(name, func(t *testing.T) {
			frame := arpPacket{codec.OperationRequest, theirMAC, MAC{}, netip.MustParseAddr(tc.sender), netip.MustParseAddr(tc.target)}.frame(broadcast)
			if got := passes(t, arp{}, tc.ranges, frame); got != tc.passes {
				t.Errorf("the packet passes: %t, want %t", got, tc.passes)
			}
		})
	}
}

func TestTheFilterForARPDropsWhatIsNotARP(t *testing.T) {
	frame := frameOf(t, "ffffffffffff 0200000000bb 0800 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8")
	if passes(t, arp{}, []Range{rangeOf("0.0.0.0", "255.255.255.255")}, frame) {
		t.Error("an IPv4 packet passes")
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

// TestWithinIsTheComparisonOfAddresses compares the filter with netip for ranges of all shapes, at their ends and next to them.
func TestWithinIsTheComparisonOfAddresses(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		size := []int{4, 16}[random.IntN(2)]
		a, b := make([]byte, size), make([]byte, size)
		same := random.IntN(size + 1) // how many bytes all addresses of the range share
		for i := range size {
			a[i] = []byte{0, 1, 0x7f, 0xff}[random.IntN(4)]
			if b[i] = a[i]; i >= same {
				b[i] = []byte{0, 1, 0x7f, 0xff}[random.IntN(4)]
			}
		}
		first, _ := netip.AddrFromSlice(a)
		last, _ := netip.AddrFromSlice(b)
		if last.Less(first) {
			first, last = last, first
		}
		r := Range{First: first, Last: last}
		vm, err := bpf.NewVM(append(within(0, r), bpf.RetConstant{Val: drop}))
		if err != nil {
			t.Fatal(err)
		}
		random.Shuffle(size, func(i, j int) { a[i], a[j] = a[j], a[i] })
		shuffled, _ := netip.AddrFromSlice(a)
		for _, x := range []netip.Addr{first, last, first.Prev(), first.Next(), last.Prev(), last.Next(), shuffled} {
			if !x.IsValid() {
				continue
			}
			n, err := vm.Run(x.AsSlice())
			if want := contains([]Range{r}, x); err != nil || (n > 0) != want {
				t.Fatalf("%s in %s to %s: the filter says %t (error %v), want %t", x, first, last, n > 0, err, want)
			}
		}
	}
}

// TestFilterFitsTheKernel, with the most ranges that it tells apart and with more.
func TestFilterFitsTheKernel(t *testing.T) {
	for ranges, want := range map[int]int{arpRanges: 4096, arpRanges + 1: 10} {
		program, err := arp{}.selection().filter(7, everySecond(ranges))
		if err != nil {
			t.Fatal(err)
		}
		if len(program) != want {
			t.Errorf("the filter for %d ranges has %d instructions, want %d", ranges, len(program), want)
		}
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
			if diff := cmp.Diff(tc.want, merge(tc.ranges, arp{}.family), compareAddrs); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
		})
	}
}
