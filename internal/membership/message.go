package membership

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// messageVersion is the version that a reader has to know. What a later one adds to it comes behind what there is, in an entry and in the
// message, where this one does not look; one that changes what there is has another number, and is passed over as a whole.
const messageVersion = 1

// messageLimit is how long a message may be, in bytes, that is to be carried by gossip: it shares one UDP packet of 1,400 bytes, which fits
// Ethernet, with memberlist's own.
const messageLimit = 1100

// What a message has besides its entries, as bits.
const (
	hasRange = 1 << iota
	hasLeft
	hasHold
)

// The ends of all addresses. netip orders IPv4 before IPv6.
var (
	firstAddr = netip.IPv4Unspecified()
	lastAddr  = netip.AddrFrom16([16]byte{
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	})
)

// message is what one incarnation of a node's speaker says of what it claims, whoever passes it on.
type message struct {
	// node is empty in a message that only says which epochs there were.
	node        string
	incarnation uint64
	// first and last, if valid, are the addresses between which the entries are all that was claimed as of a change.
	first, last netip.Addr
	asOf        uint64
	left        bool
	hold        holding
	entries     map[netip.Addr]entry
}

// holding is a hold as it is told: how much of its time is left, for clocks differ, and what the node said of itself. seq 0: there is none.
type holding struct {
	seq  uint64
	left time.Duration
	meta []byte
}

// ranged says whether the message lists all of a range.
func (m message) ranged() bool { return m.first.IsValid() }

// covers says whether an address is in the range.
func (m message) covers(addr netip.Addr) bool {
	return m.first.Compare(addr) <= 0 && addr.Compare(m.last) <= 0
}

// whole says whether the range is that of all addresses.
func (m message) whole() bool { return m.first == firstAddr && m.last == lastAddr }

// encode writes a message, as long as it gets.
func (m message) encode() []byte {
	b := m.header()
	addrs := sorted(m.entries)
	b = binary.AppendUvarint(b, uint64(len(addrs)))
	for _, addr := range addrs {
		b = append(b, encodeEntry(addr, m.entries[addr])...)
	}
	return b
}

// header writes what comes before the entries.
func (m message) header() []byte {
	flags := byte(0)
	if m.ranged() {
		flags |= hasRange
	}
	if m.left {
		flags |= hasLeft
	}
	if m.hold.seq > 0 {
		flags |= hasHold
	}
	b := appendBytes([]byte{messageVersion, flags}, []byte(m.node))
	b = binary.AppendUvarint(b, m.incarnation)
	if m.ranged() {
		b = appendBytes(appendBytes(b, m.first.AsSlice()), m.last.AsSlice())
		b = binary.AppendUvarint(b, m.asOf)
	}
	if m.hold.seq > 0 {
		b = binary.AppendUvarint(b, m.hold.seq)
		b = binary.AppendUvarint(b, uint64(m.hold.left/time.Millisecond)) //nolint:gosec // what is left is not negative
		b = appendBytes(b, m.hold.meta)
	}
	return b
}

// encodeEntry writes one claim behind its length.
func encodeEntry(addr netip.Addr, e entry) []byte {
	b := appendBytes(nil, addr.AsSlice())
	b = append(b, byte(e.Stage))
	b = binary.AppendUvarint(b, e.Epoch)
	b = binary.AppendUvarint(b, e.seq)
	return appendBytes(nil, b)
}

func appendBytes(b, field []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(field))), field...)
}

// split divides a message into such as gossip carries. Each says all of its own part of the range, so that each can be understood alone.
func (m message) split() []message {
	parts := []message{m.part(m.first)}
	const count = binary.MaxVarintLen16 // there are fewer entries than that in a message
	size := len(m.header()) + count
	free := messageLimit - size
	for _, addr := range sorted(m.entries) {
		length := len(encodeEntry(addr, m.entries[addr]))
		last := &parts[len(parts)-1]
		if free < length && len(last.entries) > 0 {
			next := m.part(addr)
			if m.ranged() {
				last.last = before(addr)
			}
			// The ends of the range may be longer than those of the whole.
			free = messageLimit - size - 2*(16-4)
			parts = append(parts, next)
			last = &parts[len(parts)-1]
		}
		last.entries[addr] = m.entries[addr]
		free -= length
	}
	return parts
}

// before is the address before one that is not the first.
func before(addr netip.Addr) netip.Addr {
	if prev := addr.Prev(); prev.IsValid() {
		return prev
	}
	return netip.AddrFrom4([4]byte{255, 255, 255, 255}) // the one before the first of IPv6
}

// part is the message without entries, for the range from an address on.
func (m message) part(first netip.Addr) message {
	m.entries = map[netip.Addr]entry{}
	if m.ranged() {
		m.first = first
	}
	return m
}

func sorted(entries map[netip.Addr]entry) []netip.Addr {
	return slices.SortedFunc(maps.Keys(entries), netip.Addr.Compare)
}

// reader reads a message. Once something is missing, everything is, and it says so.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.failed = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.rest, r.failed = nil, true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.rest, r.failed = nil, true
		return nil
	}
	field := r.rest[:n]
	r.rest = r.rest[n:]
	return field
}

func (r *reader) addr() netip.Addr {
	addr, ok := netip.AddrFromSlice(r.bytes())
	if !ok {
		r.failed = true
	}
	return addr
}

// parse reads what encode wrote. It keeps nothing of the buffer. Not ok: it is no message, or one that only a newer speaker understands.
func parse(buf []byte) (m message, ok bool) {
	r := &reader{rest: buf}
	if r.byte() != messageVersion {
		return message{}, false
	}
	flags := r.byte()
	m = message{node: string(r.bytes()), incarnation: r.uvarint(), left: flags&hasLeft != 0, entries: map[netip.Addr]entry{}}
	if flags&hasRange != 0 {
		m.first, m.last, m.asOf = r.addr(), r.addr(), r.uvarint()
	}
	if flags&hasHold != 0 {
		m.hold = holding{seq: r.uvarint(), left: milliseconds(r.uvarint()), meta: slices.Clone(r.bytes())}
	}
	if m.hold.seq == 0 {
		m.hold = holding{}
	}
	for count := r.uvarint(); count > 0 && !r.failed; count-- {
		part := &reader{rest: r.bytes()}
		addr, e := part.addr(), entry{Claim: Claim{Stage: Stage(part.byte()), Epoch: part.uvarint()}, seq: part.uvarint()}
		r.failed = r.failed || part.failed
		if e.Stage <= Offered { // a newer speaker's stage says nothing to this one
			m.entries[addr] = e
		}
	}
	return m, !r.failed
}

// longestHold bounds what another asks for, so that times can be added to it.
const longestHold = time.Hour

func milliseconds(n uint64) time.Duration {
	if n > uint64(longestHold/time.Millisecond) {
		return longestHold
	}
	return time.Duration(n) * time.Millisecond
}

// encodeAll writes messages for a push/pull exchange, each behind its length.
func encodeAll(messages []message) []byte {
	var b []byte
	for _, m := range messages {
		b = appendBytes(b, m.encode())
	}
	return b
}

// parseAll reads what encodeAll wrote, as far as it can.
func parseAll(buf []byte) []message {
	var messages []message
	for r := (&reader{rest: buf}); len(r.rest) > 0; {
		if m, ok := parse(r.bytes()); ok {
			messages = append(messages, m)
		}
	}
	return messages
}
