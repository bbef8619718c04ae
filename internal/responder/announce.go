package responder

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"
)

// How often a frame is offered to a queue that is full, a millisecond apart: who asks will ask again, but an announcement waits until a
// burst has left.
const (
	answerTries       = 5
	announcementTries = 200
)

// The rate of a burst: one frame in ten microseconds is a fifteenth of what Ethernet of 1 Gbit/s carries. Sleeping is worth it from
// paceAhead on.
const (
	framePause = 10 * time.Microsecond
	paceAhead  = time.Millisecond
)

// pace slows a burst down.
type pace struct {
	start  time.Time
	frames int
}

// wait counts a frame and returns how long it has to wait.
func (p *pace) wait(now time.Time) time.Duration {
	ahead := p.start.Add(time.Duration(p.frames) * framePause).Sub(now)
	p.frames++
	if ahead < paceAhead {
		return 0
	}
	return ahead
}

// wakeAnnouncer makes the announcer look at all addresses.
func (r *Responder) wakeAnnouncer() {
	select {
	case r.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// announce sends the announcements that are due, until the context ends, and widens the filter again after a crowd. A frame that cannot be sent is left to the next one of its
// schedule: if the socket is broken, read ends the task.
func (r *Responder) announce(ctx context.Context) {
	agenda := newAgenda()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-timer.C:
		}
		now := time.Now()
		again := r.listenAgain(now)
		r.mu.Lock()
		announced, refreshed, next := agenda.due(now, r.owned)
		r.mu.Unlock()
		p := &pace{start: now}
		// Everybody is told of all addresses before anybody is told of one again.
		r.tell(ctx, p, announced, r.protocol.announcement)
		r.tell(ctx, p, refreshed, func(a netip.Addr) [][]byte { return r.protocol.announcement(a)[:1] })
		r.tellAskers(ctx, p, announced)
		timer.Reset(min(next, again) - time.Since(now))
	}
}

// tell sends frames about each address, if it is still owned when its turn comes.
func (r *Responder) tell(ctx context.Context, p *pace, addrs []netip.Addr, frames func(netip.Addr) [][]byte) {
	for _, a := range addrs {
		if !r.owns(a) {
			continue
		}
		sent := true
		for _, frame := range frames(a) {
			sent = r.sendPaced(ctx, p, frame) && sent
		}
		if sent {
			r.config.Counters.Announced()
		}
	}
}

// tellAskers tells those who asked for an address, and so have an entry for it, where it is now. A question is taken by neighbours that
// heed no announcement, as Windows did up to 2008, and by Linux in whatever state the entry is.
func (r *Responder) tellAskers(ctx context.Context, p *pace, addrs []netip.Addr) {
	for _, a := range addrs {
		for _, to := range r.askersOf(a, time.Now()) {
			r.sendPaced(ctx, p, r.protocol.directed(a, to))
		}
	}
}

// Reassure answers once more those who asked for the owned addresses, before this responder is silent for some seconds: Linux takes an answer for a
// proof that the neighbour is there, and does not check again before 15 seconds are over (half of net.ipv4.neigh.default.base_reachable_time_ms;
// RFC 4861, section 6.3.2, for NDP). Unlike an announcement it would not take an address from anybody. It returns when the frames are out, the
// context has ended or the socket is closed.
func (r *Responder) Reassure(ctx context.Context) {
	r.mu.Lock()
	owned := slices.SortedFunc(maps.Keys(r.owned), netip.Addr.Compare)
	r.mu.Unlock()
	now := time.Now()
	p := &pace{start: now}
	for _, a := range owned {
		for _, to := range r.askersOf(a, now) {
			r.sendPaced(ctx, p, r.protocol.answer(message{source: to.mac, sender: to.addr, asks: a}))
		}
	}
}

// askersOf returns who is to be told of an address, nobody if it is not owned any more.
func (r *Responder) askersOf(a netip.Addr, now time.Time) []asker {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ownsLocked(a) {
		return nil
	}
	return r.askers.of(a, now)
}

// owns says whether an address is answered for.
func (r *Responder) owns(a netip.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ownsLocked(a)
}

// sendPaced sends a frame of a burst when its turn comes, and says whether it was sent.
func (r *Responder) sendPaced(ctx context.Context, p *pace, frame []byte) bool {
	if wait := p.wait(time.Now()); wait > 0 {
		time.Sleep(wait)
	}
	if ctx.Err() != nil {
		return false
	}
	if r.send(frame, announcementTries) != nil {
		r.config.Counters.Unsent()
		return false
	}
	return true
}

// send writes a frame to whom it names. A full queue (ENOBUFS) is tried again a moment later.
func (r *Responder) send(frame []byte, tries int) error {
	var err error
	for range tries {
		if _, err = r.conn.WriteTo(frame, &packet.Addr{HardwareAddr: frame[:6]}); !errors.Is(err, unix.ENOBUFS) {
			return err
		}
		time.Sleep(time.Millisecond) // the queue empties at line speed: a millisecond is a hundred frames
	}
	return err
}
