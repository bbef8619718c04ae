package election

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// The times of the simulated cluster. Gossip takes up to gossipDelay, and what was lost is told again every repair.
const (
	tick        = 10 * time.Millisecond
	gossipDelay = 3 // ticks
	// sends is how often a change is told, each time with a fifth of it lost.
	sends       = 4
	repair      = 500 * time.Millisecond
	silentAfter = 400 * time.Millisecond
	holdTime    = 8 * time.Second
	departTime  = 2 * time.Second
	// settle is how long a disturbance may be seen.
	settle = 500 * time.Millisecond
	// handover is how long two may answer: until the one has heard of the other.
	handover = 200 * time.Millisecond
)

// word is what a machine last told of itself, as another has it.
type word struct {
	version int
	carrier bool
	claims  map[netip.Addr]Claim
	// heard is when the machine was heard last, hold until when its word stands although it is silent.
	heard, hold time.Time
	left        bool
}

// opinion is what the API server says of a machine.
type opinion struct{ excluded, away, endpoint bool }

// machine is a node with its speaker.
type machine struct {
	name string
	// alive means that the speaker runs; back is when it does again, deaf until when it hears nobody.
	alive      bool
	back, deaf time.Time
	carrier    bool
	departing  time.Time
	version    int
	told       time.Time
	unsent     int
	claims     map[netip.Addr]Claim
	taking     map[netip.Addr]*Question
	epochs     map[netip.Addr]uint64
	words      map[string]word
	lost       map[string]bool
	// api is what the machine has heard from the API server.
	api map[string]opinion
}

func (m *machine) answers(a netip.Addr) bool {
	return m.alive && m.carrier && m.claims[a].Stage.Answers()
}

// letter is a word on its way.
type letter struct {
	at       time.Time
	from, to *machine
	word     word
}

// cluster is a simulated group of speakers with what disturbs them.
type cluster struct {
	rng      *rand.Rand
	now      time.Time
	off      safeguard
	machines []*machine
	addrs    []netip.Addr
	foreign  map[netip.Addr]bool
	truth    map[string]opinion
	// gossip and wire are the pairs that do not reach each other.
	gossip, wire map[[2]string]bool
	letters      []letter
	// noAPI means that nobody hears of what changes there.
	noAPI bool
	// disturbed is when something was last changed from outside.
	disturbed time.Time
	// changed is when a claim last changed.
	changed   time.Time
	owners    map[netip.Addr]*machine
	since     map[netip.Addr]time.Time
	log       []string
	violation string
	moves     int
}

func newCluster(seed uint64, off safeguard) *cluster {
	c := &cluster{rng: rand.New(rand.NewPCG(seed, 11)), now: time.Unix(1000, 0), off: off, foreign: map[netip.Addr]bool{},
		truth: map[string]opinion{}, gossip: map[[2]string]bool{}, wire: map[[2]string]bool{},
		owners: map[netip.Addr]*machine{}, since: map[netip.Addr]time.Time{}}
	c.disturbed = c.now
	for i := range 2 + c.rng.IntN(4) {
		m := &machine{name: fmt.Sprintf("n%d", i), carrier: true}
		c.machines = append(c.machines, m)
		c.truth[m.name] = opinion{endpoint: true}
	}
	for i := range 1 + c.rng.IntN(7) {
		c.addrs = append(c.addrs, netip.AddrFrom4([4]byte{10, 0, 0, byte(200 + i)}))
	}
	for _, m := range c.machines {
		c.boot(m, nil)
	}
	for _, m := range c.machines { // they have met before they decide for the first time
		for _, peer := range c.machines {
			if peer != m {
				m.words[peer.name] = word{carrier: true, heard: c.now}
			}
		}
	}
	return c
}

func (c *cluster) note(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf("%6d ms  ", c.now.Sub(time.Unix(1000, 0)).Milliseconds())+fmt.Sprintf(format, args...))
}

func (c *cluster) fail(format string, args ...any) {
	if c.violation == "" {
		c.violation = fmt.Sprintf(format, args...)
		c.note("VIOLATION: %s", c.violation)
	}
}

// boot starts a machine's speaker with what it resumes.
func (c *cluster) boot(m *machine, resumed map[netip.Addr]Claim) {
	m.alive, m.back, m.deaf, m.departing, m.told = true, time.Time{}, time.Time{}, time.Time{}, time.Time{}
	m.claims, m.taking, m.words, m.lost = map[netip.Addr]Claim{}, map[netip.Addr]*Question{}, map[string]word{}, map[string]bool{}
	m.epochs, m.api = map[netip.Addr]uint64{}, maps.Clone(c.truth)
	m.version += 1000
	maps.Copy(m.claims, resumed)
}

