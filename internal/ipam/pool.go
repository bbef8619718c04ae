package ipam

import (
	"fmt"
	"math/big"
	"net/netip"
	"slices"
)

// Allocation says who gets addresses of a pool.
type Allocation int

// The allocations.
const (
	// Automatic: every Service that the pool admits.
	Automatic Allocation = iota
	// OnRequest: those that ask for the pool, or for one of its addresses.
	OnRequest
)

// Pool is a named set of addresses. Its ranges are in order and do not overlap.
type Pool struct {
	Name   string
	Ranges []Range
	// Exclude are addresses of the ranges that are not given.
	Exclude      []Range
	Allocation   Allocation
	Reservations []Reservation
}

// Reservation keeps an address of a pool for one Service, NAMESPACE/NAME, which need not exist.
type Reservation struct {
	Addr netip.Addr
	For  string
}

// PoolText is a pool as a person writes it.
type PoolText struct {
	Name               string
	Addresses, Exclude []string
	Allocation         Allocation
	Reservations       []ReservationText
}

// ReservationText is a reservation as a person writes it.
type ReservationText struct{ Address, For string }

// Field is a list of a pool's.
type Field string

// The fields.
const (
	InAddresses    Field = "addresses"
	InExclude      Field = "exclude"
	InReservations Field = "reservations"
)

// Problem is something that a person has to mend in the pools.
type Problem struct {
	// Pool, Field and Index say where: the index is that of an entry of the pool's list, in the person's order.
	Pool  int
	Field Field
	Index int
	// Message says what is wrong, and what to write instead.
	Message string
}

// ParsePools reads pools, and checks that no two ranges overlap and that what is excluded and reserved lies in them. With any problem the pools
// are not to be used.
func ParsePools(texts []PoolText) ([]Pool, []Problem) {
	var p parser
	for i, text := range texts {
		p.pool(i, text)
	}
	if len(p.problems) > 0 {
		return nil, p.problems
	}
	return p.pools, nil
}

// parser is the state of ParsePools.
type parser struct {
	pools    []Pool
	problems []Problem
	seen     []placedRange
}

// placedRange is a range and where it was written.
type placedRange struct {
	Range
	pool, text string
}

func (p *parser) pool(i int, text PoolText) {
	pool := Pool{Name: text.Name, Allocation: text.Allocation}
	for j, address := range text.Addresses {
		r, err := ParseRange(address)
		if err != nil {
			p.problem(i, InAddresses, j, err.Error())
			continue
		}
		if clash := slices.IndexFunc(p.seen, func(s placedRange) bool { return s.Overlaps(r) }); clash >= 0 {
			p.problem(i, InAddresses, j, fmt.Sprintf("%q overlaps %q of pool %q: an address belongs to one pool, so take it out of one of the two",
				address, p.seen[clash].text, p.seen[clash].pool))
			continue
		}
		p.seen = append(p.seen, placedRange{Range: r, pool: text.Name, text: address})
		pool.Ranges = append(pool.Ranges, r)
	}
	slices.SortFunc(pool.Ranges, func(a, b Range) int { return a.First.Compare(b.First) })
	for j, address := range text.Exclude {
		r, err := ParseRange(address)
		if single, notOne := netip.ParseAddr(address); notOne == nil {
			r, err = Range{First: single, Last: single}, nil
		}
		switch {
		case err != nil:
			p.problem(i, InExclude, j, err.Error())
		case !slices.ContainsFunc(pool.Ranges, r.Overlaps):
			p.problem(i, InExclude, j, fmt.Sprintf("%q is no part of the pool's addresses: leave it out, or correct it", address))
		default:
			pool.Exclude = append(pool.Exclude, r)
		}
	}
	p.reservations(i, &pool, text.Reservations)
	p.pools = append(p.pools, pool)
}

func (p *parser) reservations(i int, pool *Pool, texts []ReservationText) {
	for j, text := range texts {
		a, err := netip.ParseAddr(text.Address)
		switch {
		case err != nil:
			p.problem(i, InReservations, j, fmt.Sprintf("%q is no address: write one, like 192.168.1.200", text.Address))
		case !pool.Contains(a):
			p.problem(i, InReservations, j, fmt.Sprintf("%s is no part of the pool's addresses: reserve one that is, or add it to them", a))
		case slices.ContainsFunc(pool.Exclude, func(r Range) bool { return r.Contains(a) }):
			p.problem(i, InReservations, j, fmt.Sprintf("%s is excluded from the pool: take it out of exclude, or reserve another", a))
		case slices.ContainsFunc(pool.Reservations, func(r Reservation) bool { return r.Addr == a }):
			p.problem(i, InReservations, j, fmt.Sprintf("%s is reserved twice: leave one of the two", a))
		default:
			pool.Reservations = append(pool.Reservations, Reservation{Addr: a, For: text.For})
		}
	}
}

func (p *parser) problem(pool int, field Field, index int, message string) {
	p.problems = append(p.problems, Problem{Pool: pool, Field: field, Index: index, Message: message})
}

// Contains says whether the address lies in the pool.
func (p Pool) Contains(a netip.Addr) bool {
	return slices.ContainsFunc(p.Ranges, func(r Range) bool { return r.Contains(a) })
}

// Gives are the pool's addresses without those that are excluded, and withheld from every pool.
func (p Pool) Gives(withheld ...Range) []Range {
	return Subtract(p.Ranges, slices.Concat(p.Exclude, withheld))
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
