package membership

import (
	"maps"
	"net/netip"
	"time"
)

// Stage is how far a claim is. The numbers are what members send each other.
type Stage uint8

// The stages.
const (
	// Taking: the node wants to take the address over and does not answer for it yet.
	Taking Stage = 1
	// Held: the node answers for it.
	Held Stage = 2
	// Offered: the node answers for it until another has taken it over.
	Offered Stage = 3
)

// gone is the stage of a claim that was given up.
const gone Stage = 0

// Claim is a node's word that an address is its own.
type Claim struct {
	// Epoch is the higher the later the address was taken over.
	Epoch uint64
	Stage Stage
}

// entry is a claim and the number of the change that made it so. Numbers grow for as long as the speaker that claims runs.
type entry struct {
	Claim
	seq uint64
}

// record is what is known of one node. Of its claims it is a state-based CRDT: what was heard decides, and not in which order, nor how often
// (Shapiro et al., "Conflict-free Replicated Data Types", 2011).
type record struct {
	// incarnation is the speaker's whose claims are known.
	incarnation uint64
	// known are its claims, and those that it gave up after the floor: an older message that comes late would bring those back.
	known map[netip.Addr]entry
	// floor is the change up to which everything is known. What is not in known was not claimed then.
	floor uint64
	// older are the claims of an earlier incarnation about which this one has not spoken yet.
	older map[netip.Addr]Claim
	// until is when the claims of an earlier incarnation are dropped, if the speaker that runs now does not say before what it claims.
	until time.Time
	hold  hold
	// left means that it said that it goes.
	left bool

	living bool
	// ended means that it was alive, is no more, and is not held.
	ended bool
	// lost means that it ended without a word.
	lost bool
	// at is where it is reached, and meta what it says of itself besides its claims: segments, and the incarnation that speaks.
	at        netip.AddrPort
	meta      []byte
	segments  []Segment
	announced uint64
	// answered is when it answered this speaker's question last whether it lives.
	answered time.Time
}

// hold is a node's wish that what it claims is kept while its speaker restarts.
type hold struct {
	// seq is the change with which it was told. 0: by an earlier incarnation.
	seq    uint64
	until  time.Time
	active bool
}

// visible says whether the node is a member.
func (r *record) visible() bool { return r.living || r.hold.active }

// spoken says whether anything of what this incarnation claims is known.
func (r *record) spoken() bool { return r.floor > 0 || len(r.known) > 0 }

// claims returns what the node claims.
func (r *record) claims() map[netip.Addr]Claim {
	if len(r.older)+len(r.known) == 0 {
		return nil
	}
	claims := maps.Clone(r.older)
	if claims == nil {
		claims = map[netip.Addr]Claim{}
	}
	for addr, e := range r.known {
		if e.Stage != gone {
			claims[addr] = e.Claim
		}
	}
	return claims
}

// merge takes in what a message says, and says whether that is news.
func (r *record) merge(m message, now time.Time) bool {
	if m.incarnation < r.incarnation {
		return false
	}
	news := m.incarnation > r.incarnation
	if news {
		r.succeed(m.incarnation, now)
	}
	for addr, e := range m.entries {
		news = r.learn(addr, e) || news
	}
	if m.ranged() {
		news = r.sweep(m) || news
	}
	if m.left && !r.left {
		r.left, r.lost, news = true, false, true
	}
	if m.hold.seq > r.hold.seq {
		r.keep(m.hold, now)
		news = true
	}
	r.settle()
	return news
}

// succeed begins the record of a newer incarnation. What the older claimed is kept until the newer one has spoken of it.
func (r *record) succeed(incarnation uint64, now time.Time) {
	older := map[netip.Addr]Claim(nil)
	if r.visible() {
		older = r.claims()
	}
	r.expect(now)
	r.incarnation, r.known, r.floor, r.older, r.left = incarnation, nil, 0, older, false
	r.hold.seq = 0
}

// expect sets the time until which a newer incarnation has to speak, if it does not run already.
func (r *record) expect(now time.Time) {
	switch {
	case !r.until.IsZero():
	case r.hold.active:
		r.until = r.hold.until
	default:
		r.until = now.Add(resumeWithin)
	}
}

