package membership

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// start is when the tests of the rules begin.
var start = time.Unix(1_000_000, 0)

// x, y and z are addresses that are claimed.
var x, y, z = ip("10.0.0.1"), ip("10.0.0.2"), ip("fd00::3")

// change is a message of a that says that some claims changed, and all one that says that these are all.
func change(incarnation uint64, entries map[netip.Addr]entry) message {
	return message{node: "a", incarnation: incarnation, entries: entries}
}

func all(incarnation, asOf uint64, entries map[netip.Addr]entry) message {
	return message{node: "a", incarnation: incarnation, first: firstAddr, last: lastAddr, asOf: asOf, entries: entries}
}

// event is what happens to what b knows of a, some time after the start.
type event struct {
	after time.Duration
	// Either a message comes, or memberlist says that an incarnation lives, or that a does not.
	message   *message
	alive     uint64
	notAlive  bool
	forgotten bool
}

func comes(m message) event { return event{message: &m} }

func lives(incarnation uint64) event { return event{alive: incarnation} }

func (e event) at(after time.Duration) event {
	e.after = after
	return e
}

var (
	dies    = event{notAlive: true}
	passes  = event{}
	forgets = event{forgotten: true}
)

// happen lets events happen.
func happen(v *view, events []event) {
	for _, e := range events {
		now := start.Add(e.after)
		v.expire(now)
		switch {
		case e.message != nil:
			v.merge(*e.message, now)
		case e.alive > 0:
			v.record("a").heard(introduce(e.alive, []byte(fmt.Sprintf("eth%d=10.0.0.0/24", e.alive))), netip.AddrPort{}, now)
		case e.notAlive:
			v.record("a").unheard()
		case e.forgotten:
			v.forget(func(string) bool { return false })
		}
	}
}

// The incarnations of a.
const (
	first  = 1
	second = 2
)

// What a says in them: that it claims two addresses, that it does and is to be held, that it leaves, and which of them it resumes.
var (
	xAndY  = all(first, 1, map[netip.Addr]entry{x: held(3, 1), y: held(4, 1)})
	held60 = message{
		node: "a", incarnation: first, first: firstAddr, last: lastAddr, asOf: 2, entries: xAndY.entries,
		hold: holding{seq: 2, left: time.Minute, meta: introduce(first, []byte("eth1=10.0.0.0/24"))},
	}
	says    = message{node: "a", incarnation: first, left: true}
	resumed = all(second, 1, map[netip.Addr]entry{x: held(3, 1)})
)

// segments are what an incarnation says that it serves.
func segments(incarnation int) []Segment {
	return []Segment{on(fmt.Sprintf("eth%d", incarnation), "10.0.0.0/24")}
}

// claims are those of addresses that are held with these epochs.
func claims(epochs map[netip.Addr]uint64) map[netip.Addr]Claim {
	c := map[netip.Addr]Claim{}
	for addr, epoch := range epochs {
		c[addr] = Claim{Epoch: epoch, Stage: Held}
	}
	return c
}

var bothClaimed = claims(map[netip.Addr]uint64{x: 3, y: 4})

// scenario is what happens, and what b knows then.
type scenario struct {
	events []event
	want   map[string]Member
	lost   []string
}

