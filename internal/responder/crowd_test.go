package responder

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	codec "github.com/mdlayher/arp"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// questionFor is what a client asks everybody.
func questionFor(a netip.Addr) []byte {
	return arpPacket{codec.OperationRequest, theirMAC, MAC{}, netip.MustParseAddr("192.168.1.122"), a}.frame(broadcast)
}

// lets says which of the pool's first addresses the filter in force lets be asked for, by their last byte, and claimed.
func (w *wire) lets(t *testing.T) (asked, claimed []int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	instructions, _ := bpf.Disassemble(w.filter[len(forThisHost(7, 0)):])
	vm, err := bpf.NewVM(instructions)
	if err != nil {
		t.Fatal(err)
	}
	for a := ourAddr; a != ourAddr.Next().Next().Next(); a = a.Next() {
		last := int(a.As4()[3])
		if n, err := vm.Run(questionFor(a)); err == nil && n > 0 {
			asked = append(asked, last)
		}
		if n, err := vm.Run(arp{theirMAC}.announcement(a)[1]); err == nil && n > 0 {
			claimed = append(claimed, last)
		}
	}
	return asked, claimed
}

// expect compares what the filter lets through.
func (w *wire) expect(t *testing.T, when string, asked ...int) {
	t.Helper()
	gotAsked, gotClaimed := w.lets(t)
	if diff := cmp.Diff([][]int{asked, {200, 201, 202}}, [][]int{gotAsked, gotClaimed}); diff != "" {
		t.Errorf("%s, what may be asked for and claimed (-want +got):\n%s", when, diff)
	}
}

// TestACrowdThatAsksForOthersIsHeardForAMoment: a thousand questions a second cost each of many speakers no more than a hundred. Who claims an address
// is always heard, and who asks for one that is answered for here, or is about to be.
func TestACrowdThatAsksForOthersIsHeardForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		counted := &counts{}
		r, _, _ := run(t, w, Config{Counters: counted.counters()})
		r.Own([]netip.Addr{ourAddr}, time.Now())
		ask := func(n int, a netip.Addr) {
			for range n {
				w.in <- questionFor(a)
			}
			synctest.Wait()
		}
		ask(crowdAtMost-1, ourAddr.Next())
		ask(2*crowdAtMost, ourAddr)
		w.expect(t, "before there is a crowd", 200, 201, 202)
		ask(1, ourAddr.Next())
		w.expect(t, "in a crowd", 200)
		r.Own([]netip.Addr{ourAddr, ourAddr.Next()}, time.Now())
		w.expect(t, "with another address", 200, 201)
		r.Own([]netip.Addr{ourAddr.Next()}, time.Now())
		r.Seek([]netip.Addr{ourAddr.Next().Next()}, time.Now())
		w.expect(t, "with one that is sought, and without the first", 201, 202)
		time.Sleep(crowdEvery)
		synctest.Wait()
		w.expect(t, "once the crowd has had its time", 200, 201, 202)
		if want := 2 * crowdAtMost; counted.replied != want || counted.dropped[NotOwned] != crowdAtMost {
			t.Errorf("%d were answered and %d not, want %d and %d", counted.replied, counted.dropped[NotOwned], want, crowdAtMost)
		}
	})
}

// TestAFewWhoAskForOthersAreNoCrowd: those of a minute ago are not counted.
func TestAFewWhoAskForOthersAreNoCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		run(t, w, Config{})
		for range 3 * crowdAtMost {
			w.in <- questionFor(ourAddr)
			time.Sleep(crowdEvery/crowdAtMost + time.Millisecond)
		}
		w.expect(t, "all the time", 200, 201, 202)
	})
}

// TestAResponderThatCannotHearEnds: it would be taken for one that answers.
func TestAResponderThatCannotHearEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		_, _, done := run(t, w, Config{})
		w.mu.Lock()
		w.deaf = unix.ENOMEM
		w.mu.Unlock()
		for range crowdAtMost - 1 {
			w.in <- questionFor(ourAddr)
		}
		go func() { w.in <- questionFor(ourAddr) }()
		if err := <-done; !errors.Is(err, unix.ENOMEM) {
			t.Errorf("it ended with %v, want ENOMEM", err)
		}
	})
}
