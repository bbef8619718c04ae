package ipam

import (
	"fmt"
	"math/big"
	"net/netip"
	"slices"
)

// Pool is a named set of addresses. Its ranges do not overlap each other's.
type Pool struct {
	Name   string
	Ranges []Range
}

// PoolText is a pool as a person writes it.
type PoolText struct {
	Name      string
	Addresses []string
}

// Problem is something that a person has to mend in the pools.
type Problem struct {
	// Pool and Index say where: the index is that of an entry of the pool's addresses, in the person's order.
	Pool, Index int
	// Message says what is wrong, and what to write instead.
	Message string
}

// ParsePools reads pools and checks that no two ranges overlap. With any problem the pools are not to be used.
func ParsePools(texts []PoolText) ([]Pool, []Problem) {
	var (
		pools    []Pool
		problems []Problem
		seen     []placedRange
	)
	for p, text := range texts {
		pool := Pool{Name: text.Name}
		for i, address := range text.Addresses {
			r, err := ParseRange(address)
			if err != nil {
				problems = append(problems, Problem{Pool: p, Index: i, Message: err.Error()})
				continue
			}
			if clash := slices.IndexFunc(seen, func(s placedRange) bool { return s.Overlaps(r) }); clash >= 0 {
				problems = append(problems, Problem{Pool: p, Index: i, Message: fmt.Sprintf(
					"%q overlaps %q of pool %q: an address belongs to one pool, so take it out of one of the two", address, seen[clash].text, seen[clash].pool)})
				continue
			}
			seen = append(seen, placedRange{Range: r, pool: text.Name, text: address})
			pool.Ranges = append(pool.Ranges, r)
		}
		slices.SortFunc(pool.Ranges, func(a, b Range) int { return a.First.Compare(b.First) })
		pools = append(pools, pool)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return pools, nil
}

// placedRange is a range and where it was written.
type placedRange struct {
	Range
	pool, text string
}

// Contains says whether the address lies in the pool.
func (p Pool) Contains(a netip.Addr) bool {
	return slices.ContainsFunc(p.Ranges, func(r Range) bool { return r.Contains(a) })
}

// Size is how many addresses the pool holds.
func (p Pool) Size() *big.Int {
	total := new(big.Int)
	for _, r := range p.Ranges {
		total.Add(total, r.Size())
	}
	return total
}

// has says whether the pool has addresses of the family.
func (p Pool) has(f Family) bool {
	return slices.ContainsFunc(p.Ranges, func(r Range) bool { return familyOf(r.First) == f })
}

// PoolOf returns the pool that holds the address.
func PoolOf(pools []Pool, a netip.Addr) (name string, ok bool) {
	for _, p := range pools {
		if p.Contains(a) {
			return p.Name, true
		}
	}
	return "", false
}
