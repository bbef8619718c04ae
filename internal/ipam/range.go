package ipam

import (
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"
)

// Range is an interval of addresses of one family, both ends included. First is not after Last.
type Range struct {
	First, Last netip.Addr
}

// ParseRange reads "FIRST-LAST" or a CIDR without host bits. The error names what is wrong with the text and what to write
// instead.
func ParseRange(text string) (Range, error) {
	if first, last, isRange := strings.Cut(text, "-"); isRange {
		return parseInterval(text, first, last)
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return Range{}, fmt.Errorf("%q is neither a CIDR nor a range of two addresses: write it like 192.168.1.192/28 or 192.168.1.200-192.168.1.210", text)
	}
	if prefix.Addr().Is4In6() {
		return Range{}, fmt.Errorf("%q is an IPv4 address written as IPv6: write it as IPv4", text)
	}
	if masked := prefix.Masked(); masked != prefix {
		return Range{}, fmt.Errorf("%q has host bits set: the network is %s; write that, or a range FIRST-LAST for a part of it", text, masked)
	}
	return Range{First: prefix.Addr(), Last: lastOf(prefix)}, nil
}

func parseInterval(text, first, last string) (Range, error) {
	var ends [2]netip.Addr
	for i, part := range []string{first, last} {
		a, err := netip.ParseAddr(part)
		if err != nil || a.Zone() != "" || a.Is4In6() {
			return Range{}, fmt.Errorf("%q is no range: %q is not an address; write it like 192.168.1.200-192.168.1.210, without spaces", text, part)
		}
		ends[i] = a
	}
	r := Range{First: ends[0], Last: ends[1]}
	if r.First.Is4() != r.Last.Is4() {
		return Range{}, fmt.Errorf("%q mixes IPv4 and IPv6: both ends of a range are of one family", text)
	}
	if r.Last.Less(r.First) {
		return Range{}, fmt.Errorf("%q ends before it begins: write %s-%s", text, r.Last, r.First)
	}
	return r, nil
}

// lastOf returns the last address of a masked prefix: every host bit set.
func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes) // 4 or 16 bytes always make an address
	return last
}

// Contains says whether the address lies in the range.
func (r Range) Contains(a netip.Addr) bool {
	return a.Is4() == r.First.Is4() && !a.Less(r.First) && !r.Last.Less(a)
}

// Overlaps says whether the ranges share an address.
func (r Range) Overlaps(other Range) bool {
	return r.First.Is4() == other.First.Is4() && !r.Last.Less(other.First) && !other.Last.Less(r.First)
}

// Size is how many addresses the range holds: up to 2^128, more than an integer can say.
func (r Range) Size() *big.Int {
	first, last := new(big.Int).SetBytes(r.First.AsSlice()), new(big.Int).SetBytes(r.Last.AsSlice())
	return last.Sub(last, first).Add(last, big.NewInt(1))
}

// Intervals joins addresses, which are in order, to as few ranges as possible.
func Intervals(addrs []netip.Addr) []Range {
	var all []Range
	for _, a := range addrs {
		if last := len(all) - 1; last >= 0 && all[last].Last.Next() == a {
			all[last].Last = a
			continue
		}
		all = append(all, Range{First: a, Last: a})
	}
	return all
}

// Merge returns what is in any of the ranges, as ranges in order that neither overlap nor touch.
func Merge(ranges []Range) []Range {
	var all []Range
	for _, r := range slices.SortedFunc(slices.Values(ranges), func(a, b Range) int { return a.First.Compare(b.First) }) {
		last := len(all) - 1
		if last >= 0 && (all[last].Overlaps(r) || all[last].Last.Next() == r.First && all[last].First.Is4() == r.First.Is4()) {
			if all[last].Last.Less(r.Last) {
				all[last].Last = r.Last
			}
			continue
		}
		all = append(all, r)
	}
	return all
}

// Subtract returns the ranges without what others have of them, in order. The ranges are in order and do not overlap; the others may be any.
func Subtract(ranges, others []Range) []Range {
	others = slices.SortedFunc(slices.Values(others), func(a, b Range) int { return a.First.Compare(b.First) })
	var left []Range
	for _, r := range ranges {
		rest, any := r, true
		for _, o := range others {
			if !any || !rest.Overlaps(o) {
				continue
			}
			if rest.First.Less(o.First) {
				left = append(left, Range{First: rest.First, Last: o.First.Prev()})
			}
			if any = o.Last.Less(rest.Last); any {
				rest.First = o.Last.Next()
			}
		}
		if any {
			left = append(left, rest)
		}
	}
	return left
}

func (r Range) String() string { return r.First.String() + "-" + r.Last.String() }

// Text is the range as a person would write it: one address as that.
func (r Range) Text() string {
	if r.First == r.Last {
		return r.First.String()
	}
	return r.String()
}
