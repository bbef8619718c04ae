package ipam

import (
	"math/big"
	"net/netip"
)

// Usage is how far a pool is used. Total are the addresses that it gives: without those that are excluded or withheld. Of them, what somebody
// outside has, or is kept for somebody, is neither allocated nor available; where a foreign host has it, it is quarantined. Draining are
// addresses that Services go on having although the pool does not give them any more.
type Usage struct {
	Pool                                               string
	Total, Allocated, Available, Quarantined, Draining *big.Int
}

// usage counts each pool after the plan.
func (p *planner) usage() []Usage {
	type count struct{ allocated, unavailable, foreign, draining int64 }
	counts := make([]count, len(p.facts.Pools))
	for a, o := range p.owners {
		pool, given := p.locate(a)
		switch {
		case !given && o.request >= 0:
			if from := p.drainsFrom(o.request, a); from >= 0 {
				counts[from].draining++
			}
		case !given:
		case o.request >= 0:
			counts[pool].allocated++
		default:
			counts[pool].unavailable++
			if p.facts.Taken[o.taken].Foreign {
				counts[pool].foreign++
			}
		}
	}
	for a := range p.reserved {
		if pool, given := p.locate(a); given && !p.owned(a) {
			counts[pool].unavailable++
		}
	}
	all := make([]Usage, 0, len(counts))
	for i, c := range counts {
		total := new(big.Int)
		for _, r := range p.spaces[i].gives {
			total.Add(total, r.Size())
		}
		all = append(all, Usage{Pool: p.facts.Pools[i].Name, Total: total, Allocated: big.NewInt(c.allocated), Quarantined: big.NewInt(c.foreign),
			Available: new(big.Int).Sub(total, big.NewInt(c.allocated+c.unavailable)), Draining: big.NewInt(c.draining)})
	}
	return all
}

// drainsFrom is the pool from which an address came that no pool gives any more, as far as one of those who have it knows; -1 when none does.
func (p *planner) drainsFrom(first int32, a netip.Addr) int {
	for _, i := range append([]int32{first}, p.beside[a]...) {
		if from := p.indexOf(p.poolOf(i, a)); from >= 0 {
			return from
		}
	}
	return -1
}
