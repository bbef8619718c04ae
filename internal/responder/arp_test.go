package responder

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// wire is a socket in memory: frames that are put in are read, and what is written is noted with its time since the start.
type wire struct {
	in      chan []byte
	broken  chan error
	expired chan struct{}
	start   time.Time

	mu      sync.Mutex
	sent    []string
	refused int // how many writes are yet refused, as by a full queue
	filters int
	closed  bool
}

func newWire() *wire {
	return &wire{in: make(chan []byte), broken: make(chan error), expired: make(chan struct{}), start: time.Now()}
}

func (w *wire) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case frame := <-w.in:
		return copy(b, frame), nil, nil
	case err := <-w.broken:
		return 0, nil, err
	case <-w.expired:
		return 0, nil, os.ErrDeadlineExceeded
	}
}

func (w *wire) WriteTo(b []byte, _ net.Addr) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refused > 0 {
		w.refused--
		return 0, unix.ENOBUFS
	}
	p, _, ok := parse(b)
	if !ok {
		return 0, errors.New("no ARP packet")
	}
	w.sent = append(w.sent, fmt.Sprintf("%s op %d %s to %s", time.Since(w.start), p.Operation, p.SenderIP, net.HardwareAddr(b[:6])))
	return len(b), nil
}

func (w *wire) SetReadDeadline(time.Time) error {
	close(w.expired)
	return nil
}

func (w *wire) SetBPF([]bpf.RawInstruction) error {
	w.filters++
	return nil
}

func (w *wire) Close() error {
	w.closed = true
	return nil
}

// take returns what was written since the last time.
func (w *wire) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := w.sent
	w.sent = nil
	return sent
}

// counts are Counters that a test reads.
type counts struct {
	mu                         sync.Mutex
	replied, announced, unsent int
	dropped                    map[Drop]int
}

func (c *counts) counters() Counters {
	count := func(n *int) func() {
		return func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			*n++
		}
	}
	return Counters{Replied: count(&c.replied), Announced: count(&c.announced), Unsent: count(&c.unsent), Dropped: func(d Drop) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.dropped == nil {
			c.dropped = map[Drop]int{}
		}
		c.dropped[d]++
	}}
}

// run starts a responder on a wire and returns what ends it: its error.
func run(t *testing.T, w *wire, c *counts) (*ARP, context.CancelFunc, <-chan error) {
	t.Helper()
	r := newARP(7, ourMAC, w, c.counters())
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return r, cancel, done
}

func TestAnAddressIsAnnouncedFiveTimesWhileItIsOwned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		r, stop, done := run(t, w, &counts{})
		r.Own([]netip.Addr{ourAddr}, time.Now())
		time.Sleep(time.Minute)
		var want []string
		for _, at := range []string{"0s", "100ms", "300ms", "1.2s", "3s"} {
			want = append(want, at+" op 1 192.168.1.200 to ff:ff:ff:ff:ff:ff", at+" op 2 192.168.1.200 to ff:ff:ff:ff:ff:ff")
		}
		if diff := cmp.Diff(want, w.take()); diff != "" {
			t.Errorf("announcements (-want +got):\n%s", diff)
		}
		stop()
		if err := <-done; err != nil || !w.closed {
			t.Errorf("it ended with %v, its socket closed: %t", err, w.closed)
		}
	})
}

func TestAnAddressThatIsLostIsNotAnnouncedAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		r, _, _ := run(t, w, &counts{})
		second := netip.MustParseAddr("192.168.1.201")
		r.Own([]netip.Addr{ourAddr, second}, time.Now())
		time.Sleep(50 * time.Millisecond)
		r.Own([]netip.Addr{second}, time.Now())
		w.take()
		time.Sleep(time.Minute)
		for _, frame := range w.take() {
			if !cmp.Equal(frame[len(frame)-len("192.168.1.201 to ff:ff:ff:ff:ff:ff"):], "192.168.1.201 to ff:ff:ff:ff:ff:ff") {
				t.Errorf("sent %q after the address was lost", frame)
			}
		}
		r.Own([]netip.Addr{ourAddr, second}, time.Now())
		synctest.Wait()
		want := []string{"1m0.05s op 1 192.168.1.200 to ff:ff:ff:ff:ff:ff", "1m0.05s op 2 192.168.1.200 to ff:ff:ff:ff:ff:ff"}
		if diff := cmp.Diff(want, w.take()); diff != "" {
			t.Errorf("announced when it is taken over again (-want +got):\n%s", diff)
		}
	})
}

func TestRequestsAreAnsweredAndOthersCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWire(), &counts{}
		r, _, _ := run(t, w, c)
		r.Own([]netip.Addr{ourAddr}, time.Now().Add(-time.Hour)) // its announcements are over but one, which makes up for them
		synctest.Wait()
		w.take()
		w.in <- frameOf(t, "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8")
		w.in <- frameOf(t, "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c9")
		synctest.Wait()
		if diff := cmp.Diff([]string{"0s op 2 192.168.1.200 to 02:00:00:00:00:bb"}, w.take()); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[Drop]int{NotOwned: 1}, c.dropped); diff != "" || c.replied != 1 {
			t.Errorf("%d replies counted, want 1; drops (-want +got):\n%s", c.replied, diff)
		}
	})
}

func TestAFullQueueIsTriedAgainAndThenLeftToTheNextRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		refused         int
		replied, unsent int
	}{
		"room after some tries": {refused: sendTries - 1, replied: 1},
		"no room":               {refused: sendTries, unsent: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, c := newWire(), &counts{}
				r, stop, done := run(t, w, c)
				r.Own([]netip.Addr{ourAddr}, time.Now())
				time.Sleep(time.Minute)
				w.refused = tc.refused
				w.in <- frameOf(t, "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8")
				time.Sleep(time.Second)
				stop()
				if err := <-done; err != nil {
					t.Errorf("it ended with %v, want it to go on", err)
				}
				if c.replied != tc.replied || c.unsent != tc.unsent {
					t.Errorf("%d replied and %d unsent, want %d and %d", c.replied, c.unsent, tc.replied, tc.unsent)
				}
			})
		})
	}
}

func TestABrokenSocketEndsTheResponder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		_, _, done := run(t, w, &counts{})
		w.broken <- unix.ENETDOWN
		if err := <-done; !errors.Is(err, unix.ENETDOWN) || !w.closed {
			t.Errorf("it ended with %v, its socket closed: %t; want ENETDOWN", err, w.closed)
		}
	})
}

func TestTheFilterIsSetOnlyWhenItChanges(t *testing.T) {
	w := newWire()
	r := newARP(7, ourMAC, w, Counters{})
	for _, ranges := range [][]Range{
		{rangeOf("10.0.0.1", "10.0.0.4"), rangeOf("10.0.0.5", "10.0.0.9")},
		{rangeOf("10.0.0.5", "10.0.0.9"), rangeOf("10.0.0.1", "10.0.0.4")},
		{rangeOf("10.0.0.1", "10.0.0.9")},
	} {
		if err := r.Hear(ranges); err != nil {
			t.Fatal(err)
		}
	}
	if w.filters != 1 {
		t.Errorf("the filter was set %d times for the same ranges, want once", w.filters)
	}
}
