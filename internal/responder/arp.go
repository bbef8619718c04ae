package responder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/mdlayher/ethernet"
	"github.com/mdlayher/packet"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

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
	// Replied counts answers, Announced announcements, Unsent frames that the interface's queue had no room for.
	Replied, Announced, Unsent func()
	// Dropped counts frames without an answer, by reason.
	Dropped func(Drop)
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
	// heard are the ranges that pass the filter.
	heard []Range
	// wake tells the announcer that an address was taken over.
	wake chan struct{}
}

// Listen opens the socket on an interface. Nothing passes its filter until Hear has been called.
func Listen(index int, mac net.HardwareAddr, counters Counters) (*ARP, error) {
	if len(mac) != 6 {
		return nil, fmt.Errorf("its hardware address %q is not one of Ethernet, of 6 bytes", mac)
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

// Hear makes the responder listen to requests for addresses in these ranges, and to no others.
func (r *ARP) Hear(ranges []Range) error {
	merged := merge(ranges)
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Equal(merged, r.heard) {
		return nil
	}
	program, err := filter(r.index, merged)
	if err != nil {
		return err
	}
	if err := r.conn.SetBPF(program); err != nil {
		return fmt.Errorf("setting the packet filter: %w", err)
	}
	r.heard = merged
	return nil
}

// Own makes the responder answer for exactly these addresses, and announce those that are new to it. Only those among the ranges that it
// hears are ever asked for.
func (r *ARP) Own(addrs []netip.Addr, now time.Time) {
	r.mu.Lock()
	owned := make(map[netip.Addr]time.Time, len(addrs))
	for _, a := range addrs {
		since, known := r.owned[a]
		if !known {
			since = now
		}
		owned[a] = since
	}
	changed := !maps.Equal(owned, r.owned)
	r.owned = owned
	r.mu.Unlock()
	if !changed {
		return
	}
	select {
	case r.wake <- struct{}{}:
	default: // it will look at all addresses anyway
	}
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
	defer cancel()
	// A deadline that has passed ends a blocking read. It cannot fail but on a closed socket, which ends the read as well.
	defer context.AfterFunc(ctx, func() { _ = r.conn.SetReadDeadline(time.Unix(1, 0)) })()
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

// frameSize is room for an ARP packet with tags and padding; what a longer frame has beyond it is of no interest.
const frameSize = 128

// answer reads requests and answers them.
func (r *ARP) answer(ctx context.Context) error {
	frame := make([]byte, frameSize)
	for {
		n, _, err := r.conn.ReadFrom(frame)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading ARP requests: %w", err)
		}
		answer, why := reply(frame[:n], r.owns, r.mac)
		if answer == nil {
			r.counters.Dropped(why)
			continue
		}
		switch err := r.send(answer, answer[:6]); {
		case errors.Is(err, unix.ENOBUFS): // who asks will ask again
			r.counters.Unsent()
		case err != nil:
			return fmt.Errorf("answering an ARP request: %w", err)
		default:
			r.counters.Replied()
		}
	}
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
			if !r.owns(a) || ctx.Err() != nil { // lost while those before it were sent
				continue
			}
			if r.tell(a) == nil {
				r.counters.Announced()
			} else {
				r.counters.Unsent()
			}
		}
		timer.Reset(next)
	}
}

// tell sends the two forms of an announcement once.
func (r *ARP) tell(a netip.Addr) error {
	request, answer, err := announcement(a, r.mac)
	if err != nil {
		return err
	}
	if err := r.send(request, ethernet.Broadcast); err != nil {
		return err
	}
	return r.send(answer, ethernet.Broadcast)
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
