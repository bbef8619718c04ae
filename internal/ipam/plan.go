package ipam

import (
	"cmp"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Family is an address family.
type Family int

// The address families.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

func (f Family) String() string { return fmt.Sprintf("IPv%d", int(f)) }

func familyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}

// Need says how many of a request's families have to be served.
type Need int

// The needs.
const (
	// NeedAny serves the families that it can; one is enough (SingleStack, PreferDualStack).
	NeedAny Need = iota
	// NeedAll serves every family or none (RequireDualStack).
	NeedAll
)

// Standing says what a request may get.
type Standing int

// The standings.
const (
	// Current keeps what it holds and gets what it lacks.
	Current Standing = iota
	// Leaving keeps what it holds and gets nothing new: its Service is being deleted.
	Leaving
)

// Patience says whether a request takes an address that may be somebody else's.
type Patience int

// The patiences.
const (
	// Hasty takes any address that is not known to be somebody's: it has waited, or nobody can ask.
	Hasty Patience = iota
	// Patient takes only addresses for which the LAN was asked.
	Patient
)

// Request is what one Service asks for.
type Request struct {
	// Service is NAMESPACE/NAME.
	Service string
	// Created orders those who wait, and those who claim the same address: the older goes first.
	Created time.Time
	// Families are the address families wanted, in the Service's order.
	Families []Family
	Need     Need
	Standing Standing
	// Patience says whether it waits until the LAN was asked about an address that it would get.
	Patience Patience
	// Holds are the addresses that the Service shows already. They are never taken from it.
	Holds []netip.Addr
	// Remembers are addresses that the Service once had. While it waits it gets one of them back if the address is in a pool and
	// nobody has it, before any newcomer is served.
	Remembers []netip.Addr
}

// Taken is an address that is not ours to give.
type Taken struct {
	Addr netip.Addr
	// By says by whom, as a person would ("Service default/web", "node k8s-cp-01, interface eth0").
	By string
	// Foreign means that it is a host that the cluster knows nothing of.
	Foreign bool
}

// Holding is an address that a Service has.
type Holding struct {
	Addr netip.Addr
	// Pool is the pool that holds the address; empty when none does any more.
	Pool string
}

// Assignment is all that one Service has after the plan.
type Assignment struct {
	Service string
	// Addresses are in the order of the Service's families.
	Addresses []Holding
}

// Reason is why a request was refused, as a machine reads it.
type Reason string

// The reasons.
const (
	NoPool            Reason = "NoPool"
	PoolExhausted     Reason = "PoolExhausted"
	FamilyUnavailable Reason = "FamilyUnavailable"
	// AddressTaken: another Service had it first, and this one gets another.
	AddressTaken Reason = "AddressTaken"
	// AddressContested: somebody outside has it too, and the Service keeps it.
	AddressContested Reason = "AddressContested"
	// AddressUnverified: the LAN is still being asked whether anybody has the address that it would get.
	AddressUnverified Reason = "AddressUnverified"
)

// Refusal says why a Service lacks an address.
type Refusal struct {
	Service string
	Reason  Reason
	Message string
}

// Usage is how far a pool is used. What somebody outside has is neither allocated nor available; where that is a foreign host, it is
// quarantined.
type Usage struct {
	Pool                                     string
	Total, Allocated, Available, Quarantined *big.Int
}

// Result is a plan: what every Service has, who got nothing and why, and what is left.
type Result struct {
	Assignments []Assignment
	Refusals    []Refusal
	Pools       []Usage
}

