package ipam

import (
	"fmt"
	"net/netip"
	"strings"
)

// Reason is why a request was refused, as a machine reads it.
type Reason string

// The reasons.
const (
	// NoPool: there is no pool, none of the name asked for, or none with the address asked for.
	NoPool Reason = "NoPool"
	// PoolNotAllowed: there are pools, and none admits the Service.
	PoolNotAllowed    Reason = "PoolNotAllowed"
	PoolExhausted     Reason = "PoolExhausted"
	FamilyUnavailable Reason = "FamilyUnavailable"
	// AddressTaken: somebody else has it.
	AddressTaken Reason = "AddressTaken"
	// AddressContested: somebody outside has it too, and the Service keeps it.
	AddressContested Reason = "AddressContested"
	// AddressQuarantined: a foreign host has the address that is asked for.
	AddressQuarantined Reason = "AddressQuarantined"
	// AddressWithheld: the address that is asked for is given to nobody, or kept for another Service.
	AddressWithheld Reason = "AddressWithheld"
	// AddressUnverified: the LAN is still being asked whether anybody has the address that it would get.
	AddressUnverified Reason = "AddressUnverified"
	// InvalidRequest: what the Service asks for cannot be read, or contradicts itself.
	InvalidRequest Reason = "InvalidRequest"
)

// Refusal says why a Service lacks an address.
type Refusal struct {
	Service string
	Reason  Reason
	Message string
}

// refuse makes the refusal of a request.
func (r *Request) refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Service: r.Service, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// drivenFrom says that a request loses an address that it shows to somebody who had it first.
func (r *Request) drivenFrom(a netip.Addr, owner, why string) Refusal {
	if why != "" {
		why = " and they cannot share it (" + why + ")"
	}
	return *r.refuse(AddressTaken, "%s is held by %s too, which had it first%s: this Service gets another as soon as a pool has one, so change what points to %s",
		a, owner, why, a)
}

// noneFree says why no pool that the request would take has an address of the family; full are those that have used all of theirs.
func (p *planner) noneFree(r *Request, f Family, full []string) *Refusal {
	switch {
	case len(full) > 0:
		return r.refuse(PoolExhausted, "every %s address of pool %s is in use%s: add a range to spec.ipPools, or delete a Service that is not needed",
			f, strings.Join(full, ", "), p.byForeigners(f))
	case len(p.facts.Pools) == 0:
		return r.refuse(NoPool, "there is no pool: add one under spec.ipPools of ClusterNetworking \"cluster\"")
	case r.Pool != "":
		return p.notFrom(r, f)
	case !p.anyHas(f):
		return r.refuse(FamilyUnavailable, "no pool has %s addresses: add a range to spec.ipPools, or ask for the other family in the Service's ipFamilies", f)
	}
	return r.refuse(PoolNotAllowed, "no pool with %s addresses admits this Service without being asked for by name: see allowedServices and allocation in spec.ipPools", f)
}

// notFrom says why the pool that is asked for by name gives nothing.
func (p *planner) notFrom(r *Request, f Family) *Refusal {
	for i := range p.facts.Pools {
		switch pool := &p.facts.Pools[i]; {
		case pool.Name != r.Pool:
		case !pool.has(f):
			return r.refuse(FamilyUnavailable, "pool %s, which this Service asks for, has no %s addresses: add a range to it in spec.ipPools", r.Pool, f)
		default:
			return r.refuse(PoolNotAllowed, "pool %s, which this Service asks for, does not admit it: see its allowedServices in spec.ipPools", r.Pool)
		}
	}
	return r.refuse(NoPool, "there is no pool %q, which this Service asks for: spec.ipPools has %s", r.Pool, p.poolNames())
}

func (p *planner) poolNames() string {
	var names []string
	for i := range p.facts.Pools {
		names = append(names, p.facts.Pools[i].Name)
	}
	return strings.Join(names, ", ")
}

// anyHas says whether any pool has addresses of the family.
func (p *planner) anyHas(f Family) bool {
	for i := range p.facts.Pools {
		if p.facts.Pools[i].has(f) {
			return true
		}
	}
	return false
}

// byForeigners says how many addresses of a family foreign hosts have; nothing when they have none.
func (p *planner) byForeigners(f Family) string {
	n := 0
	for _, t := range p.facts.Taken {
		if _, pooled := PoolOf(p.facts.Pools, t.Addr); t.Foreign && pooled && familyOf(t.Addr) == f {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d by foreign hosts, see status.quarantinedIPs)", n)
}

// textOf lists addresses.
func textOf(addrs []netip.Addr) string {
	texts := make([]string, 0, len(addrs))
	for _, a := range addrs {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, ", ")
}
