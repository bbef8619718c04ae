package membership

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// The failure detector's times, for a LAN. Each member probes one other every 100 ms, in an order that it draws anew each round. Of three,
// two survivors have each its turn at the dead one every 200 ms, so that the first of them probes it after 70 ms on average. It waits
// probeInterval, 100 ms, for the answer, also by way of others, and then suspects it: for suspicionMult · max(1, log10(3)) · probeInterval,
// 200 ms, in which the suspected can object. That is 370 ms, and gossip tells the third within one interval, 50 ms. At a hundred members a
// suspicion lasts twice as long. Probes and gossip take one percent of a core.
//
// suspicionMult 1 would be faster by 100 ms, and take a speaker for dead that does not get the processor for a fifth of a second. From 3
// on, memberlist would wait for others to confirm, up to suspicionMaxMult times as long; at 2 it waits for none, and suspicionMaxMult has
// no effect. awarenessMax: a member that finds itself slow probes at half the rate at worst.
const (
	probeInterval    = 100 * time.Millisecond
	probeTimeout     = 40 * time.Millisecond
	indirectChecks   = 3
	suspicionMult    = 2
	suspicionMaxMult = 2
	awarenessMax     = 2
)

// How what changes is told. A round of gossip with something to tell reaches three others; one with nothing sends nothing, but wakes the
// program: on a virtual machine, rounds every 20 ms take half as much of a core again as all else does that an idle group has to do.
const (
	gossipInterval = 50 * time.Millisecond
	// retransmitMult is how often a message is sent, times the decimal digits of the number of members.
	retransmitMult = 4
	// pushPullInterval is how often a member compares all that it knows with another: what gossip lost is repaired by then.
	pushPullInterval = 5 * time.Second
	// reclaimTime is how long a dead member's name is kept from another address: memberlist's 0 would mean until it is forgotten, in 30 s.
	reclaimTime = time.Nanosecond
)

// How the others are met and told.
const (
	rejoinInterval = 500 * time.Millisecond
	toldWithin     = time.Second
	// holdTimeout is how long a peer has to take in a hold.
	holdTimeout = 500 * time.Millisecond
	// meetTimeout is how long a peer has to answer, and callsAtOnce how many are contacted at once: many may be down.
	meetTimeout = time.Second
	callsAtOnce = 8
)

// Config is what a member needs to know.
type Config struct {
	Node string
	Addr netip.Addr
	Port int
	// Keys decrypt the gossip, and the first one encrypts it: 16, 24 or 32 bytes each.
	Keys [][]byte
	// Log receives memberlist's own lines.
	Log io.Writer
}

// Group is this speaker's membership in the group of speakers.
type Group struct {
	list    *memberlist.Memberlist
	ring    *memberlist.Keyring
	member  *member
	changed chan struct{}
	// met is closed once every peer has been contacted.
	met chan struct{}
}

// Join starts the membership. The speaker is alone until Run has met others.
func Join(c Config) (*Group, error) {
	ring, err := newRing(c.Keys)
	if err != nil {
		return nil, fmt.Errorf("encrypting the gossip: %w", err)
	}
	g := &Group{ring: ring, changed: make(chan struct{}, 1), met: make(chan struct{})}
	g.member = newMember(c.Node, g.wake)
	logger := log.New(c.Log, "", 0)
	port, err := listen(netip.AddrPortFrom(c.Addr, uint16(c.Port)), logger) //nolint:gosec // a port
	if err != nil {
		return nil, fmt.Errorf("opening the membership port %d on %s (does another program have it? spec.speaker.membershipPort sets another): %w", c.Port, c.Addr, err)
	}
	list, err := memberlist.Create(configure(c.Node, port, ring, g.member, logger))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the membership: %w", err), port.Shutdown())
	}
	g.list = list
	// The message is queued when this returns. The only error is that it was not waited for until it is out, which may take a second.
	g.member.reach(func() { _ = list.UpdateNode(time.Nanosecond) })
	g.member.introduce() // a message that came meanwhile may have changed it
	return g, nil
}

// configure is how memberlist runs.
func configure(node string, port *transport, ring *memberlist.Keyring, m *member, logger *log.Logger) *memberlist.Config {
	cfg := memberlist.DefaultLANConfig()
	cfg.Name = node
	cfg.Transport = port
	cfg.BindAddr, cfg.BindPort = port.at.Addr().String(), int(port.at.Port())
	cfg.AdvertiseAddr, cfg.AdvertisePort = cfg.BindAddr, cfg.BindPort
	cfg.Keyring = ring
	cfg.ProbeInterval, cfg.ProbeTimeout, cfg.IndirectChecks = probeInterval, probeTimeout, indirectChecks
	cfg.SuspicionMult, cfg.SuspicionMaxTimeoutMult = suspicionMult, suspicionMaxMult
	cfg.AwarenessMaxMultiplier = awarenessMax
	cfg.GossipInterval, cfg.RetransmitMult, cfg.PushPullInterval = gossipInterval, retransmitMult, pushPullInterval
	cfg.DeadNodeReclaimTime = reclaimTime
	cfg.TCPTimeout = meetTimeout
	cfg.DisableTcpPings = true
	cfg.EnableCompression = false // the messages are small, and encrypted afterwards
	cfg.Delegate, cfg.Events, cfg.Ping = m, m, m
	cfg.Logger = logger
	return cfg
}

