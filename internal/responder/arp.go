package responder

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mdlayher/ethernet"
	"github.com/mdlayher/packet"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// schedule is when an address is announced after it was taken over. The first frame does it for most neighbours; the others are for those
// that lost it, or that, like old Linux, ignore changes of an entry within a second of the last.
var schedule = [...]time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 1200 * time.Millisecond, 3 * time.Second}

// readTimeout bounds a blocking read, so that the loop sees that it should end.
const readTimeout = time.Second

// conn is a socket for whole frames of one interface.
type conn interface {
	ReadFrom(b []byte) (int, net.Addr, error)
	WriteTo(b []byte, to net.Addr) (int, error)
	SetReadDeadline(t time.Time) error
	SetBPF(filter []bpf.RawInstruction) error
	Close() error
}

var _ conn = (*packet.Conn)(nil)

// Counters count what a responder does. The functions must not block.
type Counters struct {
	// Replied counts answers, Announced announcements, Dropped frames without an answer by reason.
	Replied, Announced func()
	Dropped            func(Drop)
}

// ARP answers ARP requests for addresses on one interface. Its methods may be called from any goroutine.
type ARP struct {
	index    int
	mac      net.HardwareAddr
	conn     conn
	counters Counters

	mu sync.Mutex
	// owned are the addresses that are answered for, each with when it was taken over.
	owned map[netip.Addr]time.Time
	// wake tells the announcer that an address was taken over.
	wake chan struct{}
}

// Listen opens the socket on an interface. Nothing passes its filter until Set has been called.
func Listen(index int, mac net.HardwareAddr, counters Counters) (*ARP, error) {
	if len(mac) != 6 {
		return nil, errNotEthernet
	}
	closed, err := filter(index, nil)
	if err != nil {
		return nil, err
	}
	// The filter is in place before the socket is bound: nothing slips through in between.
	c, err := packet.Listen(&net.Interface{Index: index, HardwareAddr: mac}, packet.Raw, unix.ETH_P_ARP, &packet.Config{Filter: closed})
	if err != nil {
		return nil, fmt.Errorf("opening the ARP socket: %w", err)
	}
	return newARP(index, mac, c, counters), nil
}

func newARP(index int, mac net.HardwareAddr, c conn, counters Counters) *ARP {
	return &ARP{index: index, mac: mac, conn: c, counters: counters, owned: map[netip.Addr]time.Time{}, wake: make(chan struct{}, 1)}
}

// Set makes the responder answer for exactly these addresses, and announce those that are new to it.
func (r *ARP) Set(addrs []netip.Addr, now time.Time) error {
	prefixes := make([]netip.Prefix, 0, len(addrs))
	for _, a := range addrs {
		prefixes = append(prefixes, netip.PrefixFrom(a, a.BitLen()))
	}
	slices.SortFunc(prefixes, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	program, err := filter(r.index, prefixes)
	if err != nil {
		return err
	}
	r.mu.Lock()
	owned := make(map[netip.Addr]time.Time, len(addrs))
	for _, a := range addrs {
		since, known := r.owned[a]
		if !known {
			since = now
		}
		owned[a] = since
	}
	r.owned = owned
	r.mu.Unlock()
	if err := r.conn.SetBPF(program); err != nil {
		return fmt.Errorf("setting the packet filter: %w", err)
	}
	select {
	case r.wake <- struct{}{}:
	default: // it will look at all addresses anyway
	}
	return nil
}

// owns says whether an address is answered for.
func (r *ARP) owns(a netip.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, owned := r.owned[a]
	return owned
}

// Run answers and announces until the context ends or the socket fails, as it does when the interface goes away. It closes the socket.
func (r *ARP) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var announcer sync.WaitGroup
	announcer.Go(func() { r.announce(ctx) })
	err := r.answer(ctx)
	cancel()
	announcer.Wait()
	if closeErr := r.conn.Close(); closeErr != nil && err == nil {
		return fmt.Errorf("closing the ARP socket: %w", closeErr)
	}
	return err
}

// answer reads requests and answers them.
func (r *ARP) answer(ctx context.Context) error {
	frame := make([]byte, 128)
	for ctx.Err() == nil {
		if err := r.conn.SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
			return fmt.Errorf("setting the read deadline: %w", err)
		}
		n, _, err := r.conn.ReadFrom(frame)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading ARP requests: %w", err)
		}
		answer, drop := reply(frame[:n], r.owns, r.mac)
		if answer == nil {
			r.counters.Dropped(drop)
			continue
		}
		if err := r.send(answer, net.HardwareAddr(answer[:6])); err != nil {
			return fmt.Errorf("answering an ARP request: %w", err)
		}
		r.counters.Replied()
	}
	return nil
}

// announce sends the announcements that are due, until the context ends. A frame that cannot be sent is left to the next one of its
// schedule: if the socket is broken, answer ends the task.
func (r *ARP) announce(ctx context.Context) {
	sent := map[takeover]int{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-timer.C:
		}
		r.mu.Lock()
		due, next := dueAt(time.Now(), r.owned, sent)
		r.mu.Unlock()
		for _, a := range due {
			request, answer, err := announcement(a, r.mac)
			if err != nil {
				continue // an address that is not IPv4 has no ARP frame; the speaker gives us none
			}
			if r.send(request, ethernet.Broadcast) == nil && r.send(answer, ethernet.Broadcast) == nil {
				r.counters.Announced()
			}
		}
		timer.Reset(next)
	}
}

// takeover is an address and when it was taken over: taken over again, it is announced again.
type takeover struct {
	addr  netip.Addr
	since time.Time
}

// dueAt returns the addresses whose next announcement is due, counts it as sent, and says when to look again.
func dueAt(now time.Time, owned map[netip.Addr]time.Time, sent map[takeover]int) (due []netip.Addr, next time.Duration) {
	next = time.Hour
	for t := range sent {
		if since, still := owned[t.addr]; !still || since != t.since {
			delete(sent, t)
		}
	}
	for a, since := range owned {
		t, elapsed := takeover{a, since}, now.Sub(since)
		isDue := false
		for sent[t] < len(schedule) && elapsed >= schedule[sent[t]] {
			sent[t]++
			isDue = true
		}
		if isDue {
			due = append(due, a)
		}
		if sent[t] < len(schedule) {
			next = min(next, schedule[sent[t]]-elapsed)
		}
	}
	slices.SortFunc(due, netip.Addr.Compare)
	return due, next
}

// sendTries bounds how often a frame is offered to a queue that is full.
const sendTries = 5

// send writes a frame. A full queue (ENOBUFS) is tried again a moment later.
func (r *ARP) send(frame []byte, to net.HardwareAddr) error {
	var err error
	for range sendTries {
		if _, err = r.conn.WriteTo(frame, &packet.Addr{HardwareAddr: to}); !errors.Is(err, unix.ENOBUFS) {
			return err
		}
		time.Sleep(time.Millisecond) // the queue empties at line speed: a millisecond is a hundred frames
	}
	return err
}
