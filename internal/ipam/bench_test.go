package ipam

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// The benchmarks are about a pool of 65,536 addresses and up to 10,000 Services. FirstFit is the baseline: what an allocator costs that looks through
// the pool from its beginning for each of them.
//
//	go test -run '^$' -bench . -benchmem ./internal/ipam

const claims = 10_000

// crowd are so many Services, of which the first some hold an address.
func crowd(total, holding int) []Request {
	all := make([]Request, 0, total)
	addr := netip.MustParseAddr("10.0.0.1")
	for i := range total {
		r := wants(fmt.Sprintf("ns-%d/svc-%d", i%50, i), at(i))
		r.Admitted = everyPool
		if i < holding {
			r.Holds = []netip.Addr{addr}
			addr = addr.Next()
		}
		all = append(all, r)
	}
	random := rand.New(rand.NewPCG(1, 1))
	random.Shuffle(total, func(i, j int) { all[i], all[j] = all[j], all[i] }) // a cache lists in any order
	return all
}

var (
	everyPool = []int{0}
	large     = []Pool{{Name: "large", Ranges: []Range{{First: netip.MustParseAddr("10.0.0.1"), Last: netip.MustParseAddr("10.0.255.254")}}}}
)

func planFor(b *testing.B, facts Facts, assigned int) {
	b.ReportAllocs()
	for b.Loop() {
		if got := len(Plan(facts).Assignments); got != assigned {
			b.Fatalf("%d of %d Services have an address", got, assigned)
		}
	}
}

func BenchmarkFill(b *testing.B) {
	planFor(b, Facts{Pools: large, Requests: crowd(claims, 0)}, claims)
}

func BenchmarkFillAPrefixOfIPv6(b *testing.B) {
	requests := crowd(claims, 0)
	for i := range requests {
		requests[i].Families = []Family{IPv6}
	}
	planFor(b, Facts{Pools: []Pool{{Name: "six", Ranges: []Range{{First: netip.MustParseAddr("fd00::"), Last: netip.MustParseAddr("fd00::ffff:ffff:ffff:ffff")}}}},
		Requests: requests}, claims)
}

func BenchmarkPlanAgain(b *testing.B) {
	planFor(b, Facts{Pools: large, Requests: crowd(claims, claims)}, claims)
}

// BenchmarkOneMore is one Service more, when all others have been seen to.
func BenchmarkOneMore(b *testing.B) {
	var p *planner
	next := 0
	b.ReportAllocs()
	for b.Loop() {
		if p == nil || next == len(p.ordered) {
			b.StopTimer()
			p, next = newPlanner(Facts{Pools: large, Requests: crowd(5*claims, claims)}), claims
			for i := range claims {
				p.keep(int32(i))
			}
			b.StartTimer()
		}
		if got, refusal := p.complete(int32(next)); len(got) != 1 {
			b.Fatal(refusal)
		}
		next++
	}
}

// BenchmarkFirstFit fills the pool with a thousand Services as a search from its beginning does, with the names of addresses as keys.
func BenchmarkFirstFit(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		used := map[string]string{}
		for _, r := range crowd(claims/10, 0) {
			a := large[0].Ranges[0].First
			for ; used[a.String()] != ""; a = a.Next() {
			}
			used[a.String()] = r.Service
		}
	}
}