// Changed receives when the members, what one of them serves or claims, or who is lost, has changed.
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
			if _, known := g.peers()[node]; !known && node != g.member.view.self {
				// The error says that nobody answered, which the list of members says too; memberlist logs why.
				_, _ = g.list.Join([]string{peers[node].String()})
			}
		})
	}
}

// peers are the others that live, and where.
func (g *Group) peers() map[string]netip.AddrPort {
	peers := map[string]netip.AddrPort{}
	g.member.locked(func(v *view, _ time.Time) {
		for node, r := range v.records {
			if r.living && node != v.self {
				peers[node] = r.at
			}
		}
	})
	return peers
}

// leave tells the others that this speaker goes. Those that did not take it in, because they go themselves perhaps, find out as they do of
// a death: there is nothing that anybody would do about it. memberlist does not let it tell the difference between both, so that it says
// itself first that it goes.
func (g *Group) leave() {
	var (
		farewell message
		said     bool
	)
	g.member.locked(func(v *view, _ time.Time) { farewell, said = v.leave() })
	if said && len(g.peers()) > 0 {
		b := &broadcast{message: farewell.encode(), sent: make(chan struct{})}
		g.member.queue.QueueBroadcast(b)
		select {
		case <-b.sent:
		case <-time.After(toldWithin):
		}
	}
	_ = g.list.Leave(toldWithin)
}

// close frees the port. Without leave before it, it looks to the others as if the speaker had died.
func (g *Group) close() error {
	g.member.stop()
	if err := g.list.Shutdown(); err != nil {
		return fmt.Errorf("closing the membership port: %w", err)
	}
	return nil
}

// Members returns the speakers that live, this one included, and those that are held over their restart. Each has the segments that it has
// told that it serves, and what it claims, the older claims included of one that restarted and has not said yet what it claims now.
func (g *Group) Members() map[string]Member {
	var members map[string]Member
	g.member.locked(func(v *view, _ time.Time) { members = v.members() })
	return members
}

// Serve tells the others which segments this node serves now. It does not wait until they have heard it. What does not fit is not told.
func (g *Group) Serve(segments []Segment) {
	text, _ := encode(segments)
	if g.member.set(text) {
		g.member.introduce()
	}
}

// Claim replaces what this node claims, and tells the others. It does not wait until they have heard it. Its first call says what becomes of
// the claims that they keep from before a restart, even if it is that there are none. Addresses with a zone cannot be claimed.
func (g *Group) Claim(claims map[netip.Addr]Claim) {
	var changes []message
	g.member.locked(func(v *view, _ time.Time) { changes = v.claim(claims) })
	if len(changes) > 0 {
		g.member.tell(changes)
		g.wake()
	}
}

// Former returns what the others keep for this node from before its restart. It is known once Met is closed, and empty once Claim was called.
func (g *Group) Former() map[netip.Addr]Claim {
	var former map[netip.Addr]Claim
	g.member.locked(func(v *view, _ time.Time) {
		if !v.told {
			former = v.former.claims()
		}
	})
	return former
}

// Epochs returns the highest epoch of each address that was heard of anybody, this node included. Those of addresses that nobody claims may
// be forgotten if there are very many.
func (g *Group) Epochs() map[netip.Addr]uint64 {
	var epochs map[netip.Addr]uint64
	g.member.locked(func(v *view, _ time.Time) { epochs = maps.Clone(v.epochs) })
	return epochs
}

// Lost returns, sorted, the members that died: that neither said that they leave, nor are held, nor came back. One whose hold ran out is
// lost, too: nobody knows what has become of it.
func (g *Group) Lost() []string {
	var lost []string
	g.member.locked(func(v *view, _ time.Time) { lost = v.lost() })
	return lost
}

// Answered returns when a member answered this speaker last that it lives; zero if it never did.
func (g *Group) Answered(node string) (last time.Time) {
	g.member.locked(func(v *view, _ time.Time) {
		if r, known := v.records[node]; known {
			last = r.answered
		}
	})
	return last
}

// Forget drops what is known of nodes that are no members, and that keep does not want: they are not in the cluster any more.
func (g *Group) Forget(keep func(node string) bool) {
	g.member.locked(func(v *view, _ time.Time) { v.forget(keep) })
}

// Hold asks the others to keep this node's claims and segments for a time, an hour at most, because its speaker restarts. It returns when
// each was told, or did not listen, or the context ended; the error names those that were not told. Run does not say afterwards that this
// speaker leaves for good.
func (g *Group) Hold(ctx context.Context, d time.Duration) error {
	var text []byte
	g.member.locked(func(v *view, now time.Time) { text = v.hold(d, now).encode() })
	ctx, cancel := context.WithTimeout(ctx, holdTimeout)
	defer cancel()
	peers := g.peers()
	told := make(chan string, len(peers))
	for node, at := range peers {
		to := &memberlist.Node{Name: node, Addr: at.Addr().AsSlice(), Port: at.Port()}
		// It does not outlast meetTimeout by much: a short message does not wait for its reader.
		go func() {
			if err := g.list.SendReliable(to, text); err == nil {
				told <- node
				return
			}
			told <- ""
		}()
	}
	for range len(peers) {
		select {
		case node := <-told:
			delete(peers, node)
		case <-ctx.Done():
		}
	}
	if len(peers) > 0 {
		return fmt.Errorf("asking the other speakers to keep what this one claims: not told: %s", strings.Join(slices.Sorted(maps.Keys(peers)), ", "))
	}
	return nil
}
