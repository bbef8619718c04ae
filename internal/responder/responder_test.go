package responder

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	codec "github.com/mdlayher/arp"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// wire is a socket in memory: frames that are put in are read, and what is written is noted with its time since the start.
type wire struct {
	in      chan []byte
	broken  chan error
	expired chan struct{}
	expire  sync.Once
	start   time.Time
	sniff   func(frame []byte) // is told of each frame that is written, if it is not nil

	mu      sync.Mutex
	sent    []string
	refused int // how many writes are yet refused, as by a full queue
	filters int
	filter  []bpf.RawInstruction
	deaf    error // why no filter can be set, if it is not nil
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
	if w.sniff != nil {
		w.sniff(b)
	}
	if p, _, ok := parseARP(b); ok {
		w.sent = append(w.sent, fmt.Sprintf("%s op %d %s for %s to %s", time.Since(w.start), p.operation, p.senderProtocol, p.targetProtocol, MAC(b[:6])))
	} else if n, ok := parseNeighbour(b); ok {
		w.sent = append(w.sent, fmt.Sprintf("%s type %d flags %x %s for %s to %s", time.Since(w.start), n.kind, n.flags, n.source, n.target, MAC(b[:6])))
	} else {
		return 0, errors.New("neither ARP nor NDP")
	}
	return len(b), nil
}

func (w *wire) SetReadDeadline(time.Time) error {
	w.expire.Do(func() { close(w.expired) })
	return nil
}

func (w *wire) SetBPF(filter []bpf.RawInstruction) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deaf != nil {
		return w.deaf
	}
	w.filters++
	w.filter = filter
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
func run(t *testing.T, w *wire, config Config) (*Responder, context.CancelFunc, <-chan error) {
	t.Helper()
	r := newResponder(7, ourMAC, arp{ourMAC}, w, config)
	if err := r.Hear(ourPool); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return r, cancel, done
}

// announced are the two frames of an announcement.
func announced(at, addr string) []string {
	return []string{
		fmt.Sprintf("%s op 1 %s for %s to ff:ff:ff:ff:ff:ff", at, addr, addr),
		fmt.Sprintf("%s op 2 %s for %s to ff:ff:ff:ff:ff:ff", at, addr, addr),
	}
}

func TestAnAddressIsAnnouncedFiveTimesWhileItIsOwned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		r, stop, done := run(t, w, Config{})
		r.Own([]netip.Addr{ourAddr}, time.Now())
		time.Sleep(time.Minute)
		var want []string
		for _, at := range []string{"0s", "100ms", "300ms", "1.2s", "3s"} {
			want = append(want, announced(at, "192.168.1.200")...)
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
		r, _, _ := run(t, w, Config{})
		second := netip.MustParseAddr("192.168.1.201")
		r.Own([]netip.Addr{ourAddr, second}, time.Now())
		time.Sleep(50 * time.Millisecond)
		r.Own([]netip.Addr{second}, time.Now())
		w.take()
		time.Sleep(time.Minute)
		var others []string
		for _, at := range []string{"100ms", "300ms", "1.2s", "3s"} {
			others = append(others, announced(at, "192.168.1.201")...)
		}
		if diff := cmp.Diff(others, w.take()); diff != "" {
			t.Errorf("announced after one address was lost (-want +got):\n%s", diff)
		}
		r.Own([]netip.Addr{ourAddr, second}, time.Now())
		synctest.Wait()
		if diff := cmp.Diff(announced("1m0.05s", "192.168.1.200"), w.take()); diff != "" {
			t.Errorf("announced when it is taken over again (-want +got):\n%s", diff)
		}
	})
}

func TestRequestsAreAnsweredAndOthersCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWire(), &counts{}
		r, _, _ := run(t, w, Config{Counters: c.counters()})
		r.Own([]netip.Addr{ourAddr}, time.Now().Add(-time.Hour)) // its announcements are over but one, which makes up for them
		synctest.Wait()
		w.take()
		w.in <- frameOf(t, "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8")
		w.in <- frameOf(t, "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c9")
		synctest.Wait()
		if diff := cmp.Diff([]string{"0s op 2 192.168.1.200 for 192.168.1.122 to 02:00:00:00:00:bb"}, w.take()); diff != "" {
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
		"room after some tries": {refused: answerTries - 1, replied: 1},
		"no room":               {refused: answerTries, unsent: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, c := newWire(), &counts{}
				r, stop, done := run(t, w, Config{Counters: c.counters()})
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
		_, _, done := run(t, w, Config{})
		w.broken <- unix.ENETDOWN
		if err := <-done; !errors.Is(err, unix.ENETDOWN) || !w.closed {
			t.Errorf("it ended with %v, its socket closed: %t; want ENETDOWN", err, w.closed)
		}
	})
}

func TestTheFilterIsSetOnlyWhenItChanges(t *testing.T) {
	w := newWire()
	r := newResponder(7, ourMAC, arp{ourMAC}, w, Config{})
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

// TestAStandbyTellsTheAskersOnceItTakesOver: it learned them while somebody else owned the address.
func TestAStandbyTellsTheAskersOnceItTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		r, _, _ := run(t, w, Config{})
		w.in <- arpPacket{codec.OperationRequest, theirMAC, MAC{}, netip.MustParseAddr("192.168.1.122"), ourAddr}.frame(broadcast)
		w.in <- arpPacket{codec.OperationRequest, theirMAC, MAC{}, netip.MustParseAddr("192.168.1.123"), ourAddr.Next()}.frame(broadcast)
		synctest.Wait()
		r.Own([]netip.Addr{ourAddr}, time.Now())
		time.Sleep(time.Minute)
		var want []string
		for _, at := range []string{"0s", "100ms", "300ms", "1.2s", "3s"} {
			want = append(append(want, announced(at, "192.168.1.200")...), at+" op 1 192.168.1.200 for 192.168.1.122 to 02:00:00:00:00:bb")
		}
		if diff := cmp.Diff(want, w.take()); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}

// TestWhoAsksForAHostIsToldNothing: every node asks for others each second, and would look like a router.
func TestWhoAsksForAHostIsToldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		var seen []Sighting
		r, _, _ := run(t, w, Config{Seen: func(s Sighting) { seen = append(seen, s) }})
		hosts := []netip.Addr{netip.MustParseAddr("192.168.1.10")}
		for len(hosts) < routerAsks {
			hosts = append(hosts, hosts[len(hosts)-1].Next())
		}
		if err := r.Hear(ourPool, hosts...); err != nil {
			t.Fatal(err)
		}
		for _, host := range hosts {
			w.in <- arpPacket{codec.OperationRequest, theirMAC, MAC{}, netip.MustParseAddr("192.168.1.122"), host}.frame(broadcast)
		}
		w.in <- arpPacket{codec.OperationReply, theirMAC, ourMAC, hosts[0], netip.MustParseAddr("192.168.1.7")}.frame(ourMAC)
		synctest.Wait()
		r.Own([]netip.Addr{ourAddr}, time.Now())
		time.Sleep(time.Millisecond)
		if diff := cmp.Diff(announced("0s", "192.168.1.200"), w.take()); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		if want := (Sighting{hosts[0], theirMAC, Claimed}); len(seen) == 0 || seen[len(seen)-1] != want {
			t.Errorf("seen %v, want %v last", seen, want)
		}
	})
}

func TestARefreshIsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		r, _, _ := run(t, w, Config{})
		r.Own([]netip.Addr{ourAddr}, time.Now())
		time.Sleep(time.Minute)
		w.take()
		time.Sleep(firstRefresh(ourAddr))
		want := []string{fmt.Sprintf("%s op 1 192.168.1.200 for 192.168.1.200 to ff:ff:ff:ff:ff:ff", firstRefresh(ourAddr))}
		if diff := cmp.Diff(want, w.take()); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}

func TestAnnounceBeginsTheAnnouncementsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		r, _, _ := run(t, w, Config{})
		r.Own([]netip.Addr{ourAddr}, time.Now())
		time.Sleep(10 * time.Second)
		w.take()
		r.Announce(ourAddr, time.Now())
		r.Announce(ourAddr.Next(), time.Now()) // which is not ours
		time.Sleep(10 * time.Second)
		var want []string
		for _, at := range []string{"10s", "10.1s", "10.3s", "11.2s", "13s"} {
			want = append(want, announced(at, "192.168.1.200")...)
		}
		if diff := cmp.Diff(want, w.take()); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}

// TestABurstIsPacedAndComplete: the queue has no room for the first hundred tries.
func TestABurstIsPacedAndComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWire(), &counts{}
		r, _, _ := run(t, w, Config{Counters: c.counters()})
		w.refused = 20
		addrs := many(1000)
		r.Own(addrs, time.Now())
		time.Sleep(99 * time.Millisecond) // before the second announcement
		var want, got []string
		for _, a := range addrs {
			want = append(want, announced("", a.String())...)
		}
		byMillisecond := map[string]int{}
		for _, frame := range w.take() {
			at, rest, _ := strings.Cut(frame, " ")
			byMillisecond[at]++
			got = append(got, " "+rest)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		for at, n := range byMillisecond {
			if at != "20ms" && n > 101 { // which makes up for the time that the queue was full
				t.Errorf("%d frames at %s, want at most 101", n, at)
			}
		}
		if diff := cmp.Diff([]int{1000, 0}, []int{c.announced, c.unsent}); diff != "" {
			t.Errorf("announced and unsent (-want +got):\n%s", diff)
		}
	})
}

func TestWhatOthersSayIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		var seen []Sighting
		r, stop, done := run(t, w, Config{Seen: func(s Sighting) { seen = append(seen, s) }})
		for _, frame := range [][]byte{
			arp{theirMAC}.announcement(ourAddr)[0],
			arp{theirMAC}.announcement(ourAddr)[1],
			arp{theirMAC}.probe(ourAddr, nil),
			arp{theirMAC}.announcement(netip.MustParseAddr("192.168.1.7"))[0],
			arp{ourMAC}.announcement(ourAddr)[0],
			arp{ourMAC}.probe(ourAddr, nil),
		} {
			w.in <- frame
		}
		if err := r.Hear([]Range{rangeOf("192.168.1.7", "192.168.1.7")}); err != nil {
			t.Fatal(err)
		}
		w.in <- arp{theirMAC}.announcement(ourAddr)[0]
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		want := []Sighting{{ourAddr, theirMAC, Claimed}, {ourAddr, theirMAC, Claimed}, {ourAddr, theirMAC, Probed}}
		if diff := cmp.Diff(want, seen, compareAddrs); diff != "" {
			t.Errorf("seen (-want +got):\n%s", diff)
		}
	})
}

func TestProbe(t *testing.T) {
	for name, tc := range map[string]struct {
		addr    string
		to      net.HardwareAddr
		refused int
		want    []string
		fails   bool
	}{
		"everybody":                    {addr: "192.168.1.200", want: []string{"0s op 1 0.0.0.0 for 192.168.1.200 to ff:ff:ff:ff:ff:ff"}},
		"one neighbour":                {addr: "192.168.1.200", to: theirMAC[:], want: []string{"0s op 1 0.0.0.0 for 192.168.1.200 to 02:00:00:00:00:bb"}},
		"an address of another family": {addr: "fd00::200", fails: true},
		"not an Ethernet address":      {addr: "192.168.1.200", to: net.HardwareAddr{1, 2}, fails: true},
		"a queue without room":         {addr: "192.168.1.200", refused: answerTries, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWire()
				w.refused = tc.refused
				r := newResponder(7, ourMAC, arp{ourMAC}, w, Config{})
				if err := r.Probe(netip.MustParseAddr(tc.addr), tc.to); (err != nil) != tc.fails {
					t.Errorf("error %v, want one: %t", err, tc.fails)
				}
				if diff := cmp.Diff(tc.want, w.take()); diff != "" {
					t.Errorf("sent (-want +got):\n%s", diff)
				}
			})
		})
	}
}
