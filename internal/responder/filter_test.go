package responder

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	codec "github.com/mdlayher/arp"
	"golang.org/x/net/bpf"
)

func rangeOf(first, last string) Range {
	return Range{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)}
}

// passes runs the part of the filter that looks at bytes. What looks at the packet's interface and type needs a kernel: the tests on a
// virtual wire cover it.
func passes(t *testing.T, p protocol, ranges []Range, frame []byte) bool {
	t.Helper()
	merged := merge(ranges, p.family)
	vm, err := bpf.NewVM(p.selection().about(interest{claimed: merged, asked: merged}))
	if err != nil {
		t.Fatal(err)
	}
	n, err := vm.Run(frame)
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}

func TestTheFilterForARPLetsOnlyTheRangesThrough(t *testing.T) {
	for name, tc := range map[string]struct {
		ranges         []Range
		sender, target string
		passes         bool
	}{
		"a request for the first of a range":                 {ourPool, "192.168.1.122", "192.168.1.200", true},
		"a request for the last of a range":                  {ourPool, "192.168.1.122", "192.168.1.210", true},
		"a request for one before the first":                 {ourPool, "192.168.1.122", "192.168.1.199", false},
		"a request for one after the last":                   {ourPool, "192.168.1.122", "192.168.1.211", false},
		"a claim of the first of a range":                    {ourPool, "192.168.1.200", "192.168.1.122", true},
		"a claim of the last of a range":                     {ourPool, "192.168.1.210", "192.168.1.122", true},
		"a claim of one before the first":                    {ourPool, "192.168.1.199", "192.168.1.122", false},
		"a claim of one after the last":                      {ourPool, "192.168.1.211", "192.168.1.122", false},
		"a probe":                                            {ourPool, "0.0.0.0", "192.168.1.205", true},
		"a lower range after a higher one":                   {append([]Range{rangeOf("203.0.113.0", "203.0.113.255")}, ourPool...), "0.0.0.0", "192.168.1.205", true},
		"a gap between ranges":                               {append([]Range{rangeOf("192.168.1.220", "192.168.1.229")}, ourPool...), "0.0.0.0", "192.168.1.215", false},
		"the last address of all":                            {[]Range{rangeOf("255.255.255.0", "255.255.255.255")}, "0.0.0.0", "255.255.255.255", true},
		"all addresses":                                      {[]Range{rangeOf("0.0.0.0", "255.255.255.255")}, "0.0.0.0", "10.0.0.1", true},
		"no ranges":                                          {nil, "192.168.1.200", "192.168.1.200", false},
		"only IPv6 ranges, which ARP knows not":              {[]Range{rangeOf("fd00::1", "fd00::9")}, "0.0.0.0", "192.168.1.200", false},
		"as many ranges as it tells apart, without this one": {everySecond(askedAtMost), "0.0.0.0", "210.0.0.3", false},
		"as many ranges as it tells apart, with the first":   {everySecond(askedAtMost), "0.0.0.0", "210.0.0.0", true},
		"as many ranges as it tells apart, with the last":    {everySecond(askedAtMost), "0.0.0.0", "210.0.0.254", true},
		"more ranges than it tells apart":                    {everySecond(askedAtMost + 1), "0.0.0.0", "210.0.1.0", true},
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
		a := netip.AddrFrom4([4]byte{210, 0, byte(i >> 7), byte(i << 1)})
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

// TestFilterFitsTheKernel: two of the longest filters, the one in force and the one that replaces it, fit into what Linux before 6.9 lets a socket
// have (net.core.optmem_max). What the kernel makes of each instruction is that of bpf_convert_filter in its net/core/filter.c.
func TestFilterFitsTheKernel(t *testing.T) {
	const optmemMax, header, each = 20480, 128, 8
	far, wide := make([]Range, claimedAtMost), make([]Range, claimedAtMost)
	for i := range claimedAtMost {
		far[i] = rangeOf(fmt.Sprintf("192.168.%d.1", i), fmt.Sprintf("192.168.%d.9", i))
		wide[i] = rangeOf(fmt.Sprintf("fd00:%x:8000:0:1::2", i), fmt.Sprintf("fd00:%x:9000::", i))
	}
	for name, tc := range map[string]struct {
		protocol protocol
		in       interest
	}{
		"ARP": {arp{}, interest{claimed: far, asked: everySecond(askedAtMost)}},
		"NDP": {ndp{}, interest{claimed: wide}},
	} {
		t.Run(name, func(t *testing.T) {
			program, err := tc.protocol.selection().filter(7, tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if size := header + each*translated(program); 2*size >= optmemMax {
				t.Errorf("%d instructions take %d bytes, and the kernel has room for two filters of %d", len(program), size, optmemMax/2)
			}
		})
	}
}

// translated is how many instructions the kernel makes of a program, or somewhat more.
func translated(program []bpf.RawInstruction) int {
	n := 6 // registers are saved and cleared
	for _, i := range program {
		const class, jump, ret, load = 0x07, 0x05, 0x06, 0x00
		switch {
		case i.Op&class == ret:
			n += 2
		case i.Op&class == load:
			n += 3
		case i.Op&class == jump && i.Jt != 0 && i.Jf != 0:
			n += 3
		case i.Op&class == jump && i.K >= 1<<31:
			n += 2
		default:
			n++
		}
	}
	return n
}

// TestSearchIsTheComparisonOfNumbers, for ranges of all numbers and shapes, at their ends and next to them.
func TestSearchIsTheComparisonOfNumbers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var ranges []Range
		for range random.IntN(askedAtMost) {
			first := random.Uint32N(600)
			ranges = append(ranges, Range{First: numbered(first), Last: numbered(first + random.Uint32N(4))})
		}
		if random.IntN(4) == 0 {
			ranges = append(ranges, Range{First: numbered(1<<32 - 2), Last: numbered(1<<32 - 1)})
		}
		merged := merge(ranges, arp{}.family)
		vm, err := bpf.NewVM(append(among(0, merged), bpf.RetConstant{Val: drop}))
		if err != nil {
			t.Fatal(err)
		}
		for n := uint32(1<<32 - 5); n != 610; n++ {
			got, err := vm.Run(numbered(n).AsSlice())
			if want := contains(merged, numbered(n)); err != nil || (got > 0) != want {
				t.Fatalf("%d in %v: the filter says %t (error %v), want %t", n, merged, got > 0, err, want)
			}
		}
	}
}

// numbered is the IPv4 address with this number.
func numbered(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}