func check(t *testing.T, scenarios map[string]scenario) {
	t.Helper()
	for name, tc := range scenarios {
		t.Run(name, func(t *testing.T) {
			v := newView("b", 1)
			happen(v, tc.events)
			if diff := cmp.Diff(tc.want, v.members(), compareAll, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("members (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.lost, v.lost()); diff != "" {
				t.Errorf("lost (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClaimsAreKnown(t *testing.T) {
	check(t, map[string]scenario{
		"one that lives claims what it says": {
			events: []event{lives(first), comes(xAndY)},
			want:   map[string]Member{"a": {Segments: segments(1), Claims: bothClaimed}},
		},
		"what it claims may be known before it": {
			events: []event{comes(xAndY), lives(first)},
			want:   map[string]Member{"a": {Segments: segments(1), Claims: bothClaimed}},
		},
		"one that is not known to live is no member, whatever it claims": {
			events: []event{comes(xAndY)}, want: map[string]Member{},
		},
		"a claim that is given up is gone, and an older one does not bring it back": {
			events: []event{
				lives(first), comes(xAndY),
				comes(change(first, map[netip.Addr]entry{x: given(3, 3)})),
				comes(change(first, map[netip.Addr]entry{x: held(3, 2)})),
			},
			want: map[string]Member{"a": {Segments: segments(1), Claims: claims(map[netip.Addr]uint64{y: 4})}},
		},
		"a change from before all that was told does not count": {
			events: []event{lives(first), comes(all(first, 5, nil)), comes(change(first, map[netip.Addr]entry{x: held(3, 4)}))},
			want:   map[string]Member{"a": {Segments: segments(1)}},
		},
		"a change from after an older message that tells all counts": {
			events: []event{lives(first), comes(change(first, map[netip.Addr]entry{z: held(9, 7)})), comes(all(first, 5, nil))},
			want:   map[string]Member{"a": {Segments: segments(1), Claims: claims(map[netip.Addr]uint64{z: 9})}},
		},
	})
}

func TestWhoEnds(t *testing.T) {
	check(t, map[string]scenario{
		"one that dies is lost, and claims nothing": {
			events: []event{lives(first), comes(xAndY), dies}, want: map[string]Member{}, lost: []string{"a"},
		},
		"one that dies and was forgotten is not lost": {
			events: []event{lives(first), comes(xAndY), dies, forgets}, want: map[string]Member{},
		},
		"one that leaves is not lost": {
			events: []event{lives(first), comes(xAndY), comes(says), dies}, want: map[string]Member{},
		},
		"one that leaves is not lost, though its word comes late": {
			events: []event{lives(first), comes(xAndY), dies, comes(says)}, want: map[string]Member{},
		},
		"one that was wrongly thought to be dead is back with its claims": {
			events: []event{lives(first), comes(xAndY), dies, lives(first)},
			want:   map[string]Member{"a": {Segments: segments(1), Claims: bothClaimed}},
		},
		"one that comes back after its death was noticed claims nothing yet": {
			events: []event{lives(first), comes(xAndY), dies, lives(second)},
			want:   map[string]Member{"a": {Segments: segments(2)}},
		},
	})
}

// TestWhoIsHeld over its restart.
func TestWhoIsHeld(t *testing.T) {
	check(t, map[string]scenario{
		"one that is held is a member until its time is over": {
			events: []event{lives(first), comes(held60), dies, passes.at(time.Minute - 1)},
			want:   map[string]Member{"a": {Segments: segments(1), Claims: bothClaimed}},
		},
		"one that is held and does not come back is lost then": {
			events: []event{lives(first), comes(held60), dies, passes.at(time.Minute)}, want: map[string]Member{}, lost: []string{"a"},
		},
		"a hold that comes late makes a member of one that died": {
			events: []event{lives(first), dies, comes(held60)},
			want:   map[string]Member{"a": {Segments: segments(1), Claims: bothClaimed}},
		},
		"a hold is known to one that has never met the node": {
			events: []event{comes(held60)},
			want:   map[string]Member{"a": {Segments: segments(1), Claims: bothClaimed}},
		},
		"a hold that is told on does not last longer for it": {
			events: []event{lives(first), comes(held60), dies, comes(held60).at(time.Minute - 1), comes(held60).at(time.Minute + 1)},
			want:   map[string]Member{}, lost: []string{"a"},
		},
		"one that comes back during its hold keeps its claims, with its new segments": {
			events: []event{lives(first), comes(held60), dies, lives(second).at(time.Second), passes.at(time.Minute - 1)},
			want:   map[string]Member{"a": {Segments: segments(2), Claims: bothClaimed}},
		},
		"one that comes back during its hold and says nothing claims nothing after it": {
			events: []event{lives(first), comes(held60), dies, lives(second).at(time.Second), passes.at(time.Minute)},
			want:   map[string]Member{"a": {Segments: segments(2)}},
		},
		"one that comes back during its hold claims what it says then": {
			events: []event{lives(first), comes(held60), dies, lives(second), comes(resumed)},
			want:   map[string]Member{"a": {Segments: segments(2), Claims: claims(map[netip.Addr]uint64{x: 3})}},
		},
		"one that comes back during its hold is a member, though its word comes before it": {
			events: []event{lives(first), comes(held60), dies, comes(resumed)},
			want:   map[string]Member{"a": {Segments: segments(1), Claims: claims(map[netip.Addr]uint64{x: 3})}},
		},
		"one that came back during its hold, spoke, and dies is not held": {
			events: []event{lives(first), comes(held60), dies, comes(resumed), lives(second), dies}, want: map[string]Member{}, lost: []string{"a"},
		},
	})
}

// TestWhoRestartsUnnoticed is given time to say what it claims.
func TestWhoRestartsUnnoticed(t *testing.T) {
	check(t, map[string]scenario{
		"one that restarted unnoticed keeps its claims for a time": {
			events: []event{lives(first), comes(xAndY), lives(second), passes.at(resumeWithin - 1)},
			want:   map[string]Member{"a": {Segments: segments(2), Claims: bothClaimed}},
		},
		"one that restarted unnoticed and says nothing claims nothing after it": {
			events: []event{lives(first), comes(xAndY), lives(second), passes.at(resumeWithin)},
			want:   map[string]Member{"a": {Segments: segments(2)}},
		},
		"one that restarted unnoticed claims what it says, for good": {
			events: []event{lives(first), comes(xAndY), lives(second), comes(resumed), comes(xAndY), passes.at(time.Hour)},
			want:   map[string]Member{"a": {Segments: segments(2), Claims: claims(map[netip.Addr]uint64{x: 3})}},
		},
		"one that restarted unnoticed claims nothing if it says so": {
			events: []event{lives(first), comes(xAndY), lives(second), comes(all(second, 1, nil))},
			want:   map[string]Member{"a": {Segments: segments(2)}},
		},
		"a part of what one claims that restarted unnoticed leaves the rest as it was": {
			events: []event{lives(first), comes(xAndY), lives(second), comes(message{
				node: "a", incarnation: second, first: firstAddr, last: x, asOf: 1, entries: map[netip.Addr]entry{},
			})},
			want: map[string]Member{"a": {Segments: segments(2), Claims: claims(map[netip.Addr]uint64{y: 4})}},
		},
		"what others keep of one that restarted before this member came is known to it": {
			events: []event{lives(second), comes(xAndY)},
			want:   map[string]Member{"a": {Segments: segments(2), Claims: bothClaimed}},
		},
	})
}

// TestClaimsConverge whatever messages are lost, come twice, or come in another order, once one comes that tells all, be it from a or from
// one that has heard all of a's.
func TestClaimsConverge(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		a, relay, b := newView("a", 1), newView("r", 1), newView("b", 1)
		var sent []message
		for range 30 {
			sent = append(sent, a.claim(someClaims(random))...)
		}
		for _, v := range []*view{a, relay, b} {
			v.record("a").heard(introduce(1, nil), netip.AddrPort{}, start)
		}
		for _, m := range sent {
			relay.merge(m, start)
		}
		for range 2 * len(sent) { // some never, some twice
			b.merge(sent[random.IntN(len(sent))], start)
		}
		from := a
		if random.IntN(2) == 0 {
			from = relay
		}
		for _, m := range from.tellAll(false, start) {
			b.merge(m, start)
		}
		for range len(sent) { // those that come late change nothing
			b.merge(sent[random.IntN(len(sent))], start)
		}
		want := a.own().claims()
		if diff := cmp.Diff(want, b.members()["a"].Claims, compareAll, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("with seed %d, what b knows that a claims (-want +got):\n%s", seed, diff)
		}
	}
}

// someClaims draws claims.
func someClaims(random *rand.Rand) map[netip.Addr]Claim {
	claims := map[netip.Addr]Claim{}
	for _, addr := range []netip.Addr{x, y, z} {
		if random.IntN(2) == 0 {
			claims[addr] = Claim{Epoch: random.Uint64N(4), Stage: Taking + Stage(random.IntN(3))}
		}
	}
	return claims
}

// TestWhatIsNewIsToldOnOnce: otherwise members would tell it each other for ever.
func TestWhatIsNewIsToldOnOnce(t *testing.T) {
	for name, m := range messages {
		if m.node == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			v := newView("b", 1)
			first, second := v.merge(m, start), v.merge(m, start)
			if diff := cmp.Diff([]effect{{changed: true, news: true}, {}}, []effect{first, second}, cmp.AllowUnexported(effect{})); diff != "" {
				t.Errorf("what it does when it comes first and again (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOwnFormerClaims are what others keep, until this speaker says what it claims. What they say of it does not count for what it is.
func TestOwnFormerClaims(t *testing.T) {
	v := newView("a", 5)
	v.merge(all(3, 1, map[netip.Addr]entry{x: held(3, 1)}), start)
	v.merge(all(4, 1, map[netip.Addr]entry{y: held(4, 1)}), start)
	want := map[netip.Addr]Claim{y: {Epoch: 4, Stage: Held}}
	if diff := cmp.Diff(want, v.former.claims(), compareAll); diff != "" {
		t.Errorf("former claims (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[netip.Addr]Claim{}, v.own().claims(), compareAll, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("own claims (-want +got):\n%s", diff)
	}
}

// TestASpeakerWhoseClockWasSetBack takes an incarnation above that of its former self: the others would go by that one's word.
func TestASpeakerWhoseClockWasSetBack(t *testing.T) {
	v := newView("a", 5)
	e := v.merge(all(9, 1, map[netip.Addr]entry{x: held(3, 1)}), start)
	if diff := cmp.Diff(effect{changed: true, raised: true}, e, cmp.AllowUnexported(effect{})); diff != "" {
		t.Errorf("effect (-want +got):\n%s", diff)
	}
	if got := v.own().incarnation; got != 10 {
		t.Errorf("its incarnation is %d, want 10", got)
	}
	if diff := cmp.Diff(map[netip.Addr]Claim{x: {Epoch: 3, Stage: Held}}, v.former.claims(), compareAll); diff != "" {
		t.Errorf("former claims (-want +got):\n%s", diff)
	}
}

// TestARestartBeforeTheClaimsWereTaken up asks for what the others keep already.
func TestARestartBeforeTheClaimsWereTaken(t *testing.T) {
	v := newView("a", 5)
	kept := map[netip.Addr]entry{x: held(3, 1)}
	v.merge(all(4, 1, kept), start)
	want := all(5, 2, kept)
	want.hold = holding{seq: 2, left: time.Minute}
	if diff := cmp.Diff(want, v.hold(time.Minute, start), compareAll); diff != "" {
		t.Errorf("what it asks for (-want +got):\n%s", diff)
	}
}

// TestEpochsAreRemembered: the highest of each address, of claims that are gone as well, and not without limit.
func TestEpochsAreRemembered(t *testing.T) {
	v := newView("b", 1)
	v.claim(map[netip.Addr]Claim{z: {Epoch: 2, Stage: Taking}})
	happen(v, []event{lives(first), comes(xAndY), dies, comes(change(first, map[netip.Addr]entry{y: held(2, 2)}))})
	want := map[netip.Addr]uint64{x: 3, y: 4, z: 2}
	if diff := cmp.Diff(want, v.epochs, compareAll); diff != "" {
		t.Errorf("epochs (-want +got):\n%s", diff)
	}
	joiner := newView("c", 1)
	for _, m := range v.tellAll(true, start) {
		joiner.merge(m, start)
	}
	if diff := cmp.Diff(want, joiner.epochs, compareAll); diff != "" {
		t.Errorf("epochs that one that joins knows (-want +got):\n%s", diff)
	}
	many := message{entries: map[netip.Addr]entry{}}
	for i := range epochLimit {
		many.entries[netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)})] = held(1, 0)
	}
	v.merge(many, start)
	if len(v.epochs) > epochLimit {
		t.Errorf("%d epochs are remembered, want %d at most", len(v.epochs), epochLimit)
	}
	maps.DeleteFunc(v.epochs, func(addr netip.Addr, _ uint64) bool { _, ok := want[addr]; return !ok })
	if diff := cmp.Diff(want, v.epochs, compareAll); diff != "" {
		t.Errorf("epochs of addresses that are claimed, with many others (-want +got):\n%s", diff)
	}
}
