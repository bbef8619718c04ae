package membership

import (
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"
)

// resumeWithin is how long the claims of a speaker that restarted unnoticed are kept for it: it has to read what its node is to do first.
const resumeWithin = 8 * time.Second

// epochLimit is how many epochs are remembered. Then those of addresses that nobody claims are forgotten: nobody can be behind there.
const epochLimit = 16384

// Member is a speaker that lives, or that is held over its restart.
type Member struct {
	Segments []Segment
	Claims   map[netip.Addr]Claim
}

// view is what this speaker knows of all. It has no clock and no lock.
type view struct {
	self    string
	records map[string]*record
	// former is what the others keep of an earlier incarnation of this speaker, until it has said itself what it claims.
	former record
	told   bool
	epochs map[netip.Addr]uint64
}

func newView(self string, incarnation uint64) *view {
	return &view{
		self: self, records: map[string]*record{self: {incarnation: incarnation}},
		former: record{living: true}, epochs: map[netip.Addr]uint64{},
	}
}

// own is what this speaker says of itself.
func (v *view) own() *record { return v.records[v.self] }

func (v *view) record(node string) *record {
	r, ok := v.records[node]
	if !ok {
		r = &record{}
		v.records[node] = r
	}
	return r
}

// effect is what a message did.
type effect struct {
	// changed means that something is known now that was not.
	changed bool
	// news means that it is to be told on.
	news bool
	// raised means that this speaker's incarnation had to be raised: the node's clock was set back between two starts, and the others would
	// not believe what it says.
	raised bool
}

// merge takes in a message.
func (v *view) merge(m message, now time.Time) (e effect) {
	for addr, c := range m.entries {
		e.changed = v.remember(addr, c.Epoch) || e.changed
	}
	switch own := v.own(); {
	case m.node == "":
	case m.node != v.self:
		e.news = v.record(m.node).merge(m, now)
		e.changed = e.changed || e.news
	case m.incarnation != own.incarnation: // else nobody knows better
		if e.raised = m.incarnation > own.incarnation && m.incarnation < math.MaxUint64; e.raised {
			own.incarnation = m.incarnation + 1
		}
		if !v.told {
			e.changed = v.former.merge(m, now) || e.changed
		}
	}
	return e
}

// remember keeps the highest epoch of an address, and says whether this one is.
func (v *view) remember(addr netip.Addr, epoch uint64) bool {
	if known, ok := v.epochs[addr]; ok && known >= epoch {
		return false
	}
	v.epochs[addr] = epoch
	if len(v.epochs) <= epochLimit {
		return true
	}
	claimed := map[netip.Addr]bool{addr: true}
	for _, r := range v.records {
		for a := range r.claims() {
			claimed[a] = true
		}
	}
	maps.DeleteFunc(v.epochs, func(a netip.Addr, _ uint64) bool { return !claimed[a] })
	return true
}

// claim replaces what this speaker claims, and returns what is to be told of it.
func (v *view) claim(claims map[netip.Addr]Claim) []message {
	own := v.own()
	next := own.floor + 1
	changes := map[netip.Addr]entry{}
	for addr, c := range claims {
		if own.known[addr].Claim != c && addr.IsValid() && addr.Zone() == "" { // others cannot be written
			changes[addr] = entry{Claim: c, seq: next}
		}
	}
	for addr, e := range own.known {
		if _, still := claims[addr]; !still {
			changes[addr] = entry{Claim: Claim{Epoch: e.Epoch, Stage: gone}, seq: next}
		}
	}
	if v.told && len(changes) == 0 {
		return nil
	}
	first := !v.told
	v.told, own.floor = true, next
	if own.known == nil {
		own.known = map[netip.Addr]entry{}
	}
	for addr, e := range changes {
		v.remember(addr, e.Epoch)
		own.known[addr] = e
	}
	// Who asks is told all that there is, so that what is not there need not be said.
	maps.DeleteFunc(own.known, func(_ netip.Addr, e entry) bool { return e.Stage == gone })
	if first {
		return v.tell(v.self, own, time.Time{}).split()
	}
	return message{node: v.self, incarnation: own.incarnation, entries: changes}.split()
}

// tell is all that is known of what a node claims.
func (v *view) tell(node string, r *record, now time.Time) message {
	m := message{node: node, incarnation: r.incarnation, left: r.left, entries: maps.Clone(r.known)}
	if r.floor > 0 {
		m.first, m.last, m.asOf = firstAddr, lastAddr, r.floor
	}
	if r.hold.active && r.hold.seq > 0 {
		m.hold = holding{seq: r.hold.seq, left: max(r.hold.until.Sub(now), 0), meta: r.meta}
	}
	return m
}

// tellAll is what another learns of everybody. Who joins also learns which epochs there were.
func (v *view) tellAll(join bool, now time.Time) []message {
	var messages []message
	for _, node := range slices.Sorted(maps.Keys(v.records)) {
		switch r := v.records[node]; {
		case r.visible() && r.spoken():
			messages = append(messages, v.tell(node, r, now))
		case !r.visible() && r.left:
			messages = append(messages, message{node: node, incarnation: r.incarnation, left: true})
		}
	}
	if !join {
		return messages
	}
	epochs := message{entries: map[netip.Addr]entry{}}
	for addr, epoch := range v.epochs {
		epochs.entries[addr] = entry{Claim: Claim{Epoch: epoch}}
	}
	return append(messages, epochs)
}

// hold is the message that asks the others to keep what this speaker claims. One that has not said yet what it claims asks for what they
// keep for it already.
func (v *view) hold(d time.Duration, now time.Time) message {
	if !v.told {
		v.claim(v.former.claims())
	}
	own := v.own()
	own.floor++
	own.hold = hold{seq: own.floor, until: now.Add(d), active: true}
	return v.tell(v.self, own, now)
}

// leave is the message that says that this speaker goes for good. One that has asked to be held comes back, and does not say so.
func (v *view) leave() (m message, said bool) {
	own := v.own()
	if own.hold.active {
		return message{}, false
	}
	own.left = true
	return message{node: v.self, incarnation: own.incarnation, left: true}, true
}

// expire ends what has a time, and says whether anything did.
func (v *view) expire(now time.Time) (changed bool) {
	for _, r := range v.records {
		changed = r.expire(now) || changed
	}
	return changed
}

// next is when expire has something to do. Zero: never.
func (v *view) next() time.Time {
	var next time.Time
	for _, r := range v.records {
		if t := r.next(); !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

func (v *view) members() map[string]Member {
	members := map[string]Member{}
	for node, r := range v.records {
		if r.visible() {
			members[node] = Member{Segments: r.segments, Claims: r.claims()}
		}
	}
	return members
}

// living counts the members that live.
func (v *view) living() int {
	n := 0
	for _, r := range v.records {
		if r.living {
			n++
		}
	}
	return n
}

// lost returns the names of those that ended without a word.
func (v *view) lost() []string {
	var lost []string
	for node, r := range v.records {
		if r.lost && node != v.self {
			lost = append(lost, node)
		}
	}
	slices.Sort(lost)
	return lost
}

// forget removes what is known of nodes that are no members and are not to be kept.
func (v *view) forget(keep func(node string) bool) {
	maps.DeleteFunc(v.records, func(node string, r *record) bool { return node != v.self && !r.visible() && !keep(node) })
}