// Plan gives every request its addresses: first everyone keeps what they hold, the older first where two hold the same; then who
// lacks something gets the lowest free address of the first pool that has one, the longest-waiting first. The result does not
// depend on the order of requests, and is in the order of Service names. Verified are the addresses for which the LAN was asked.
func Plan(pools []Pool, requests []Request, taken []Taken, verified []Range) Result {
	ordered := slices.SortedFunc(slices.Values(requests), func(a, b Request) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Service, b.Service))
	})
	p := planner{pools: pools, verified: verified, owners: map[netip.Addr]string{}, foreign: map[netip.Addr]bool{}, next: map[*Range]netip.Addr{}}
	for _, t := range taken {
		p.owners[t.Addr] = t.By
		p.foreign[t.Addr] = t.Foreign
	}
	held := make(map[string][]Holding, len(ordered))
	var result Result
	for _, r := range ordered {
		kept, refusals := p.keep(r)
		held[r.Service] = kept
		result.Refusals = append(result.Refusals, refusals...)
	}
	for _, r := range ordered {
		held[r.Service] = append(held[r.Service], p.recall(r, held[r.Service])...)
	}
	for _, r := range ordered {
		got, refusal := p.complete(r, held[r.Service])
		if len(got) > 0 {
			result.Assignments = append(result.Assignments, Assignment{Service: r.Service, Addresses: got})
		}
		if refusal != nil {
			result.Refusals = append(result.Refusals, *refusal)
		}
	}
	slices.SortFunc(result.Assignments, func(a, b Assignment) int { return strings.Compare(a.Service, b.Service) })
	slices.SortStableFunc(result.Refusals, func(a, b Refusal) int { return strings.Compare(a.Service, b.Service) })
	result.Pools = p.usage(result.Assignments)
	return result
}

// planner is the state of one Plan.
type planner struct {
	pools    []Pool
	verified []Range
	// owners says who has each address that is not free, foreign whether that is a foreign host.
	owners  map[netip.Addr]string
	foreign map[netip.Addr]bool
	// next is, per range, the lowest address that may be free: nothing is freed within a plan, so it only rises.
	next map[*Range]netip.Addr
}

// keep returns what the request goes on holding. An address that somebody older, or somebody outside, has is refused.
func (p *planner) keep(r Request) (kept []Holding, refused []Refusal) {
	for _, a := range r.Holds {
		if owner, clash := p.owners[a]; clash {
			refused = append(refused, Refusal{Service: r.Service, Reason: AddressTaken, Message: fmt.Sprintf(
				"%s is held by %s too, which had it first: this Service gets another as soon as a pool has one, so change what points to %s", a, owner, a)})
			continue
		}
		p.owners[a] = "Service " + r.Service
		pool, _ := PoolOf(p.pools, a)
		kept = append(kept, Holding{Addr: a, Pool: pool})
	}
	return kept, refused
}

// recall gives back what the request remembers, one address per family that it lacks.
func (p *planner) recall(r Request, held []Holding) (back []Holding) {
	if r.Standing == Leaving {
		return nil
	}
	for _, a := range r.Remembers {
		pool, inPool := PoolOf(p.pools, a)
		_, used := p.owners[a]
		if !inPool || used || !slices.Contains(r.Families, familyOf(a)) || serves(held, familyOf(a)) || serves(back, familyOf(a)) {
			continue
		}
		p.owners[a] = "Service " + r.Service
		back = append(back, Holding{Addr: a, Pool: pool})
	}
	return back
}

// serves says whether one of the holdings is of the family.
func serves(held []Holding, f Family) bool {
	return slices.ContainsFunc(held, func(h Holding) bool { return familyOf(h.Addr) == f })
}

// complete adds what the request lacks to what it holds. The refusal says why something is still lacking.
func (p *planner) complete(r Request, held []Holding) ([]Holding, *Refusal) {
	if r.Standing == Leaving {
		return held, nil
	}
	var (
		picked  []Holding
		lacking *Refusal
	)
	for _, f := range r.Families {
		if serves(held, f) {
			continue
		}
		h, refusal := p.lowestFree(f, r)
		if refusal != nil {
			lacking = cmp.Or(lacking, refusal)
			continue
		}
		picked = append(picked, h)
	}
	if r.Need == NeedAll && lacking != nil {
		return held, lacking
	}
	for _, h := range picked {
		p.owners[h.Addr] = "Service " + r.Service
	}
	all := inFamilyOrder(slices.Concat(held, picked), r.Families)
	if len(all) > 0 {
		return all, nil
	}
	return nil, lacking
}

