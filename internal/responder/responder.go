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

// Counters count what a responder does. The functions must not block; one that is nil counts nothing.
type Counters struct {
	// Replied counts answers, Announced announcements and refreshes, Unsent frames that the interface's queue had no room for.
	Replied, Announced, Unsent func()
	// Dropped counts frames without an answer, by reason.
	Dropped func(Drop)
}

// Config is what a responder tells others. The functions must not block; they may be nil.
type Config struct {
	Counters Counters
	// Seen is told of each packet that somebody else sent about an address in the ranges that are heard.
	Seen func(Sighting)
	// Failed is told of what does not work for one address while the others go on: a multicast group that cannot be joined.
	Failed func(error)
}

// orNothing replaces functions that are nil.
func (c Config) orNothing() Config {
	for _, count := range []*func(){&c.Counters.Replied, &c.Counters.Announced, &c.Counters.Unsent} {
		if *count == nil {
			*count = func() {}
		}
	}
	if c.Counters.Dropped == nil {
		c.Counters.Dropped = func(Drop) {}
	}
	if c.Seen == nil {
		c.Seen = func(Sighting) {}
	}
	if c.Failed == nil {
		c.Failed = func(error) {}
	}
	return c
}

// protocol is what ARP and NDP differ in: their frames.
type protocol interface {
	// name is for messages.
	name() string
	// family says whether an address is one of the protocol's.
	family(a netip.Addr) bool
	// selection is which packets the protocol wants to read.
	selection() selection
	// read returns what a frame says, or that it is malformed or spoofed.
	read(frame []byte) (message, Drop)
	// answer is the frame that answers a message that asks.
	answer(m message) []byte
	// announcement are the frames that tell everybody where an address is now; the first will do for a refresh.
	announcement(a netip.Addr) [][]byte
	// directed is the frame that tells it one neighbour.
	directed(a netip.Addr, to asker) []byte
	// probe is the frame that asks whether anybody has an address: one neighbour, or everybody.
	probe(a netip.Addr, to *MAC) []byte
	// request is the frame by which a host with an address asks where another is.
	request(a, from netip.Addr) []byte
}

// Responder answers for addresses on one interface, by ARP or by NDP. It leaves addresses of the other family alone. Its methods may be
// called from any goroutine.
type Responder struct {
	index    int
	mac      MAC
	conn     conn
	protocol protocol
	config   Config

	// owning is held while the owned addresses change.
	owning sync.Mutex
	// groups are the multicast groups that NDP needs, nil for ARP. The holder of owning uses them.
	groups *groups

	mu sync.Mutex
	// owned are the addresses that are answered for, each with when it was taken over.
	owned map[netip.Addr]time.Time
	// sought are addresses of which questions are heard although they are not owned.
	sought []netip.Addr
	// heard are the ranges of which it is seen who claims an address, pooled those among them of which addresses may be owned.
	heard, pooled []Range
	// filtered is what passes the filter.
	filtered interest
	crowd    crowd
	// failure is why the filter could not be set; it ends the responder.
	failure error
	// askers are the neighbours to be told when an address moves here.
	askers askers
	// wake tells the announcer that an address was taken over.
	wake chan struct{}
}

// open opens a protocol's socket on an interface. Nothing passes its filter until Hear has been called.
func open(index int, mac MAC, p protocol, etherType int, config Config) (*Responder, error) {
	closed, err := p.selection().filter(index, interest{})
	if err != nil {
		return nil, err
	}
	// The filter is in place before the socket is bound: nothing slips through in between.
	c, err := packet.Listen(&net.Interface{Index: index, HardwareAddr: mac[:]}, packet.Raw, etherType, &packet.Config{Filter: closed})
	if err != nil {
		return nil, fmt.Errorf("opening the %s socket: %w", p.name(), err)
	}
	return newResponder(index, mac, p, c, config), nil
}

func newResponder(index int, mac MAC, p protocol, c conn, config Config) *Responder {
	return &Responder{index: index, mac: mac, conn: c, protocol: p, config: config.orNothing(),
		owned: map[netip.Addr]time.Time{}, askers: askers{}, wake: make(chan struct{}, 1)}
}

// macOf converts an interface's hardware address.
func macOf(a net.HardwareAddr) (MAC, error) {
	if len(a) != 6 {
		return MAC{}, fmt.Errorf("the hardware address %q is not one of Ethernet, of 6 bytes", a)
	}
	return MAC(a), nil
}

// Own makes the responder answer for exactly these addresses, and announce those that are new to it. Only those among the ranges that it
// hears are ever asked for.
func (r *Responder) Own(addrs []netip.Addr, now time.Time) {
	ours := slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return !r.protocol.family(a) })
	r.owning.Lock()
	defer r.owning.Unlock()
	if r.groups != nil { // who announces an address has to be reachable by those who ask for it then
		for _, err := range r.groups.join(ours) {
			r.config.Failed(err)
		}
		defer r.groups.leaveAllBut(slices.Concat(ours, r.sought))
	}
	r.mu.Lock()
	owned := make(map[netip.Addr]time.Time, len(ours))
	for _, a := range ours {
		since, known := r.owned[a]
		if !known {
			since = now
		}
		owned[a] = since
	}
	changed := !maps.Equal(owned, r.owned)
	r.owned = owned
	r.refilterLocked(now)
	r.mu.Unlock()
	if changed {
		r.wakeAnnouncer()
	}
}

