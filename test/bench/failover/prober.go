package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/lanyard-dev/lanyard/test/bench/failover/gap"
	"github.com/lanyard-dev/lanyard/test/bench/failover/wire"
)

const (
	// beat is how often the address is probed.
	beat = time.Millisecond
	// sampled is how many of the other addresses are probed too, one in each beat: each of them every 100 ms.
	sampled = 100
)

// Each probe has a source port of its own, and so a backend of its own: kube-proxy's choice is kept per flow in the kernel's table of
// connections, and a flow that was given to a backend on the dead node goes on losing long after another node has the address. That would
// measure the endpoints, not the address. The ports come round after a minute, when the table has forgotten a flow of one datagram each way
// (nf_conntrack_udp_timeout, 30 s).
const (
	firstPort = 2000
	lastPort  = 62000
	// openPorts is how many sockets are kept open: replies come while a socket is open, or the kernel would refuse them to their sender.
	openPorts = 512
)

// prober probes addresses as a user of the Service would, and keeps what became of the probes.
type prober struct {
	vip    netip.Addr
	nameOf func(wire.MAC) string
	// replies is where the answers are read: with their source, and whatever the sockets are.
	replies *sniffer

	mu      sync.Mutex
	others  []netip.Addr
	sent    map[netip.Addr][]time.Time
	answers map[netip.Addr][]gap.Answer
	late    time.Duration
}

func newProber(vip netip.Addr, nameOf func(wire.MAC) string) (*prober, error) {
	replies, err := sniff("eth0", unix.ETH_P_IP, onlyReplies)
	if err != nil {
		return nil, err
	}
	return &prober{vip: vip, nameOf: nameOf, replies: replies, sent: map[netip.Addr][]time.Time{}, answers: map[netip.Addr][]gap.Answer{}}, nil
}

// sample has some of the other addresses probed too.
func (p *prober) sample(others []netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.others = others[:min(len(others), sampled)]
}

// run probes and listens until the context ends.
func (p *prober) run(ctx context.Context) error {
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return p.probe(ctx) })
	tasks.Go(func() error { return p.replies.run(ctx, p.take) })
	return tasks.Wait()
}

// probe sends a datagram in each beat. A beat that was missed is left out.
func (p *prober) probe(ctx context.Context) error {
	var open ring
	defer open.close()
	begin, done := time.Now(), int64(-1)
	for ctx.Err() == nil {
		number, _ := gap.Tick(begin, time.Now(), beat)
		if number <= done {
			time.Sleep(time.Until(begin.Add(time.Duration(done+1) * beat)))
			continue
		}
		p.held(time.Duration(number-done-1) * beat)
		done = number
		targets := []netip.Addr{p.vip}
		p.mu.Lock()
		if i := int(number % sampled); i < len(p.others) {
			targets = append(targets, p.others[i])
		}
		p.mu.Unlock()
		for _, to := range targets {
			sent := time.Now()
			p.mu.Lock()
			p.sent[to] = append(p.sent[to], sent)
			p.mu.Unlock()
			if err := open.send(to, sent); err != nil {
				return err
			}
		}
	}
	return nil
}

// held notes how long the client was held up.
func (p *prober) held(late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = max(p.late, late)
}

// take notes an answer.
func (p *prober) take(at time.Time, frame []byte) {
	r, ok := wire.ParseReply(frame)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[r.VIP] = append(p.answers[r.VIP], gap.Answer{Sent: r.Sent, At: at, Via: p.nameOf(r.Via), Backend: r.Backend})
}

// record returns what became of the probes of an address since a time.
func (p *prober) record(addr netip.Addr, since time.Time) gap.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	sent, answers := p.sent[addr], p.answers[addr]
	i, j := len(sent), len(answers)
	for i > 0 && sent[i-1].After(since) {
		i--
	}
	for j > 0 && answers[j-1].At.After(since) {
		j--
	}
	return gap.Record{Sent: slices.Clone(sent[i:]), Answers: slices.Clone(answers[j:])}
}

// recent returns what became of the probes of the main address since a time.
func (p *prober) recent(since time.Time) gap.Record { return p.record(p.vip, since) }

// lateness is how late the client was at worst since it was asked last.
func (p *prober) lateness() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := p.late
	p.late = 0
	return late
}

// ring are the sockets that are open; the oldest makes room for the next.
type ring struct {
	sockets [openPorts]int
	next    int
	full    bool
	port    int
}

// send sends a probe from a port of its own, on a connected socket. That it cannot be sent, as when the kernel knows no neighbour for the
// address, is what a client sees of an outage.
func (r *ring) send(to netip.Addr, sent time.Time) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("opening a socket for a probe: %w", err)
	}
	if r.full {
		_ = unix.Close(r.sockets[r.next]) // nothing is written to it any more
	}
	r.sockets[r.next] = fd
	if r.next = (r.next + 1) % openPorts; r.next == 0 {
		r.full = true
	}
	for {
		if r.port++; r.port > lastPort || r.port < firstPort {
			r.port = firstPort
		}
		err := unix.Bind(fd, &unix.SockaddrInet4{Port: r.port})
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			return fmt.Errorf("taking a port for a probe: %w", err)
		}
	}
	if unix.Connect(fd, &unix.SockaddrInet4{Port: wire.Port, Addr: to.As4()}) == nil {
		_, _ = unix.Write(fd, wire.Probe(sent))
	}
	return nil
}

func (r *ring) close() {
	open := r.sockets[:r.next]
	if r.full {
		open = r.sockets[:]
	}
	for _, fd := range open {
		_ = unix.Close(fd) // nothing is written to it any more
	}
}
