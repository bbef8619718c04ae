package ipam

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// Plan gives every request its addresses, in phases, each of which goes through the requests from the oldest to the youngest:
//
//	keep      what is held stays, with the older where two hold the same and cannot share it
//	restore   who lacks one gets the address that is reserved for it, or else one that it remembers
//	complete  who lacks one, or asks for another than it has, gets that: one that it shares, or the lowest free one of the best pool
//
// The result does not depend on the order of requests, and is in the order of Service names.
func Plan(facts Facts) Result {
	p := newPlanner(facts)
	var result Result
	for i := range p.ordered {
		result.Refusals = append(result.Refusals, p.keep(int32(i))...)
	}
	for i := range p.ordered {
		p.restore(int32(i))
	}
	result.Assignments = make([]Assignment, 0, len(p.ordered))
	for i := range p.ordered {
		got, refusal := p.complete(int32(i))
		if len(got) > 0 {
			result.Assignments = append(result.Assignments, Assignment{Service: p.ordered[i].Service, Addresses: got})
		}
		if refusal != nil {
			result.Refusals = append(result.Refusals, *refusal)
		}
	}
	if len(p.needlessly) > 0 {
		return Plan(p.moved(facts))
	}
	slices.SortFunc(result.Assignments, func(a, b Assignment) int { return strings.Compare(a.Service, b.Service) })
	slices.SortStableFunc(result.Refusals, func(a, b Refusal) int { return strings.Compare(a.Service, b.Service) })
	result.Pools = p.usage()
	return result
}

// moved are the facts where those that drove somebody from an address, and then moved away from it, have moved before.
func (p *planner) moved(facts Facts) Facts {
	facts.Requests = slices.Clone(p.ordered)
	for i, holdings := range p.needlessly {
		facts.Requests[i].Holds = nil
		for _, h := range holdings {
			facts.Requests[i].Holds = append(facts.Requests[i].Holds, h.Addr)
		}
	}
	return facts
}

// owner is who has an address: a request, by its place, or somebody outside.
type owner struct {
	// request is -1 when it is somebody outside; then taken is its place among those.
	request, taken int32
}

// planner is the state of one Plan.
type planner struct {
	facts   Facts
	ordered []Request
	// places are all ranges of the pools in order, and pools whose they are; spaces are what each pool gives.
	places []Range
	pools  []int
	spaces []space
	// owners says who has each address that is not free, or had it first; beside who shares it with them.
	owners map[netip.Addr]owner
	beside map[netip.Addr][]int32
	// keyed are the addresses that Services with a sharing key have, in the order in which they got them.
	keyed map[string][]netip.Addr
	// reserved are the addresses that are kept for a Service, reservedFor those that each Service should get.
	reserved    map[netip.Addr]reserved
	reservedFor map[string][]netip.Addr
	// kept is what each request has so far: a part of all.
	kept []span
	all  []Holding
	// picked are those that were chosen last: one list for all requests.
	picked []Holding
	// moving are the requests that ask for another address than they hold.
	moving map[int32]bool
	// drove are the requests because of which another lost an address; needlessly what those have now that have moved away from it.
	drove      map[int32]bool
	needlessly map[int32][]Holding
}

// reserved says for whom an address is kept, and why.
type reserved struct{ service, why string }

// span is a part of the planner's holdings.
type span struct{ from, to int32 }

func newPlanner(facts Facts) *planner {
	n := len(facts.Requests)
	facts.Verified, facts.Links = Merge(facts.Verified), Merge(facts.Links)
	p := &planner{
		facts: facts, ordered: slices.Clone(facts.Requests),
		owners: make(map[netip.Addr]owner, n+len(facts.Taken)), beside: map[netip.Addr][]int32{}, keyed: map[string][]netip.Addr{},
		reserved: make(map[netip.Addr]reserved, len(facts.Cooling)), reservedFor: map[string][]netip.Addr{},
		kept: make([]span, n), all: make([]Holding, 0, 2*n), moving: map[int32]bool{},
		drove: map[int32]bool{}, needlessly: map[int32][]Holding{},
	}
	slices.SortFunc(p.ordered, func(a, b Request) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Service, b.Service))
	})
	p.place()
	for i, t := range facts.Taken {
		p.owners[t.Addr] = owner{request: -1, taken: int32(i)}
	}
	for _, c := range facts.Cooling {
		p.reserved[c.Addr] = reserved{c.Had, "it had it until a moment ago (reuseAfterSeconds)"}
	}
	for _, pool := range facts.Pools {
		for _, r := range pool.Reservations {
			p.reserved[r.Addr] = reserved{r.For, "it is reserved in pool " + pool.Name}
			p.reservedFor[r.For] = append(p.reservedFor[r.For], r.Addr)
		}
	}
	return p
}

// place finds out which addresses the pools give, and where each range is.
func (p *planner) place() {
	withheld := make([]Range, 0, len(p.facts.Withheld))
	for _, w := range p.facts.Withheld {
		withheld = append(withheld, w.Range)
	}
	type placed struct {
		Range
		pool int
	}
	var places []placed
	for i := range p.facts.Pools {
		p.spaces = append(p.spaces, newSpace(&p.facts.Pools[i], withheld))
		for _, r := range p.facts.Pools[i].Ranges {
			places = append(places, placed{r, i})
		}
	}
	slices.SortFunc(places, func(a, b placed) int { return a.First.Compare(b.First) })
	for _, at := range places {
		p.places, p.pools = append(p.places, at.Range), append(p.pools, at.pool)
	}
}

