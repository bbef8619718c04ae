package speaker

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/links"
	"github.com/lanyard-dev/lanyard/internal/responder"
)

// How a node whose speaker was lost is asked whether anything of it still answers. A node is silent after silentAfter rounds without an answer. A
// round takes as long as its kubelet has time to accept a connection: within one segment that is a millisecond.
const (
	silentAfter   = 2
	acceptWithin  = 400 * time.Millisecond
	askedTogether = 32
)

// reply is how a node's kubelet answers a connection.
type reply int

// The replies. A connection that is refused is an answer. Unknown: it failed on this node, and says nothing of the other one.
const (
	replyUnknown reply = iota
	replyNone
	replyGiven
)

// suspect is a node whose speaker was lost.
type suspect struct {
	// since is when that was.
	since time.Time
	// hosts are its addresses on this node's links, kubelet is where its kubelet listens.
	hosts   []host
	kubelet netip.AddrPort
	// unanswered counts rounds; an answer ends the count.
	unanswered int
	// answered and unasked say how the round that is under way stands: it was answered, or this node could not ask.
	answered, unasked bool
}

func (s *suspect) silent() bool { return s.unanswered >= silentAfter }

// silence finds out of which nodes, whose speakers were lost, nothing answers: neither their addresses, by ARP or NDP, nor their kubelets, by TCP. A
// speaker alone may have crashed.
type silence struct {
	// wake is woken when a node falls silent, or answers again.
	wake chan<- struct{}
	dial dialer
	// begun wakes run when there is somebody to ask.
	begun chan struct{}

	mu       sync.Mutex
	ask      func(host)
	suspects map[string]*suspect
}

func newSilence(wake chan<- struct{}) *silence {
	return &silence{wake: wake, dial: connect, begun: make(chan struct{}, 1), ask: func(host) {}, suspects: map[string]*suspect{}}
}

// suspectsOf are the nodes whose speakers were lost and that can be asked, with where; none unless the configuration asks for it.
func suspectsOf(s snapshot, detection v1alpha1.FailureDetectionSpec, interfaces []links.Interface) map[string]suspect {
	all := map[string]suspect{}
	if detection.MarkPodsNotReady != v1alpha1.MarkPodsNotReadyEnabled {
		return all
	}
	for _, n := range s.nodes {
		if !slices.Contains(s.lost, n.name) || !n.kubelet.IsValid() {
			continue
		}
		asked := suspect{kubelet: n.kubelet}
		for _, i := range interfaces {
			for _, addr := range n.addrs {
				if h, near := neighbour(i, addr); near {
					asked.hosts = append(asked.hosts, h)
				}
			}
		}
		all[n.name] = asked
	}
	return all
}

// watch sets whom to ask, and how. It returns the addresses of which answers are to be heard.
func (s *silence) watch(suspects map[string]suspect, ask func(host), now time.Time) (hosts []host) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ask = ask
	maps.DeleteFunc(s.suspects, func(node string, _ *suspect) bool { _, still := suspects[node]; return !still })
	for node, latest := range suspects {
		known := s.suspects[node]
		if known == nil {
			known = &suspect{since: now}
			s.suspects[node] = known
			wake(s.begun)
		}
		known.hosts, known.kubelet = latest.hosts, latest.kubelet
		hosts = append(hosts, latest.hosts...)
	}
	return hosts
}

// found returns of which nodes nothing answers, and since when their speakers are lost.
func (s *silence) found() map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	silent := map[string]time.Time{}
	for node, asked := range s.suspects {
		if asked.silent() {
			silent[node] = asked.since
		}
	}
	return silent
}

// heard takes in what a host says of its own address. It is called for many packets, of which few are about suspects.
func (s *silence) heard(sighting responder.Sighting) {
	if sighting.Kind != responder.Claimed {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, asked := range s.suspects {
		if slices.ContainsFunc(asked.hosts, func(h host) bool { return h.addr == sighting.Addr }) {
			s.answeredLocked(asked)
		}
	}
}

// answeredLocked notes that a node has answered. The caller holds mu.
func (s *silence) answeredLocked(asked *suspect) {
	if asked.silent() {
		wake(s.wake)
	}
	asked.answered, asked.unanswered = true, 0
}

// run asks in rounds while there is anybody to ask, until the context ends.
func (s *silence) run(ctx context.Context) error {
	var again <-chan time.Time // nil while there is nobody
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.begun:
		case <-again:
		}
		again = nil
		if pause, pending := s.round(ctx); pending {
			again = time.After(pause)
		}
	}
}

// round asks every suspect once. It says when the next round is due: at once while it is open whether a node is silent, in a second else.
func (s *silence) round(ctx context.Context) (pause time.Duration, pending bool) {
	answersUntil := time.After(acceptWithin)
	var connections errgroup.Group
	connections.SetLimit(askedTogether)
	ask, asked := s.beginRound()
	for a, where := range asked {
		for _, h := range where.hosts {
			ask(h)
		}
		connections.Go(func() error {
			within, cancel := context.WithTimeout(ctx, acceptWithin)
			defer cancel()
			s.replied(a, replyOf(s.dial(within, where.kubelet)))
			return nil
		})
	}
	_ = connections.Wait() // none returns an error
	select {
	case <-ctx.Done():
		return 0, false
	case <-answersUntil: // those by ARP and NDP have as long
	}
	return s.endRound(asked)
}

// beginRound returns whom to ask, and how.
func (s *silence) beginRound() (ask func(host), asked map[*suspect]suspect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked = make(map[*suspect]suspect, len(s.suspects))
	for _, a := range s.suspects {
		a.answered, a.unasked = false, false
		asked[a] = *a
	}
	return s.ask, asked
}

// replied takes in how a node's kubelet answered.
func (s *silence) replied(asked *suspect, r reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r {
	case replyGiven:
		s.answeredLocked(asked)
	case replyUnknown:
		asked.unasked = true
	case replyNone:
	}
}

// endRound counts it for those who have not answered.
func (s *silence) endRound(asked map[*suspect]suspect) (pause time.Duration, pending bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pause = askHostsEvery
	for _, a := range s.suspects {
		if _, took := asked[a]; !took || a.answered || a.unasked {
			continue // who came meanwhile has begun another round
		}
		if a.unanswered++; a.unanswered == silentAfter {
			wake(s.wake)
		}
		if !a.silent() {
			pause = 0
		}
	}
	return pause, len(s.suspects) > 0
}

// replyOf says what the end of an attempt at a connection says of the other side.
func replyOf(err error) reply {
	var timeout net.Error
	switch {
	case err == nil, errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return replyGiven
	case errors.Is(err, syscall.EHOSTUNREACH), errors.As(err, &timeout) && timeout.Timeout():
		return replyNone
	}
	return replyUnknown
}
