package ipam

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// safeguard is something that keeps addresses from being given twice, or from moving, and that a mutation takes away.
type safeguard int

const (
	keepHolders safeguard = 1 << iota
	olderFirst
	comparePorts
	compareNamespaces
	doubtMemory
	minReservations
	minExclusions
	rememberWrites
	conditionalWrites
	listOnLead
)

// service is a Service as the API server has it.
type service struct {
	Request
	uid, version int
	// balances says that it is a load balancer now.
	balances bool
	// spec counts what it has asked for, and asked says that it has asked for something else since a manager served it.
	spec  int
	asked bool
}

// world is an API server with Services, the tenants who change them, and the managers that give them addresses.
type world struct {
	rng   *rand.Rand
	off   safeguard
	pools []Pool
	// services are as they are now, log what was written in this order.
	services map[string]service
	log      []service
	managers []*manager
	step     int
	told     []string
	// overlap is how many steps there still are two managers that both lead.
	overlap   int
	violation string
}

// manager gives addresses by what it knows: a cache that lags behind, and over it what is newer.
type manager struct {
	cached int // so many writes of the log are in its cache
	cache  map[string]service
	newer  map[string]service
	// listed are the Services that there were when it took the lead, after horizon writes.
	horizon int
	listed  map[string]bool
}

func newWorld(seed uint64, off safeguard) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), off: off, services: map[string]service{}}
	w.pools = w.somePools()
	w.managers = []*manager{w.lead()}
	return w
}

// somePools are small, so that they run out.
func (w *world) somePools() []Pool {
	texts := []PoolText{{Name: "lan", Addresses: []string{[]string{"10.0.0.0/29", "10.0.0.0/30", "10.0.0.2-10.0.0.9"}[w.rng.IntN(3)]}}}
	if w.rng.IntN(2) == 0 {
		texts[0].Exclude = []string{"10.0.0.2-10.0.0.3"}
	}
	if w.rng.IntN(3) == 0 && len(texts[0].Exclude) == 0 {
		texts[0].Reservations = []ReservationText{{Address: "10.0.0.3", For: "a/3"}}
	}
	if w.rng.IntN(2) == 0 {
		texts = append(texts, PoolText{Name: "six", Addresses: []string{"fd00::/126"}})
	}
	if w.rng.IntN(3) == 0 {
		texts = append(texts, PoolText{Name: "public", Addresses: []string{"203.0.113.0/30"}, Allocation: OnRequest})
	}
	pools, problems := ParsePools(texts)
	if len(problems) > 0 {
		panic(problems[0].Message)
	}
	return pools
}

func (w *world) fail(format string, args ...any) {
	if w.violation == "" {
		w.violation = fmt.Sprintf(format, args...)
	}
}

func (w *world) say(format string, args ...any) {
	w.told = append(w.told, fmt.Sprintf("%3d ", w.step)+fmt.Sprintf(format, args...))
}

// write makes a Service be as it is now.
func (w *world) write(s service) {
	s.version = len(w.log) + 1
	w.log = append(w.log, s)
	w.services[s.Service] = s
}

// remove deletes a Service.
func (w *world) remove(name string) {
	gone := w.services[name]
	delete(w.services, name)
	w.log = append(w.log, service{Request: Request{Service: name}, uid: -gone.uid, version: len(w.log) + 1})
}

// lead is a manager that takes the lead, with a cache that lags behind what it has listed.
func (w *world) lead() *manager {
	m := &manager{cache: map[string]service{}, newer: map[string]service{}}
	m.catchUp(w, w.rng.IntN(len(w.log)+1))
	if w.off&listOnLead == 0 {
		maps.Copy(m.newer, w.services)
		m.horizon, m.listed = len(w.log), map[string]bool{}
		for name := range w.services {
			m.listed[name] = true
		}
	}
	return m
}

// catchUp lets the cache see more of the log.
func (m *manager) catchUp(w *world, n int) {
	for ; n > 0 && m.cached < len(w.log); n, m.cached = n-1, m.cached+1 {
		s := w.log[m.cached]
		if s.uid < 0 {
			delete(m.cache, s.Service)
			if newer, has := m.newer[s.Service]; has && newer.version < s.version {
				delete(m.newer, s.Service)
			}
			continue
		}
		m.cache[s.Service] = s
		if newer, has := m.newer[s.Service]; has && newer.version <= s.version {
			delete(m.newer, s.Service)
		}
	}
}

