package ipam

import (
	"net/netip"
	"slices"
)

// choose finds an address of a family for a request: the one that it asks for; or one that others of its sharing key have; or the lowest
// free one of the best pool.
func (p *planner) choose(r *Request, f Family) (Holding, *Refusal) {
	if len(r.Wants) > 0 {
		return p.wanted(r, f)
	}
	if h, shared := p.shared(r, f); shared {
		return h, nil
	}
	return p.lowestFree(r, f)
}

// wanted returns the address of the family that the request asks for.
func (p *planner) wanted(r *Request, f Family) (Holding, *Refusal) {
	at := slices.IndexFunc(r.Wants, func(a netip.Addr) bool { return familyOf(a) == f })
	if at < 0 {
		return Holding{}, r.refuse(InvalidRequest, "it asks for %s, of which none is %s: ask for one of each of its families, or leave %s out of its ipFamilies",
			textOf(r.Wants), f, f)
	}
	a := r.Wants[at]
	pool, given := p.locate(a)
	if pool < 0 {
		return Holding{}, r.refuse(NoPool, "no pool has %s, which this Service asks for: spec.ipPools has %s", a, p.poolNames())
	}
	name := p.facts.Pools[pool].Name
	switch {
	case r.Pool != "" && r.Pool != name:
		return Holding{}, r.refuse(InvalidRequest, "it asks for %s and for pool %s, but pool %s has that address: ask for one of the two", a, r.Pool, name)
	case !slices.Contains(r.Admitted, pool) && !slices.Contains(p.reservedFor[r.Service], a):
		return Holding{}, r.refuse(PoolNotAllowed, "pool %s, which has %s, does not admit this Service: see its allowedServices in spec.ipPools", name, a)
	case !given:
		return Holding{}, r.refuse(AddressWithheld, "%s, which this Service asks for, is given to nobody: %s", a, p.whyWithheld(pool, a))
	}
	if kept := p.keptFor(a, r); kept.service != "" {
		return Holding{}, r.refuse(AddressWithheld, "%s, which this Service asks for, is kept for Service %s: %s", a, kept.service, kept.why)
	}
	if by, why := p.obstacle(r, a, shares); by != "" {
		return Holding{}, p.refuseTaken(r, a, by, why)
	}
	return p.verified(r, Holding{Addr: a, Pool: name})
}

// refuseTaken refuses an address that is asked for and that somebody has.
func (p *planner) refuseTaken(r *Request, a netip.Addr, by, why string) *Refusal {
	if o := p.owners[a]; o.request < 0 && p.facts.Taken[o.taken].Foreign {
		return r.refuse(AddressQuarantined, "%s, which this Service asks for, is answered for by %s: take it from that host, or ask for another", a, by)
	}
	if why != "" {
		return r.refuse(AddressTaken, "%s, which this Service asks for, is held by %s, and they cannot share it: %s", a, by, why)
	}
	return r.refuse(AddressTaken, "%s, which this Service asks for, is held by %s: ask for another, or give both the same sharing key", a, by)
}

// verified returns the holding, unless the request waits until the LAN was asked about it. About an address that is on no link nobody can ask.
func (p *planner) verified(r *Request, h Holding) (Holding, *Refusal) {
	if r.Patience == Patient && !p.owned(h.Addr) && find(p.facts.Links, h.Addr) >= 0 && find(p.facts.Verified, h.Addr) < 0 {
		return Holding{}, r.refuse(AddressUnverified, "%s is next, and the speakers are asking the LAN whether anybody has it", h.Addr)
	}
	return h, nil
}

// shared returns an address that others have with which the request can share it.
func (p *planner) shared(r *Request, f Family) (Holding, bool) {
	if r.Sharing.Key == "" {
		return Holding{}, false
	}
	for _, a := range p.keyed[r.Sharing.Key] {
		pool, given := p.locate(a)
		if familyOf(a) != f || !given || !p.takesFrom(r, pool) || p.keptFor(a, r).service != "" {
			continue
		}
		if by, _ := p.obstacle(r, a, shares); by == "" {
			return Holding{Addr: a, Pool: p.facts.Pools[pool].Name}, true
		}
	}
	return Holding{}, false
}

// takesFrom says whether the request gets addresses of the pool that it does not ask for one by one.
func (p *planner) takesFrom(r *Request, pool int) bool {
	if !slices.Contains(r.Admitted, pool) {
		return false
	}
	if r.Pool != "" {
		return r.Pool == p.facts.Pools[pool].Name
	}
	return p.facts.Pools[pool].Allocation == Automatic
}

