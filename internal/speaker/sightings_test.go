package speaker

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/internal/responder"
)

// TestSightingsWaitForAPass: those that say something of what this node claims, each once, and only they wake the loop.
func TestSightingsWaitForAPass(t *testing.T) {
	claimed, other := netip.MustParseAddr("192.168.1.200"), netip.MustParseAddr("192.168.1.201")
	answer := responder.Sighting{Addr: claimed, MAC: responder.MAC{2, 9}, Kind: responder.Claimed}
	probe := responder.Sighting{Addr: claimed, MAC: responder.MAC{2, 9}, Kind: responder.Probed}
	foreign := responder.Sighting{Addr: other, MAC: responder.MAC{2, 9}, Kind: responder.Claimed}
	dirty := make(chan struct{}, 1)
	s := &sightings{wake: dirty, waiting: map[responder.Sighting]bool{}}
	for _, step := range []struct {
		what  string
		about []netip.Addr // what is claimed from now on
		notes []responder.Sighting
		woken bool
		take  bool
		want  map[responder.Sighting]bool
	}{
		{what: "nothing is claimed yet", notes: []responder.Sighting{answer, probe, foreign}},
		{what: "it claims an address: what is said of that one wakes the loop", about: addrs("192.168.1.200"),
			notes: []responder.Sighting{foreign, answer}, woken: true},
		{what: "the same again is known", notes: []responder.Sighting{answer, answer}},
		{what: "the same host says something else, which is news", notes: []responder.Sighting{probe}, woken: true},
		{what: "a pass takes both", take: true, want: map[responder.Sighting]bool{answer: true, probe: true}},
		{what: "and leaves none", take: true, want: map[responder.Sighting]bool{}},
		{what: "what was taken is news when it comes again", notes: []responder.Sighting{answer}, woken: true},
		{what: "it claims another instead: that one counts from now on", about: addrs("192.168.1.201"),
			notes: []responder.Sighting{probe, foreign}, woken: true},
		{what: "a pass takes what was said by now", take: true, want: map[responder.Sighting]bool{answer: true, foreign: true}},
		{what: "it claims nothing any more", about: []netip.Addr{}, notes: []responder.Sighting{answer, foreign}},
		{what: "nothing was kept", take: true, want: map[responder.Sighting]bool{}},
	} {
		if step.about != nil {
			claims := map[netip.Addr]bool{}
			for _, addr := range step.about {
				claims[addr] = true
			}
			s.about(claims)
		}
		for _, sighting := range step.notes {
			s.note(sighting)
		}
		woken := len(dirty) > 0
		if woken != step.woken {
			t.Errorf("%s: the loop is woken: %v, want %v", step.what, woken, step.woken)
		}
		if woken {
			<-dirty
		}
		if step.take {
			if diff := cmp.Diff(step.want, s.take(), compareValues); diff != "" {
				t.Errorf("%s: taken (-want +got):\n%s", step.what, diff)
			}
		}
	}
}

// TestAStormOfSightingsIsBounded: any host on the LAN can forge hardware addresses. A pass makes room for new ones; and who notes them never
// waits for the loop, which here does not come.
func TestAStormOfSightingsIsBounded(t *testing.T) {
	addr := netip.MustParseAddr("192.168.1.200")
	s := &sightings{wake: make(chan struct{}), waiting: map[responder.Sighting]bool{}, claimed: map[netip.Addr]bool{addr: true}}
	storm := func(from byte) {
		for i := range sightingsKept + 100 {
			s.note(responder.Sighting{Addr: addr, MAC: responder.MAC{2, from, 0, 0, byte(i >> 8), byte(i)}, Kind: responder.Claimed})
		}
	}
	for storms := range 2 {
		storm(byte(storms))
		if kept := len(s.take()); kept != sightingsKept {
			t.Errorf("storm %d: %d sightings are kept, want %d", storms, kept, sightingsKept)
		}
	}
}