// sees is what the manager knows. What its cache shows and it has not listed later is gone.
func (m *manager) sees() map[string]service {
	all := maps.Clone(m.cache)
	maps.DeleteFunc(all, func(name string, s service) bool { return s.version <= m.horizon && !m.listed[name] })
	maps.Copy(all, m.newer)
	return all
}

// pass plans and writes, as far as the API server lets it.
func (w *world) pass(m *manager) (wrote bool) {
	seen := m.sees()
	facts := w.factsOf(seen)
	result := Plan(facts)
	assigned := map[string][]Holding{}
	for _, a := range result.Assignments {
		assigned[a.Service] = a.Addresses
	}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		s := seen[name]
		if !s.balances || slices.EqualFunc(s.Holds, assigned[name], func(a netip.Addr, h Holding) bool { return a == h.Addr }) {
			continue
		}
		current, exists := w.services[name]
		if outrun := !exists || current.uid != s.uid || !current.balances || !slices.Equal(current.Holds, s.Holds); outrun && (w.off&conditionalWrites == 0 || !exists || !current.balances) {
			continue
		}
		w.assign(m, current, s, assigned[name])
		w.checkCompany(seen, s, w.services[name])
		wrote = true
	}
	return wrote
}

// factsOf is what a manager plans from, as the safeguards leave it.
func (w *world) factsOf(seen map[string]service) Facts {
	facts := Facts{Pools: slices.Clone(w.pools)}
	for i := range facts.Pools {
		if w.off&minReservations != 0 {
			facts.Pools[i].Reservations = nil
		}
		if w.off&minExclusions != 0 {
			facts.Pools[i].Exclude = nil
		}
	}
	for _, s := range seen { // in any order
		if !s.balances {
			continue
		}
		r := s.Request
		r.Admitted = []int{0, 1, 2}[:len(w.pools)]
		if w.off&keepHolders != 0 {
			r.Holds = nil
		}
		if w.off&olderFirst != 0 {
			r.Created = at(1000).Add(-r.Created.Sub(at(0)))
		}
		if w.off&comparePorts != 0 {
			r.Sharing.Ports = nil
		}
		if w.off&compareNamespaces != 0 {
			r.Sharing.Namespaces = []string{"*"}
		}
		if w.off&doubtMemory != 0 && len(r.Holds) == 0 {
			for _, h := range r.Remembers {
				r.Holds = append(r.Holds, h.Addr)
			}
			r.Sharing = Sharing{Key: "everybody", Ports: nil, Namespaces: []string{"*"}}
		}
		facts.Requests = append(facts.Requests, r)
	}
	return facts
}

// assign writes what a Service has now, and looks at what that does.
func (w *world) assign(m *manager, s, seen service, holdings []Holding) {
	before := s.Holds
	s.Holds = nil
	for _, h := range holdings {
		s.Holds = append(s.Holds, h.Addr)
		if !slices.Contains(before, h.Addr) {
			w.checkGiven(seen, h.Addr)
		}
	}
	for _, a := range before {
		if !slices.Contains(s.Holds, a) && !s.asked && !w.driven(s, a) {
			w.fail("%s loses %s, and has not asked for anything else", s.Service, a)
		}
	}
	if len(holdings) > 0 {
		s.Remembers = holdings
	}
	unserved := slices.ContainsFunc(holdings, func(h Holding) bool { return !s.asksFor(h.Addr, h.Pool) }) // it moves as soon as it can
	s.asked = s.asked && (s.spec != seen.spec || unserved)
	w.say("%s has %v, had %v", s.Service, s.Holds, before)
	w.write(s)
	if w.off&rememberWrites == 0 {
		m.newer[s.Service] = w.services[s.Service]
	}
}

