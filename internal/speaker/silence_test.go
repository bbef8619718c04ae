package speaker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/links"
	"github.com/lanyard-dev/lanyard/internal/responder"
)

var marking = v1alpha1.FailureDetectionSpec{MarkPodsNotReady: v1alpha1.MarkPodsNotReadyEnabled}

func TestSuspectsAreLostNodesThatCanBeAsked(t *testing.T) {
	s := rack()
	s.lost = []string{"w2", "w3", "unknown"}
	s.nodes[2].addrs, s.nodes[2].kubelet = addrs("192.168.1.12", "10.0.0.12"), netip.MustParseAddrPort("192.168.1.12:10250")
	s.nodes = append(s.nodes, node{name: "w3"}) // without an address
	interfaces := []links.Interface{{Name: "eth0", Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.1.11/24")}}}
	want := map[string]suspect{"w2": {hosts: []host{peer}, kubelet: netip.MustParseAddrPort("192.168.1.12:10250")}}
	if diff := cmp.Diff(want, suspectsOf(s, marking, interfaces), cmp.AllowUnexported(suspect{}, host{}), compareValues); diff != "" {
		t.Errorf("suspects (-want +got):\n%s", diff)
	}
	if got := suspectsOf(s, v1alpha1.FailureDetectionSpec{}, interfaces); len(got) != 0 {
		t.Errorf("%v are asked although nobody wants to know", got)
	}
}

func TestReplies(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want reply
	}{
		"accepted": {want: replyGiven},
		"refused: the node lives, its kubelet does not": {err: syscall.ECONNREFUSED, want: replyGiven},
		"reset":                       {err: syscall.ECONNRESET, want: replyGiven},
		"nothing came back":           {err: os.ErrDeadlineExceeded, want: replyNone},
		"nobody answers by ARP":       {err: syscall.EHOSTUNREACH, want: replyNone},
		"this node has no way there":  {err: syscall.ENETUNREACH, want: replyUnknown},
		"this node forbids it":        {err: syscall.EPERM, want: replyUnknown},
		"this node has no descriptor": {err: syscall.EMFILE, want: replyUnknown},
		"something that nobody knows": {err: errors.New("?"), want: replyUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.err
			if err != nil {
				err = fmt.Errorf("wrapped: %w", &net.OpError{Op: "dial", Net: "tcp", Err: err})
			}
			if got := replyOf(err); got != tc.want {
				t.Errorf("%v says %d, want %d", err, got, tc.want)
			}
		})
	}
}

// lostNode is a node whose speaker is lost and that has an address on the link, as it is asked.
type lostNode struct {
	*silence
	wake chan struct{}
	// dial is how connections to its kubelet end, and answersARP whether its address does.
	dial       func(context.Context) error
	answersARP bool
}

func watchLost(ctx context.Context, t *testing.T) *lostNode {
	wake := make(chan struct{}, 1)
	l := &lostNode{silence: newSilence(wake), wake: wake, dial: nothing}
	l.silence.dial = func(ctx context.Context, _ netip.AddrPort) error { return l.dial(ctx) }
	go func() {
		if err := l.run(ctx); err != nil {
			t.Error(err)
		}
	}()
	l.lose()
	return l
}

// lose says that the node's speaker is lost.
func (l *lostNode) lose() {
	l.watch(map[string]suspect{"w2": {hosts: []host{peer}, kubelet: netip.MustParseAddrPort("192.168.1.12:10250")}}, func(h host) {
		if l.answersARP {
			l.heard(responder.Sighting{Kind: responder.Claimed, Addr: h.addr})
		}
	}, time.Now())
}

// nothing is a connection that nobody answers, and refused one that a node without kubelet does.
func nothing(ctx context.Context) error { <-ctx.Done(); return os.ErrDeadlineExceeded }
func refused(context.Context) error     { return syscall.ECONNREFUSED }

// besideALostNode runs a test in which a node was just lost and is asked.
func besideALostNode(t *testing.T, do func(t *testing.T, l *lostNode)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		do(t, watchLost(ctx, t))
	})
}

// silentAt says after each time, from the loss on, whether the node is silent.
func (l *lostNode) silentAt(times ...time.Duration) map[time.Duration]bool {
	began, said := time.Now(), map[time.Duration]bool{}
	for _, at := range times {
		time.Sleep(time.Until(began.Add(at)))
		synctest.Wait()
		_, said[at] = l.found()["w2"]
	}
	return said
}

func TestANodeIsSilentWhenNothingOfItAnswers(t *testing.T) {
	early, late := 790*time.Millisecond, 810*time.Millisecond
	for name, tc := range map[string]struct {
		change func(*lostNode)
		want   bool
	}{
		"nothing answers, twice 400 ms": {change: func(*lostNode) {}, want: true},
		"its kubelet refuses":           {change: func(l *lostNode) { l.dial = refused }},
		"its address answers":           {change: func(l *lostNode) { l.answersARP = true }},
		"this node cannot ask":          {change: func(l *lostNode) { l.dial = func(context.Context) error { return syscall.ENETUNREACH } }},
	} {
		t.Run(name, func(t *testing.T) {
			besideALostNode(t, func(t *testing.T, l *lostNode) {
				tc.change(l)
				lost := time.Now()
				if diff := cmp.Diff(map[time.Duration]bool{early: false, late: tc.want}, l.silentAt(early, late)); diff != "" {
					t.Errorf("silent (-want +got):\n%s", diff)
				}
				if since, silent := l.found()["w2"]; silent && !since.Equal(lost) {
					t.Errorf("silent since %v, want %v", since, lost)
				}
				if woken := len(l.wake) > 0; woken != tc.want {
					t.Errorf("the loop is woken: %v, want %v", woken, tc.want)
				}
			})
		})
	}
}

func TestASilentNodeThatAnswersIsSilentNoMore(t *testing.T) {
	besideALostNode(t, func(t *testing.T, l *lostNode) {
		l.silentAt(time.Second)
		<-l.wake
		l.dial = refused
		if got := l.silentAt(1100 * time.Millisecond); got[1100*time.Millisecond] {
			t.Error("it is still silent after a round in which its kubelet refused")
		}
		select {
		case <-l.wake:
		default:
			t.Error("the loop was not woken")
		}
	})
}

// TestWhoIsLostAgainIsAskedAnew: what was known from the time before does not count.
func TestWhoIsLostAgainIsAskedAnew(t *testing.T) {
	besideALostNode(t, func(t *testing.T, l *lostNode) {
		l.silentAt(time.Second)
		l.watch(nil, func(host) {}, time.Now())
		l.silentAt(5 * time.Second)
		l.lose()
		early, late := 790*time.Millisecond, 810*time.Millisecond
		if diff := cmp.Diff(map[time.Duration]bool{early: false, late: true}, l.silentAt(early, late)); diff != "" {
			t.Errorf("silent (-want +got):\n%s", diff)
		}
	})
}