// Seek makes the responder hear what others ask about these addresses too, until it seeks others and owns anew: of two that probe an address at
// once, each has to hear the other. For NDP it joins the address's group first (RFC 4862, section 5.4.2).
func (r *Responder) Seek(addrs []netip.Addr, now time.Time) {
	r.owning.Lock()
	defer r.owning.Unlock()
	sought := slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return !r.protocol.family(a) })
	if r.groups != nil {
		for _, err := range r.groups.join(sought) {
			r.config.Failed(err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sought = sought
	r.refilterLocked(now)
}

// Announce begins the announcements of an owned address anew, as is due after somebody else announced it. It does nothing for any other.
func (r *Responder) Announce(a netip.Addr, now time.Time) {
	r.mu.Lock()
	_, owned := r.owned[a]
	if owned {
		r.owned[a] = now
	}
	r.mu.Unlock()
	if owned {
		r.wakeAnnouncer()
	}
}

// Probe asks once whether anybody has an address, without saying that we do (RFC 5227, section 2.1.1; RFC 4862, section 5.4): everybody, or
// only the neighbour with this hardware address if it is not nil. The answer is a sighting if the address is in the ranges that are heard.
// An error says that the frame was not sent.
func (r *Responder) Probe(a netip.Addr, to net.HardwareAddr) error {
	if !r.protocol.family(a) {
		return fmt.Errorf("%s has no probes for %s", r.protocol.name(), a)
	}
	var one *MAC
	if to != nil {
		mac, err := macOf(to)
		if err != nil {
			return err
		}
		one = &mac
	}
	if err := r.send(r.protocol.probe(a, one), answerTries); err != nil {
		return fmt.Errorf("probing %s: %w", a, err)
	}
	return nil
}

// Ask asks once for the hardware address of a neighbour, from an address of this host on the interface, as its kernel would. Unlike a probe it
// disturbs no neighbour that is just taking its address (RFC 5227, section 2.1.1; RFC 4862, section 5.4.3). The answer is a sighting if the
// address is in the ranges that are heard. An error says that the frame was not sent.
func (r *Responder) Ask(a, from netip.Addr) error {
	if !r.protocol.family(a) || !r.protocol.family(from) {
		return fmt.Errorf("%s cannot ask for %s from %s", r.protocol.name(), a, from)
	}
	if err := r.send(r.protocol.request(a, from), answerTries); err != nil {
		return fmt.Errorf("asking for %s: %w", a, err)
	}
	return nil
}

// Run answers and announces until the context ends or the socket fails, as it does when the interface goes away. It closes the socket.
func (r *Responder) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A deadline that has passed ends a blocking read. It cannot fail but on a closed socket, which ends the read as well.
	defer context.AfterFunc(ctx, func() { _ = r.conn.SetReadDeadline(time.Unix(1, 0)) })()
	var announcer sync.WaitGroup
	announcer.Go(func() { r.announce(ctx) })
	err := r.read(ctx)
	cancel()
	announcer.Wait()
	if closeErr := r.conn.Close(); closeErr != nil && err == nil {
		err = fmt.Errorf("closing the %s socket: %w", r.protocol.name(), closeErr)
	}
	r.owning.Lock()
	defer r.owning.Unlock()
	if r.groups != nil {
		r.groups.close()
	}
	return err
}

// frameSize is room for a frame of Ethernet's usual size; no longer one is of interest.
const frameSize = 2048

// read reads frames and handles them.
func (r *Responder) read(ctx context.Context) error {
	frame := make([]byte, frameSize)
	for {
		n, _, err := r.conn.ReadFrom(frame)
		if ctx.Err() != nil {
			return nil
		}
		if failure := r.failed(); failure != nil {
			return failure
		}
		if err != nil {
			return fmt.Errorf("reading %s frames: %w", r.protocol.name(), err)
		}
		if err := r.handle(frame[:n], time.Now()); err != nil {
			return err
		}
	}
}

// handle reports what a frame says, and answers it.
func (r *Responder) handle(frame []byte, now time.Time) error {
	m, unread := r.protocol.read(frame)
	if unread != "" {
		r.config.Counters.Dropped(unread)
		return nil
	}
	v := r.consider(m, now)
	if v.sighting.Addr.IsValid() {
		r.config.Seen(v.sighting)
	}
	if v.drop != "" {
		r.config.Counters.Dropped(v.drop)
		return nil
	}
	switch err := r.send(r.protocol.answer(m), answerTries); {
	case errors.Is(err, unix.ENOBUFS): // who asks will ask again
		r.config.Counters.Unsent()
	case err != nil:
		return fmt.Errorf("answering by %s: %w", r.protocol.name(), err)
	default:
		r.config.Counters.Replied()
	}
	return nil
}

// consider decides on a message, and learns who asks.
func (r *Responder) consider(m message, now time.Time) verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := judge(m, r.mac, func(a netip.Addr) bool { return contains(r.heard, a) }, r.ownsLocked)
	if v.learn && contains(r.pooled, m.asks) {
		r.askers.learn(asker{addr: m.sender, mac: m.source}, m.asks, now)
	}
	if v.drop == NotOwned && r.crowd.comes(now) {
		r.refilterLocked(now)
		r.wakeAnnouncer()
	}
	return v
}

// ownsLocked says whether an address is answered for. The caller holds mu.
func (r *Responder) ownsLocked(a netip.Addr) bool {
	_, owned := r.owned[a]
	return owned
}