// checkGiven says whether a Service may get an address anew.
func (w *world) checkGiven(s service, a netip.Addr) {
	pool, pooled := PoolOf(w.pools, a)
	if !pooled {
		w.fail("%s gets %s, which no pool has", s.Service, a)
		return
	}
	for _, p := range w.pools {
		for _, r := range p.Reservations {
			if r.Addr == a && r.For != s.Service {
				w.fail("%s gets %s, which is reserved for %s", s.Service, a, r.For)
			}
		}
		if p.Name == pool && slices.ContainsFunc(p.Exclude, func(r Range) bool { return r.Contains(a) }) {
			w.fail("%s gets %s, which is excluded", s.Service, a)
		}
		if p.Name == pool && p.Allocation == OnRequest && s.Pool != pool && !slices.Contains(s.Wants, a) {
			w.fail("%s gets %s of a pool that it did not ask for", s.Service, a)
		}
	}
}

// checkCompany says whether a Service has come to the address of one that does not agree, as far as the manager knew.
func (w *world) checkCompany(seen map[string]service, before, after service) {
	for _, a := range after.Holds {
		for name, other := range seen {
			if name != after.Service && other.balances && slices.Contains(other.Holds, a) && !slices.Contains(before.Holds, a) && !other.asked &&
				other.Sharing.Key != "" && other.Sharing.Key == before.Sharing.Key && !shares(&before.Request, &other.Request) {
				w.fail("%s comes to %s, where %s is and does not agree", after.Service, a, name)
			}
		}
	}
}

// driven says whether there was a moment in which somebody older had an address too, and the two could not share it: the manager may see that one only
// now, and the older may be gone by now.
func (w *world) driven(s service, a netip.Addr) bool {
	then := map[string]service{}
	for _, now := range w.log {
		then[now.Service] = now
		mine := then[s.Service]
		if mine.uid != s.uid || !mine.balances || !slices.Contains(mine.Holds, a) {
			continue
		}
		for _, other := range then {
			older := other.Created.Before(s.Created) || other.Created.Equal(s.Created) && other.Service < s.Service
			if other.Service != s.Service && other.uid > 0 && other.balances && older && slices.Contains(other.Holds, a) && !staysWith(&other.Request, &mine.Request) {
				return true
			}
		}
	}
	return false
}

// checkStrangers says whether no two Services have one address that they cannot share.
func (w *world) checkStrangers() {
	names := slices.Sorted(maps.Keys(w.services))
	for i, one := range names {
		a := w.services[one]
		for _, other := range names[i+1:] {
			b := w.services[other]
			for _, addr := range a.Holds {
				if a.balances && b.balances && slices.Contains(b.Holds, addr) && !staysWith(&a.Request, &b.Request) && !a.asked && !b.asked {
					w.fail("%s and %s both have %s", one, other, addr)
				}
			}
		}
	}
}

// live lets something happen.
func (w *world) live() {
	w.step++
	switch w.rng.IntN(10) {
	case 0, 1, 2:
		w.create()
	case 3:
		if name, exists := w.any(); exists {
			w.say("%s is deleted", name)
			w.remove(name)
		}
	case 4, 5:
		w.tenant()
	case 6:
		if w.rng.IntN(3) == 0 {
			w.pools = w.somePools()
			w.say("the pools are %v", w.pools)
		}
	case 7:
		w.say("another manager takes the lead")
		if w.rng.IntN(2) == 0 { // the one before does not know yet
			w.managers = append(w.managers[len(w.managers)-1:], w.lead())
			w.overlap = 1 + w.rng.IntN(3)
		} else {
			w.managers, w.overlap = []*manager{w.lead()}, 0
		}
	}
	for _, m := range w.managers {
		m.catchUp(w, w.rng.IntN(4))
		if w.rng.IntN(3) > 0 {
			w.pass(m)
		}
	}
	switch w.overlap--; {
	case w.overlap == 0:
		w.managers = w.managers[len(w.managers)-1:]
		w.settle()
	case w.overlap < 0:
		w.checkStrangers()
	}
}

func (w *world) any() (name string, exists bool) {
	if len(w.services) == 0 {
		return "", false
	}
	return slices.Sorted(maps.Keys(w.services))[w.rng.IntN(len(w.services))], true
}