// learn takes in one claim, unless it is older than what is known of the address.
func (r *record) learn(addr netip.Addr, e entry) bool {
	if known, ok := r.known[addr]; ok && e.seq <= known.seq || !ok && e.seq <= r.floor {
		return false
	}
	if r.known == nil {
		r.known = map[netip.Addr]entry{}
	}
	r.known[addr] = e
	delete(r.older, addr)
	return true
}

// sweep removes the claims that a message, which lists all of a range of addresses, does not list.
func (r *record) sweep(m message) (news bool) {
	for addr := range r.older {
		if m.covers(addr) {
			delete(r.older, addr)
			news = true
		}
	}
	for addr, e := range r.known {
		if _, listed := m.entries[addr]; !listed && m.covers(addr) && e.seq <= m.asOf {
			delete(r.known, addr)
			news = news || e.Stage != gone
		}
	}
	if !m.whole() || m.asOf <= r.floor {
		return news
	}
	r.floor = m.asOf
	maps.DeleteFunc(r.known, func(_ netip.Addr, e entry) bool { return e.Stage == gone && e.seq <= r.floor })
	return true
}

// keep begins a hold. Who is not alive any more is a member again for its time.
func (r *record) keep(h holding, now time.Time) {
	r.hold = hold{seq: h.seq, until: now.Add(h.left), active: h.left > 0}
	if !r.until.IsZero() && r.until.Before(r.hold.until) {
		r.until = r.hold.until
	}
	if r.living || !r.hold.active {
		return
	}
	r.ended, r.lost = false, false
	if len(h.meta) > 0 {
		r.meta, r.segments = h.meta, decode(h.meta)
	}
}

// settle ends what waits for a newer incarnation once that lives and has spoken.
func (r *record) settle() {
	if r.living && r.announced <= r.incarnation && r.hold.seq == 0 {
		r.hold.active = false
	}
	if r.announced <= r.incarnation && len(r.older) == 0 {
		r.until = time.Time{}
	}
}

// heard takes in that the node is alive, and what it says of itself.
func (r *record) heard(meta []byte, at netip.AddrPort, now time.Time) {
	ended := r.ended
	r.living, r.ended, r.lost = true, false, false
	r.at, r.meta, r.segments, r.announced = at, meta, decode(meta), incarnationOf(meta)
	if r.announced > r.incarnation {
		if ended {
			r.adopt() // its death was noticed: nothing was kept
		} else {
			r.expect(now)
		}
	}
	r.settle()
}

// adopt begins the record of the incarnation that was announced, with nothing of the older ones.
func (r *record) adopt() {
	r.incarnation, r.known, r.floor, r.older, r.left = r.announced, nil, 0, nil, false
	r.hold, r.until = hold{}, time.Time{}
}

// unheard takes in that the node is not alive any more.
func (r *record) unheard() {
	r.living = false
	if !r.hold.active {
		r.end()
	}
}

// end is when a node that does not live is not a member any more. Its claims are not forgotten, only out of sight: memberlist may have been
// wrong about it, and then it is back at once.
func (r *record) end() {
	r.ended, r.lost = true, !r.left
	r.older, r.until = nil, time.Time{}
}

// expire ends what has a time, and says whether anything did.
func (r *record) expire(now time.Time) (changed bool) {
	if r.hold.active && !now.Before(r.hold.until) {
		r.hold.active = false
		if !r.living {
			r.end()
			changed = true
		}
	}
	if !r.until.IsZero() && !now.Before(r.until) {
		changed = changed || len(r.older)+len(r.known) > 0
		r.older, r.until = nil, time.Time{}
		if r.announced > r.incarnation {
			r.adopt()
		}
	}
	return changed
}

// next is when expire has something to do. Zero: never.
func (r *record) next() time.Time {
	if r.hold.active && (r.until.IsZero() || r.hold.until.Before(r.until)) {
		return r.hold.until
	}
	return r.until
}
