package membership

import (
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// The failure detector's times, for a LAN: a dead speaker is known to all in about a second, at half a percent of a core.
const (
	probeInterval    = 200 * time.Millisecond
	probeTimeout     = 80 * time.Millisecond
	gossipInterval   = 50 * time.Millisecond
	suspicionMult    = 2
	suspicionMaxMult = 2
	awarenessMax     = 2
	rejoinInterval   = 2 * time.Second
	toldWithin       = time.Second
	// meetTimeout is how long a peer has to answer, and callsAtOnce how many are contacted at once: many may be down.
	meetTimeout = time.Second
	callsAtOnce = 8
)

// metaLimit is how many bytes of its own a member can tell the others: what memberlist carries.
const metaLimit = memberlist.MetaMaxSize

// Segment is an interface with carrier and the subnet of one of its addresses.
type Segment struct {
	Interface string
	Prefix    netip.Prefix
}

// Config is what a member needs to know.
type Config struct {
	Node string
	Addr netip.Addr
	Port int
	// Key encrypts the gossip: 16, 24 or 32 bytes.
	Key []byte
	// Log receives memberlist's own lines.
	Log io.Writer
}

// Group is this speaker's membership in the group of speakers.
type Group struct {
	list    *memberlist.Memberlist
	member  *member
	changed chan struct{}
	// met is closed once every peer has been contacted.
	met chan struct{}
}

// Join starts the membership. The speaker is alone until Run has met others.
func Join(c Config) (*Group, error) {
	g := &Group{changed: make(chan struct{}, 1), met: make(chan struct{}), member: &member{living: map[string][]Segment{}}}
	g.member.wake = g.wake
	cfg := memberlist.DefaultLANConfig()
	cfg.Name = c.Node
	cfg.BindAddr, cfg.BindPort = c.Addr.String(), c.Port
	cfg.AdvertiseAddr, cfg.AdvertisePort = c.Addr.String(), c.Port
	cfg.SecretKey = c.Key
	cfg.ProbeInterval, cfg.ProbeTimeout = probeInterval, probeTimeout
	cfg.GossipInterval = gossipInterval
	cfg.SuspicionMult, cfg.SuspicionMaxTimeoutMult = suspicionMult, suspicionMaxMult
	cfg.AwarenessMaxMultiplier = awarenessMax
	cfg.TCPTimeout = meetTimeout
	cfg.DisableTcpPings = true
	cfg.Delegate, cfg.Events = g.member, g.member
	cfg.Logger = log.New(c.Log, "", 0)
	list, err := memberlist.Create(cfg)
	if err != nil {
		return nil, fmt.Errorf("opening the membership port %d on %s (does another program have it? spec.speaker.membershipPort sets another): %w", c.Port, c.Addr, err)
	}
	g.list = list
	return g, nil
}

// Changed receives when the group, or what a member can serve, has changed.
func (g *Group) Changed() <-chan struct{} { return g.changed }

// Met is closed once every peer that Run was told of has been contacted: who does not know the others yet would take itself for alone.
func (g *Group) Met() <-chan struct{} { return g.met }

func (g *Group) wake() {
	select {
	case g.changed <- struct{}{}:
	default: // a signal is pending already
	}
}

// Run joins those of the peers that are not in the group, every few seconds, until the context ends: a group that was split comes together
// again. Then it leaves, so that the others need not find out, even while a peer lets it wait for an answer.
func (g *Group) Run(ctx context.Context, peers func() map[string]netip.AddrPort) error {
	var meeting sync.WaitGroup
	meeting.Go(func() {
		tick := time.NewTicker(rejoinInterval)
		defer tick.Stop()
		g.meet(ctx, peers())
		close(g.met)
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-tick.C:
				g.meet(ctx, peers())
			}
		}
	})
	<-ctx.Done()
	g.leave()
	meeting.Wait()
	return g.close()
}

// meet contacts the peers that are not in the group, some at a time. One that cannot be reached is tried again: it may have no speaker.
func (g *Group) meet(ctx context.Context, peers map[string]netip.AddrPort) {
	var calls sync.WaitGroup
	defer calls.Wait()
	free := make(chan struct{}, callsAtOnce)
	for _, node := range slices.Sorted(maps.Keys(peers)) {
		free <- struct{}{}
		if ctx.Err() != nil {
			return
		}
		calls.Go(func() {
			defer func() { <-free }()
			// Meeting one often brings others.
			if _, known := g.Members()[node]; !known {
				// The error says that nobody answered, which the list of members says too; memberlist logs why.
				_, _ = g.list.Join([]string{peers[node].String()})
			}
		})
	}
}

// leave tells the others that this speaker goes. Those that did not take it in, because they go themselves perhaps, find out as they do of
// a death: there is nothing that anybody would do about it.
func (g *Group) leave() { _ = g.list.Leave(toldWithin) }

// close frees the port. Without leave before it, it looks to the others as if the speaker had died.
func (g *Group) close() error {
	if err := g.list.Shutdown(); err != nil {
		return fmt.Errorf("closing the membership port: %w", err)
	}
	return nil
}

// Members returns the living speakers, this one included, and the segments that each has told that it serves.
func (g *Group) Members() map[string][]Segment { return g.member.everyone() }

// Fit returns the segments that fit into what a member can tell the others: those that do not are nobody's, so that all decide from the
// same. The error says how many were left out.
func Fit(segments []Segment) ([]Segment, error) {
	_, left := encode(segments)
	if left == 0 {
		return segments, nil
	}
	return segments[:len(segments)-left], fmt.Errorf(
		"%d subnets of this node do not fit into what the speakers tell each other: addresses there are not announced from here", left)
}

// Serve tells the others which segments this node serves now. It does not wait until they have heard it. What does not fit is not told.
func (g *Group) Serve(segments []Segment) {
	meta, _ := encode(segments)
	if g.member.set(meta) {
		// The message is queued when this returns. The only error is that it was not waited for until it is out, which may take a second.
		_ = g.list.UpdateNode(time.Nanosecond)
	}
}

// encode writes segments as "eth0=192.168.1.0/24,…", as many as fit, and says how many do not. Linux allows commas and equals signs in
// names, which are escaped.
func encode(segments []Segment) (meta []byte, left int) {
	for i, s := range segments {
		entry := url.QueryEscape(s.Interface) + "=" + s.Prefix.Masked().String()
		if i > 0 {
			entry = "," + entry
		}
		if len(meta)+len(entry) > metaLimit {
			return meta, len(segments) - i
		}
		meta = append(meta, entry...)
	}
	return meta, 0
}

// decode reads what encode wrote. An entry that it cannot read, of a newer speaker perhaps, is no segment.
func decode(meta []byte) []Segment {
	var segments []Segment
	for _, entry := range strings.Split(string(meta), ",") {
		escaped, text, _ := strings.Cut(entry, "=")
		name, nameErr := url.QueryUnescape(escaped)
		prefix, prefixErr := netip.ParsePrefix(text)
		if name != "" && nameErr == nil && prefixErr == nil {
			segments = append(segments, Segment{Interface: name, Prefix: prefix.Masked()})
		}
	}
	return segments
}