// connected says whether a machine reaches anybody: without, it cannot learn from the API server what there is to announce.
func (c *cluster) connected(m *machine) bool {
	return slices.ContainsFunc(c.machines, func(o *machine) bool { return o != m && c.reaches(c.wire, m, o) })
}

// meet lets a machine that returns hear what the others know, as joining a group does, and take up what they keep for it.
func (c *cluster) meet(m *machine) {
	var resumed map[netip.Addr]Claim
	for _, peer := range c.machines {
		if w, kept := peer.words[m.name]; peer != m && peer.alive && c.reaches(c.gossip, m, peer) && kept && !w.left && peer.living(m.name, c.now) {
			resumed = maps.Clone(w.claims)
			maps.DeleteFunc(resumed, func(_ netip.Addr, c Claim) bool { return !c.Stage.Answers() })
		}
	}
	c.boot(m, resumed)
	for _, peer := range c.machines {
		if peer == m || !peer.alive || !c.reaches(c.gossip, m, peer) {
			continue
		}
		m.words[peer.name] = word{version: peer.version, carrier: peer.carrier, claims: maps.Clone(peer.claims), heard: c.now}
		m.learn(peer.epochs)
	}
}

// learn takes in the epochs that another has heard of.
func (m *machine) learn(epochs map[netip.Addr]uint64) {
	for a, e := range epochs {
		m.epochs[a] = max(m.epochs[a], e)
	}
}

// living says whether a machine takes another for living.
func (m *machine) living(peer string, now time.Time) bool {
	w, known := m.words[peer]
	return known && !w.left && (now.Sub(w.heard) < silentAfter || now.Before(w.hold))
}

func pair(a, b *machine) [2]string {
	if a.name < b.name {
		return [2]string{a.name, b.name}
	}
	return [2]string{b.name, a.name}
}

// reaches says whether two machines reach each other. A machine without carrier on the addresses' LAN still has the nodes' network.
func (c *cluster) reaches(blocked map[[2]string]bool, a, b *machine) bool {
	return !blocked[pair(a, b)]
}

// step lets ten milliseconds go by.
func (c *cluster) step() {
	c.now = c.now.Add(tick)
	for _, m := range c.machines {
		if !m.alive && !m.back.IsZero() && !c.now.Before(m.back) && c.connected(m) {
			c.note("%s is back", m.name)
			c.disturbed = c.now
			c.meet(m)
		}
	}
	if slices.ContainsFunc(c.machines, func(m *machine) bool { return c.now.Before(m.deaf) }) {
		c.disturbed = c.now
	}
	c.check()
	c.deliver()
	c.listen()
	for _, i := range c.rng.Perm(len(c.machines)) {
		if m := c.machines[i]; m.alive {
			c.decide(m)
			c.tell(m)
			c.check()
		}
	}
}

// deliver hands over what has arrived.
func (c *cluster) deliver() {
	var later []letter
	for _, l := range c.letters {
		switch {
		case c.now.Before(l.at):
			later = append(later, l)
		case l.to.alive && !c.now.Before(l.to.deaf) && c.reaches(c.gossip, l.from, l.to):
			if known, is := l.to.words[l.from.name]; !is || known.version < l.word.version {
				l.word.heard = c.now
				l.to.words[l.from.name] = l.word
				for a, claim := range l.word.claims {
					l.to.epochs[a] = max(l.to.epochs[a], claim.Epoch)
				}
			}
		}
	}
	c.letters = later
}

// listen notes who hears whom.
func (c *cluster) listen() {
	for _, m := range c.machines {
		for _, peer := range c.machines {
			if m == peer || !m.alive {
				continue
			}
			w, known := m.words[peer.name]
			if peer.alive && !c.now.Before(m.deaf) && c.reaches(c.gossip, m, peer) {
				if c.now.Sub(w.heard) >= silentAfter { // they join each other again, and tell all
					w = word{version: peer.version, carrier: peer.carrier, claims: maps.Clone(peer.claims)}
					m.learn(peer.epochs)
				}
				w.heard, known = c.now, true
				m.words[peer.name] = w
			}
			if known && !w.left && !m.living(peer.name, c.now) {
				w.claims = nil // its claims end with it
				m.words[peer.name] = w
				m.lost[peer.name] = true
			} else if known {
				delete(m.lost, peer.name)
			}
		}
	}
}

