package ipam

import (
	"fmt"
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
	// Leaving keeps what it holds and gets nothing new: its Service is being deleted, or too little is known of it yet.
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
	// Admitted are the pools, by their index, that may give it an address, the best first.
	Admitted []int
	// Pool is the one that it asks for; empty: any that is allocated from without being asked for.
	Pool string
	// Wants are the addresses that it asks for; none: any.
	Wants []netip.Addr
	// Sharing says with whom it shares an address.
	Sharing Sharing
	// Holds are the addresses that the Service shows already. They are taken from it only where it asks for others itself.
	Holds []netip.Addr
	// Remembers is what the Service once had. While it waits it gets one of the addresses back if its pool admits it and nobody has it,
	// before any newcomer is served.
	Remembers []Holding
	// Invalid says why what it asks for cannot be read; empty when it can. It keeps what it has, and gets nothing.
	Invalid string
}

func (r *Request) namespace() string {
	namespace, _, _ := strings.Cut(r.Service, "/")
	return namespace
}

// asksFor says whether the address is one that the request asks for, or would take. One of which nobody knows any more from which pool it came is.
func (r *Request) asksFor(a netip.Addr, pool string) bool {
	if len(r.Wants) > 0 {
		return slices.Contains(r.Wants, a)
	}
	return r.Pool == "" || pool == "" || r.Pool == pool
}

// Holding is an address that a Service has.
type Holding struct {
	Addr netip.Addr
	// Pool is the pool that holds the address, or held it when it was given; empty when that is not known.
	Pool string
}

// Taken is an address that is not ours to give.
type Taken struct {
	Addr netip.Addr
	// By says by whom, as a person would ("Service default/web", "node k8s-cp-01, interface eth0").
	By string
	// Foreign means that it is a host that the cluster knows nothing of.
	Foreign bool
}

// Withheld are addresses that are given to nobody, although they may lie in a pool.
type Withheld struct {
	Range
	// Why says what they are, as a person would ("the broadcast address of 192.168.1.0/24").
	Why string
}

// Cooling is an address that a Service had until a moment ago: nobody else gets it for a while.
type Cooling struct {
	Addr netip.Addr
	// Had is that Service, NAMESPACE/NAME.
	Had string
}

// Facts are what a plan is made from.
type Facts struct {
	Pools    []Pool
	Requests []Request
	Taken    []Taken
	Withheld []Withheld
	Cooling  []Cooling
	// Verified are the addresses for which the LAN was asked, and nobody answered; Links the subnets in which it can be asked.
	Verified, Links []Range
}

// Assignment is all that one Service has after the plan.
type Assignment struct {
	Service string
	// Addresses are in the order of the Service's families.
	Addresses []Holding
}

// Result is a plan: what every Service has, who got nothing and why, and what is left.
type Result struct {
	Assignments []Assignment
	Refusals    []Refusal
	Pools       []Usage
}