// keep decides what a request goes on holding. What somebody older, or somebody outside, has is refused. An address of a family that the Service
// has given up itself goes.
func (p *planner) keep(i int32) (refused []Refusal) {
	r := &p.ordered[i]
	from := int32(len(p.all)) //nolint:gosec // there are fewer Services than addresses of IPv4
	for _, a := range r.Holds {
		if len(r.Families) > 0 && !slices.Contains(r.Families, familyOf(a)) && r.Standing == Current {
			continue
		}
		if by, why := p.obstacle(r, a, staysWith); by != "" {
			refused = append(refused, r.drivenFrom(a, by, why))
			if o := p.owners[a]; o.request >= 0 {
				p.drove[o.request] = true
			}
			continue
		}
		p.take(i, a)
		pool := p.poolOf(i, a)
		p.all = append(p.all, Holding{Addr: a, Pool: pool})
		if r.Standing == Current && r.Invalid == "" && !r.asksFor(a, pool) {
			p.moving[i] = true
		}
	}
	p.kept[i] = span{from, int32(len(p.all))} //nolint:gosec // as above
	return refused
}

// restore gives back what is reserved for the request or, else, what it remembers: one address per family that it lacks.
func (p *planner) restore(i int32) {
	r := &p.ordered[i]
	reserved := p.reservedFor[r.Service]
	if r.Standing == Leaving || r.Invalid != "" || len(reserved)+len(r.Remembers) == 0 || len(p.held(i)) >= len(r.Families) {
		return
	}
	before := p.kept[i]
	back := slices.Clone(p.held(i))
	give := func(a netip.Addr, admitted bool) {
		f := familyOf(a)
		pool, given := p.locate(a)
		if !given || p.owned(a) || !slices.Contains(r.Families, f) || serves(back, f) || p.keptFor(a, r).service != "" {
			return
		}
		if name := p.facts.Pools[pool].Name; r.asksFor(a, name) && (admitted || p.takesFrom(r, pool) || slices.Contains(r.Wants, a) && slices.Contains(r.Admitted, pool)) {
			p.take(i, a)
			back = append(back, Holding{Addr: a, Pool: name})
		}
	}
	for _, a := range reserved {
		give(a, true) // whoever has made the pool wants it so
	}
	for _, h := range r.Remembers {
		give(h.Addr, false)
	}
	if r.Need == NeedAll && before.from == before.to && !p.completes(r, back) {
		for _, h := range back { // all or none: what it cannot complete is left to others
			p.release(r, h.Addr)
		}
		return
	}
	p.hold(i, back, nil)
}

// completes says whether the families that a request lacks next to these holdings can be had now.
func (p *planner) completes(r *Request, held []Holding) bool {
	_, lacking := p.pick(r, held)
	return lacking == nil
}

// complete adds what the request lacks to what it holds, or gives it what it asks for instead. The refusal says why something is still lacking.
func (p *planner) complete(i int32) ([]Holding, *Refusal) {
	r, held := &p.ordered[i], p.held(i)
	switch {
	case r.Standing == Leaving:
		return held, nil
	case r.Invalid != "":
		return held, r.refuse(InvalidRequest, "%s", r.Invalid)
	}
	keeps := held
	if p.moving[i] {
		keeps = slices.DeleteFunc(slices.Clone(held), func(h Holding) bool { return !r.asksFor(h.Addr, h.Pool) })
	}
	picked, lacking := p.pick(r, keeps)
	if lacking != nil && (p.moving[i] || r.Need == NeedAll) {
		return held, lacking // what it has is better than nothing
	}
	for _, h := range picked {
		p.take(i, h.Addr)
	}
	if len(keeps)+len(picked) == 0 {
		return nil, lacking
	}
	if len(picked) == 0 && len(keeps) == len(held) {
		return inFamilyOrder(held, r.Families), nil
	}
	p.hold(i, keeps, picked)
	got := inFamilyOrder(p.held(i), r.Families)
	if p.moving[i] && p.drove[i] {
		p.needlessly[i] = got
	}
	return got, nil
}

// pick chooses addresses of the families that a request lacks. They are good until it is called again.
func (p *planner) pick(r *Request, held []Holding) (picked []Holding, lacking *Refusal) {
	picked = p.picked[:0]
	for _, f := range r.Families {
		if serves(held, f) {
			continue
		}
		h, refusal := p.choose(r, f)
		if refusal != nil {
			lacking = cmp.Or(lacking, refusal)
			continue
		}
		picked = append(picked, h)
	}
	p.picked = picked
	return picked, lacking
}

// serves says whether one of the holdings is of the family.
func serves(held []Holding, f Family) bool {
	return slices.ContainsFunc(held, func(h Holding) bool { return familyOf(h.Addr) == f })
}

// inFamilyOrder sorts holdings as the families are ordered, those of a family that is not asked for last.
func inFamilyOrder(all []Holding, families []Family) []Holding {
	if len(all) < 2 {
		return all
	}
	rank := func(h Holding) int {
		if at := slices.Index(families, familyOf(h.Addr)); at >= 0 {
			return at
		}
		return len(families)
	}
	slices.SortStableFunc(all, func(a, b Holding) int { return cmp.Compare(rank(a), rank(b)) })
	return all
}