func (w *world) create() {
	name := fmt.Sprintf("%s/%d", []string{"a", "b"}[w.rng.IntN(2)], w.rng.IntN(6))
	if _, exists := w.services[name]; exists {
		return
	}
	s := service{Request: wants(name, at(w.step)), uid: len(w.log) + 1, balances: true}
	w.request(&s)
	w.say("%s is created: %v %v %q, %v", name, s.Families, s.Wants, s.Pool, s.Sharing)
	w.write(s)
}

// request lets a tenant ask for something.
func (w *world) request(s *service) {
	s.Families, s.Need = [][]Family{{IPv4}, {IPv4, IPv6}, {IPv6}}[w.rng.IntN(3)], Need(w.rng.IntN(2))
	s.Wants, s.Pool, s.Sharing = nil, "", Sharing{}
	switch w.rng.IntN(6) {
	case 0:
		s.Wants = []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(w.rng.IntN(12))})}
	case 1:
		s.Pool = []string{"lan", "public", "six"}[w.rng.IntN(3)]
	case 2, 3:
		s.Sharing = Sharing{Key: "k", Ports: []Port{{"TCP", uint16(80 + w.rng.IntN(2))}}}
		if w.rng.IntN(3) == 0 {
			s.Sharing.Namespaces = []string{"*"}
		}
	}
}

// tenant changes a Service.
func (w *world) tenant() {
	name, exists := w.any()
	if !exists {
		return
	}
	s := w.services[name]
	switch w.rng.IntN(3) {
	case 0:
		w.request(&s)
		s.spec, s.asked = s.spec+1, true
		w.say("%s asks for %v %v %q, %v", name, s.Families, s.Wants, s.Pool, s.Sharing)
	case 1: // the API server empties the status of what is no load balancer
		s.balances, s.Holds = !s.balances, nil
		w.say("%s balances: %v", name, s.balances)
	case 2:
		s.Remembers = memory(fmt.Sprintf("10.0.0.%d", w.rng.IntN(12)), "203.0.113.1")
		w.say("%s says that it had %v", name, s.Remembers)
	}
	w.write(s)
}

// settle lets the one manager that is left catch up and do all that there is to do.
func (w *world) settle() {
	m := w.managers[0]
	for range 5 {
		m.catchUp(w, len(w.log))
		if !w.pass(m) {
			break
		}
	}
	m.catchUp(w, len(w.log))
	if w.pass(m) {
		w.fail("it does not settle")
	}
	w.checkStrangers()
	w.checkSettled(m)
}

// checkSettled compares what the plan says at rest with what there is.
func (w *world) checkSettled(m *manager) {
	facts := w.factsOf(m.sees())
	first := Plan(facts)
	w.rng.Shuffle(len(facts.Requests), func(i, j int) { facts.Requests[i], facts.Requests[j] = facts.Requests[j], facts.Requests[i] })
	if diff := cmp.Diff(first, Plan(facts), compareAddr, compareBig); diff != "" {
		w.fail("the order of requests matters (-first +second):\n%s", diff)
	}
	held := map[netip.Addr]bool{}
	for _, s := range w.services {
		for _, a := range s.Holds {
			held[a] = held[a] || s.balances
		}
	}
	allocated := int64(0)
	for _, u := range first.Pools {
		allocated += u.Allocated.Int64() + u.Draining.Int64()
		for _, r := range first.Refusals {
			if r.Reason == PoolExhausted && strings.Contains(r.Message, " "+u.Pool+" ") && u.Available.Sign() != 0 {
				w.fail("%s, and %s are available", r.Message, u.Available)
			}
		}
	}
	for a := range held {
		if pool, pooled := PoolOf(w.pools, a); pooled && pool != "" {
			allocated--
		} else if slices.ContainsFunc(first.Assignments, func(of Assignment) bool {
			return slices.ContainsFunc(of.Addresses, func(h Holding) bool { return h.Addr == a && h.Pool != "" })
		}) {
			allocated-- // it drains from a pool that is still there
		}
	}
	if allocated != 0 {
		w.fail("%d more addresses are counted than there are", allocated)
	}
}
