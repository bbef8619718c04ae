package responder

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
)

// Range is an interval of addresses, both ends included.
type Range struct{ First, Last netip.Addr }

// interest is of which addresses packets are read, ranges of one family, merged.
type interest struct {
	// claimed are those of which it matters who says to have one, asked those of which it matters who asks for one.
	claimed, asked []Range
}

func (i interest) equal(other interest) bool {
	return slices.Equal(i.claimed, other.claimed) && slices.Equal(i.asked, other.asked)
}

// single are ranges of one address each.
func single(addrs []netip.Addr) []Range {
	all := make([]Range, 0, len(addrs))
	for _, a := range addrs {
		all = append(all, Range{First: a, Last: a})
	}
	return all
}

// merge returns the ranges of a family in order, those that touch or overlap as one.
func merge(ranges []Range, family func(netip.Addr) bool) []Range {
	sorted := slices.DeleteFunc(slices.Clone(ranges), func(r Range) bool { return !family(r.First) || !family(r.Last) })
	slices.SortFunc(sorted, func(a, b Range) int { return a.First.Compare(b.First) })
	var merged []Range
	for _, r := range sorted {
		n := len(merged)
		if n == 0 || merged[n-1].Last.Less(r.First) && merged[n-1].Last.Next() != r.First {
			merged = append(merged, r)
		} else if merged[n-1].Last.Less(r.Last) {
			merged[n-1].Last = r.Last
		}
	}
	return merged
}

// contains says whether an address lies in one of the ranges, which are merged.
func contains(merged []Range, a netip.Addr) bool {
	_, found := slices.BinarySearchFunc(merged, a, func(r Range, a netip.Addr) int {
		switch {
		case r.Last.Less(a):
			return -1
		case a.Less(r.First):
			return 1
		default:
			return 0
		}
	})
	return found
}

// coarsen returns at most so many ranges that hold all of those, which are merged: where there are more, those with the smallest gaps become one.
func coarsen(merged []Range, atMost int) []Range {
	if len(merged) <= atMost {
		return merged
	}
	gaps := make([]gap, 0, len(merged)-1)
	for i := range merged[1:] {
		gaps = append(gaps, gapBetween(merged[i].Last, merged[i+1].First))
	}
	kept := slices.Clone(gaps)
	slices.SortFunc(kept, func(a, b gap) int { return b.compare(a) })
	kept = kept[:atMost-1]
	coarse := []Range{merged[0]}
	for i, r := range merged[1:] {
		if at := slices.Index(kept, gaps[i]); at >= 0 {
			kept = slices.Delete(kept, at, at+1)
			coarse = append(coarse, r)
			continue
		}
		coarse[len(coarse)-1].Last = r.Last
	}
	return coarse
}

// gap is how far two addresses of one family lie apart.
type gap struct{ high, low uint64 }

func gapBetween(a, b netip.Addr) gap {
	from, to := a.As16(), b.As16()
	low, borrow := bits.Sub64(binary.BigEndian.Uint64(to[8:]), binary.BigEndian.Uint64(from[8:]), 0)
	high, _ := bits.Sub64(binary.BigEndian.Uint64(to[:8]), binary.BigEndian.Uint64(from[:8]), borrow)
	return gap{high: high, low: low}
}

func (g gap) compare(other gap) int {
	return cmp.Or(cmp.Compare(g.high, other.high), cmp.Compare(g.low, other.low))
}
