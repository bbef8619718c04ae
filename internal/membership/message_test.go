package membership

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// compareAll compares what has fields that are not exported.
var compareAll = cmp.Options{
	cmp.AllowUnexported(message{}, holding{}, entry{}, reader{}),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), comparePrefix,
}

func ip(text string) netip.Addr { return netip.MustParseAddr(text) }

// held is a claim of an epoch that was made with a change.
func held(epoch, seq uint64) entry { return entry{Claim: Claim{Epoch: epoch, Stage: Held}, seq: seq} }

// given is a claim of an epoch that was given up with a change.
func given(epoch, seq uint64) entry { return entry{Claim: Claim{Epoch: epoch, Stage: gone}, seq: seq} }

// messages are one of each kind, by what they say.
var messages = map[string]message{
	"a claim and one that was given up": {node: "a", incarnation: 7, entries: map[netip.Addr]entry{
		ip("10.0.0.1"): held(3, 2), ip("fd00::1"): given(math.MaxUint64, 300),
	}},
	"all that is claimed": {
		node: "a", incarnation: math.MaxUint64, first: firstAddr, last: lastAddr, asOf: 9, entries: map[netip.Addr]entry{ip("10.0.0.1"): held(3, 2)},
	},
	"that nothing is claimed": {node: "a", incarnation: 7, first: firstAddr, last: lastAddr, asOf: 1, entries: map[netip.Addr]entry{}},
	"that the speaker leaves": {node: "a", incarnation: 7, left: true, entries: map[netip.Addr]entry{}},
	"that the speaker is held": {
		node: "a", incarnation: 7, hold: holding{seq: 3, left: 90 * time.Second, meta: []byte("eth0=10.0.0.0/8")}, entries: map[netip.Addr]entry{},
	},
	"which epochs there were": {entries: map[netip.Addr]entry{ip("10.0.0.1"): {Claim: Claim{Epoch: 12}}}},
}

func TestAMessageIsReadAsItWasWritten(t *testing.T) {
	for name, want := range messages {
		t.Run(name, func(t *testing.T) {
			got, ok := parse(want.encode())
			if diff := cmp.Diff(want, got, compareAll); diff != "" || !ok {
				t.Errorf("read: %t (-want +got):\n%s", ok, diff)
			}
		})
	}
}

// TestWhatANewerSpeakerAdds is passed over: behind an entry, behind the message, as a stage, and as another version.
func TestWhatANewerSpeakerAdds(t *testing.T) {
	head := message{node: "a", incarnation: 7}.header()
	known := appendBytes(nil, ip("10.0.0.1").AsSlice())
	for name, tc := range map[string]struct {
		text []byte
		want message
		ok   bool
	}{
		"behind an entry and behind the message": {
			text: append(appendBytes(append(head, 1), append(known, byte(Held), 3, 2, 99, 99)), 99),
			want: message{node: "a", incarnation: 7, entries: map[netip.Addr]entry{ip("10.0.0.1"): held(3, 2)}}, ok: true,
		},
		"another stage": {
			text: appendBytes(append(head, 1), append(known, 4, 3, 2)),
			want: message{node: "a", incarnation: 7, entries: map[netip.Addr]entry{}}, ok: true,
		},
		"another version": {text: append([]byte{messageVersion + 1}, head[1:]...)},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := parse(tc.text)
			if diff := cmp.Diff(tc.want, got, compareAll); diff != "" || ok != tc.ok {
				t.Errorf("read: %t (-want +got):\n%s", ok, diff)
			}
		})
	}
}

// TestAMessageIsSplit into such as gossip carries, which say together what the one says.
func TestAMessageIsSplit(t *testing.T) {
	many := map[netip.Addr]entry{ip("::"): held(1, 1), lastAddr: held(1, 1)}
	for i := range 1000 {
		many[netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})] = held(uint64(i)<<20, 1)
		many[netip.AddrFrom16([16]byte{0xfd, 14: byte(i >> 8), 15: byte(i)})] = held(uint64(i)<<40, 1)
	}
	whole := message{node: "node-with-a-name", incarnation: 1 << 60, first: firstAddr, last: lastAddr, asOf: 1, entries: many}
	for name, m := range map[string]message{
		"changes": {node: whole.node, incarnation: whole.incarnation, entries: many},
		"all":     whole,
		"nothing": {node: whole.node, first: firstAddr, last: lastAddr, asOf: 1},
	} {
		t.Run(name, func(t *testing.T) {
			together := m.part(m.first)
			next := m.first
			for _, part := range m.split() {
				if n := len(part.encode()); n > messageLimit {
					t.Errorf("a part has %d bytes, more than %d", n, messageLimit)
				}
				if m.ranged() && part.first != next {
					t.Errorf("a part begins at %s, want %s, where the one before ends", part.first, next)
				}
				if next = part.last.Next(); part.last == ip("255.255.255.255") {
					next = ip("::")
				}
				for addr, e := range part.entries {
					if m.ranged() && !part.covers(addr) {
						t.Errorf("the part from %s to %s lists %s", part.first, part.last, addr)
					}
					together.entries[addr] = e
				}
			}
			if diff := cmp.Diff(m, together, compareAll, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the parts together (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzMessage: whatever is received is read without panic, and what was read is the same when it is told on.
func FuzzMessage(f *testing.F) {
	for _, m := range messages {
		f.Add(m.encode())
	}
	f.Add(encodeAll([]message{messages["all that is claimed"], messages["which epochs there were"]}))
	f.Fuzz(func(t *testing.T, buf []byte) {
		for _, m := range append(parseAll(buf), one(parse(buf))...) {
			again, ok := parse(m.encode())
			if diff := cmp.Diff(m, again, compareAll); diff != "" || !ok {
				t.Errorf("told on: %t (-first +second):\n%s", ok, diff)
			}
			v := newView("a", 7)
			v.merge(m, time.Unix(0, 0))
			v.merge(m, time.Unix(0, 0))
			v.expire(v.next())
		}
	})
}

// one is a message if it could be read.
func one(m message, ok bool) []message {
	if !ok {
		return nil
	}
	return []message{m}
}