// lowestFree returns the lowest free address of the first pool that has one of the family.
func (p *planner) lowestFree(r *Request, f Family) (Holding, *Refusal) {
	var full []string
	for _, i := range r.Admitted {
		pool := &p.facts.Pools[i]
		if !p.takesFrom(r, i) || !pool.has(f) {
			continue
		}
		a, ok := p.spaces[i].lowest(f, p.owned, func(a netip.Addr) bool { return p.keptFor(a, r).service != "" })
		if ok {
			return p.verified(r, Holding{Addr: a, Pool: pool.Name})
		}
		full = append(full, pool.Name)
	}
	return Holding{}, p.noneFree(r, f, full)
}

// obstacle says who keeps a request from having the address, and why they cannot share it, if sharing is asked for; nobody when it may have it, alone
// or together with those that go together with it.
func (p *planner) obstacle(r *Request, a netip.Addr, goTogether func(a, b *Request) bool) (by, why string) {
	o, owned := p.owners[a]
	switch {
	case !owned:
		return "", ""
	case o.request < 0:
		return p.facts.Taken[o.taken].By, ""
	}
	for _, other := range append([]int32{o.request}, p.beside[a]...) {
		if b := &p.ordered[other]; !goTogether(r, b) {
			return "Service " + b.Service, obstacle(r, b)
		}
	}
	return "", ""
}

// take notes that a request has the address, alone or with those with whom it shares it.
func (p *planner) take(i int32, a netip.Addr) {
	if _, owned := p.owners[a]; owned {
		p.beside[a] = append(p.beside[a], i)
	} else {
		p.owners[a] = owner{request: i}
	}
	if key := p.ordered[i].Sharing.Key; key != "" && !slices.Contains(p.keyed[key], a) {
		p.keyed[key] = append(p.keyed[key], a)
	}
}

// release undoes take for a request that has the address alone.
func (p *planner) release(r *Request, a netip.Addr) {
	delete(p.owners, a)
	p.keyed[r.Sharing.Key] = slices.DeleteFunc(p.keyed[r.Sharing.Key], func(keyed netip.Addr) bool { return keyed == a })
}

// owned says whether somebody has the address.
func (p *planner) owned(a netip.Addr) bool { _, owned := p.owners[a]; return owned }

// keptFor returns for whom else the address is kept; for nobody when it is not.
func (p *planner) keptFor(a netip.Addr, r *Request) reserved {
	if kept := p.reserved[a]; kept.service != r.Service {
		return kept
	}
	return reserved{}
}

// held is what a request has so far.
func (p *planner) held(i int32) []Holding { return p.all[p.kept[i].from:p.kept[i].to:p.kept[i].to] }

// hold notes what a request has now.
func (p *planner) hold(i int32, kept, added []Holding) {
	from := int32(len(p.all)) //nolint:gosec // there are fewer Services than addresses of IPv4
	p.all = append(append(p.all, kept...), added...)
	p.kept[i] = span{from, int32(len(p.all))} //nolint:gosec // as above
}

// locate returns the pool that holds the address, -1 when none does, and whether it gives it.
func (p *planner) locate(a netip.Addr) (pool int, given bool) {
	at := find(p.places, a)
	if at < 0 {
		return -1, false
	}
	pool = p.pools[at]
	return pool, find(p.spaces[pool].gives, a) >= 0
}

// poolOf is the pool of an address that a request has: the one that holds it, or else the one that it remembers.
func (p *planner) poolOf(i int32, a netip.Addr) string {
	if pool, _ := p.locate(a); pool >= 0 {
		return p.facts.Pools[pool].Name
	}
	for _, h := range p.ordered[i].Remembers {
		if h.Addr == a && p.indexOf(h.Pool) >= 0 {
			return h.Pool
		}
	}
	return ""
}

// indexOf is the place of the pool with this name; -1 when there is none.
func (p *planner) indexOf(pool string) int {
	return slices.IndexFunc(p.facts.Pools, func(other Pool) bool { return other.Name == pool })
}

// whyWithheld says why a pool does not give one of its addresses.
func (p *planner) whyWithheld(pool int, a netip.Addr) string {
	for _, w := range p.facts.Withheld {
		if w.Contains(a) {
			return "it is " + w.Why
		}
	}
	return "pool " + p.facts.Pools[pool].Name + " excludes it"
}
