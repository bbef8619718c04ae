package ipam

import (
	"net/netip"
	"slices"
)

// space is what a pool gives: its ranges without what is excluded and withheld, in order. Nothing is freed within a plan, so that the lowest
// address that may be free only rises.
//
//	ranges    ├──────────────────┤      ├───────┤
//	excluded       ├───┤
//	gives     ├────┤   ├─────────┤      ├───────┤
//	                   ▲ next
type space struct {
	gives []Range
	// next is, for each of them, the lowest address that may be free.
	next []netip.Addr
}

func newSpace(pool *Pool, withheld []Range) space {
	s := space{gives: pool.Gives(withheld...)}
	for _, r := range s.gives {
		s.next = append(s.next, r.First)
	}
	return s
}

// lowest returns the lowest address of a family that is not in use, and remembers how far it looked. Those that are passed over are free, and not
// for everybody: the next search begins with them.
func (s *space) lowest(f Family, used, passed func(netip.Addr) bool) (netip.Addr, bool) {
	for i, r := range s.gives {
		if familyOf(r.First) != f {
			continue
		}
		from := s.next[i]
		for from.IsValid() && r.Contains(from) && used(from) {
			from = from.Next()
		}
		s.next[i] = from
		for a := from; a.IsValid() && r.Contains(a); a = a.Next() {
			if !used(a) && !passed(a) {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}

// find returns the range that holds the address, of ranges that are in order and do not overlap; -1 when none does.
func find(ranges []Range, a netip.Addr) int {
	at, exact := slices.BinarySearchFunc(ranges, a, func(r Range, a netip.Addr) int { return r.First.Compare(a) })
	if !exact {
		at--
	}
	if at < 0 || !ranges[at].Contains(a) {
		return -1
	}
	return at
}