// inFamilyOrder sorts holdings as the families are ordered, those of a family that is not asked for last.
func inFamilyOrder(all []Holding, families []Family) []Holding {
	rank := func(h Holding) int {
		if at := slices.Index(families, familyOf(h.Addr)); at >= 0 {
			return at
		}
		return len(families)
	}
	slices.SortStableFunc(all, func(a, b Holding) int { return cmp.Compare(rank(a), rank(b)) })
	return all
}

// lowestFree returns the lowest free address of the first pool that has one of the family.
func (p *planner) lowestFree(f Family, r Request) (Holding, *Refusal) {
	service := r.Service
	var full []string
	for i := range p.pools {
		pool := &p.pools[i]
		if !pool.has(f) {
			continue
		}
		for j := range pool.Ranges {
			a, ok := p.lowestFreeIn(&pool.Ranges[j], f)
			if ok && r.Patience == Patient && !slices.ContainsFunc(p.verified, func(v Range) bool { return v.Contains(a) }) {
				return Holding{}, &Refusal{Service: service, Reason: AddressUnverified, Message: fmt.Sprintf(
					"%s is next, and the speakers are asking the LAN whether anybody has it", a)}
			}
			if ok {
				return Holding{Addr: a, Pool: pool.Name}, nil
			}
		}
		full = append(full, pool.Name)
	}
	switch {
	case len(p.pools) == 0:
		return Holding{}, &Refusal{Service: service, Reason: NoPool, Message: "there is no pool: add one under spec.ipPools of ClusterNetworking \"cluster\""}
	case len(full) == 0:
		return Holding{}, &Refusal{Service: service, Reason: FamilyUnavailable, Message: fmt.Sprintf(
			"no pool has %s addresses: add a range to spec.ipPools, or ask for the other family in the Service's ipFamilies", f)}
	default:
		return Holding{}, &Refusal{Service: service, Reason: PoolExhausted, Message: fmt.Sprintf(
			"every %s address of pool %s is in use%s: add a range to spec.ipPools, or delete a Service that is not needed", f, strings.Join(full, ", "),
			p.byForeigners(f))}
	}
}

// byForeigners says how many addresses of a family foreign hosts have; nothing when they have none.
func (p *planner) byForeigners(f Family) string {
	n := 0
	for a, foreign := range p.foreign {
		if _, pooled := PoolOf(p.pools, a); foreign && pooled && familyOf(a) == f {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d by foreign hosts, see status.quarantinedIPs)", n)
}

// lowestFreeIn returns the lowest free address of the range, and remembers how far it looked.
func (p *planner) lowestFreeIn(r *Range, f Family) (netip.Addr, bool) {
	if familyOf(r.First) != f {
		return netip.Addr{}, false
	}
	a, looked := p.next[r]
	if !looked {
		a = r.First
	}
	for ; a.IsValid() && r.Contains(a); a = a.Next() {
		if _, used := p.owners[a]; !used {
			p.next[r] = a
			return a, true
		}
	}
	p.next[r] = a
	return netip.Addr{}, false
}

// usage counts each pool: what Services have after the plan, and what nobody has at all.
func (p *planner) usage(assignments []Assignment) []Usage {
	allocated := map[string]int64{}
	for _, a := range assignments {
		for _, h := range a.Addresses {
			allocated[h.Pool]++
		}
	}
	var all []Usage
	for _, pool := range p.pools {
		owned, foreign := int64(0), int64(0)
		for a := range p.owners {
			if !pool.Contains(a) {
				continue
			}
			owned++
			if p.foreign[a] {
				foreign++
			}
		}
		u := Usage{Pool: pool.Name, Total: pool.Size(), Allocated: big.NewInt(allocated[pool.Name]), Quarantined: big.NewInt(foreign)}
		u.Available = new(big.Int).Sub(u.Total, big.NewInt(owned))
		all = append(all, u)
	}
	return all
}