// tell sends what has changed, or is due again.
func (c *cluster) tell(m *machine) {
	if m.told.IsZero() {
		m.unsent = sends
	}
	if m.unsent == 0 && c.now.Sub(m.told) < repair {
		return
	}
	m.told, m.unsent = c.now, max(0, m.unsent-1)
	for _, peer := range c.machines {
		if peer == m || c.rng.IntN(5) == 0 {
			continue
		}
		c.letters = append(c.letters, letter{at: c.now.Add(time.Duration(c.rng.IntN(gossipDelay+1)) * tick), from: m, to: peer,
			word: word{version: m.version, carrier: m.carrier, claims: maps.Clone(m.claims), left: !m.alive}})
	}
}

// view is what a machine knows.
func (c *cluster) view(m *machine) View {
	v := View{Self: m.name, Departing: !m.departing.IsZero(), off: c.off, Quorum: Quorum{Heard: 1, Known: 1 + len(m.lost)}}
	for _, peer := range c.machines {
		if peer != m && m.living(peer.name, c.now) {
			v.Quorum.Heard++
			v.Quorum.Known++
		}
	}
	if v.Quorum.Wire = Unanswered; slices.ContainsFunc(c.machines, func(o *machine) bool { return o != m && c.reaches(c.wire, m, o) && o.carrier && m.carrier }) {
		v.Quorum.Wire = Answered
	}
	for _, a := range c.addrs {
		address := Address{Addr: a, Epoch: m.epochs[a]}
		for _, peer := range c.machines {
			candidate := Candidate{Node: peer.name, Excluded: m.api[peer.name].excluded, Away: m.api[peer.name].away, Claim: m.claims[a]}
			carrier := m.carrier
			if peer != m {
				candidate.Claim, carrier = m.words[peer.name].claims[a], m.words[peer.name].carrier
			}
			switch {
			case peer != m && !m.living(peer.name, c.now):
				candidate.Obstacle, candidate.Claim = Silent, Claim{}
			case !carrier:
				candidate.Obstacle = NoInterface
			case !m.api[peer.name].endpoint:
				candidate.Obstacle = NoEndpoint
			}
			address.Candidates = append(address.Candidates, candidate)
		}
		c.rng.Shuffle(len(address.Candidates), func(i, j int) {
			address.Candidates[i], address.Candidates[j] = address.Candidates[j], address.Candidates[i]
		})
		address.Fence = c.fence(m, address)
		v.Addresses = append(v.Addresses, address)
	}
	return v
}

// fence asks the wire while a machine is taking an address over.
func (c *cluster) fence(m *machine, address Address) Fence {
	a := address.Addr
	q, is := m.taking[a]
	if !is {
		return Asking
	}
	if m.claims[a].Stage == Taking && q.Due(c.now, address.Offered()) {
		for _, o := range c.machines {
			if o == m || !o.alive || !o.carrier || !m.carrier || !c.reaches(c.wire, m, o) {
				continue
			}
			if o.answers(a) {
				as := Stranger
				if m.living(o.name, c.now) {
					as = Speaker
				}
				q.Heard(Occupant{As: as})
			}
			if theirs, asks := o.taking[a]; asks && o.claims[a].Stage == Taking && !o.living(m.name, c.now) && m.name > o.name {
				theirs.Heard(Occupant{As: Contender})
			}
		}
		if c.foreign[a] {
			q.Heard(Occupant{As: Stranger})
		}
	}
	answer, _ := q.Answer(c.now, address.Offered())
	return answer
}

// decide lets a machine decide, and act on it.
func (c *cluster) decide(m *machine) {
	if !c.noAPI && c.rng.IntN(20) == 0 {
		m.api = maps.Clone(c.truth)
	}
	v := c.view(m)
	changed := false
	for i, d := range Decide(v) {
		a := c.addrs[i]
		before := m.claims[a]
		if d.Claim == before {
			continue
		}
		changed, c.changed = true, c.now
		c.note("%s on %s: %v → %v, %s %s", m.name, a, before, d.Claim, d.Reason, d.Node)
		c.checkBegin(m, a, before, d.Claim, v.Quorum)
		if m.claims[a] = d.Claim; d.Claim.Stage == None {
			delete(m.claims, a)
		}
		m.epochs[a] = max(m.epochs[a], d.Claim.Epoch)
		switch {
		case d.Claim.Stage == Taking && m.taking[a] == nil:
			m.taking[a] = &Question{}
		case d.Claim.Stage != Taking && v.Addresses[i].Fence != Occupied:
			delete(m.taking, a)
		}
	}
	if changed {
		m.version++
		m.told = time.Time{}
	}
	if !m.departing.IsZero() && (len(m.claims) == 0 || c.now.Sub(m.departing) >= departTime) {
		c.note("%s leaves", m.name)
		if len(m.claims) > 0 {
			c.disturbed = c.now
		}
		m.alive = false
		m.version++
		m.told = time.Time{}
		c.tell(m)
	}
}
