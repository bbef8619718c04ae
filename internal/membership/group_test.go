package membership

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var loopback = netip.MustParseAddr("127.0.0.1")

// join starts a member on a free port.
func join(t *testing.T, node string) *Group {
	t.Helper()
	return rejoin(t, node, 0)
}

// rejoin starts a member on a port that it had before.
func rejoin(t *testing.T, node string, port uint16) *Group {
	t.Helper()
	return rejoinWith(t, node, port, io.Discard, oldKey)
}

// rejoinWith starts a member with other keys, and lets it log.
func rejoinWith(t *testing.T, node string, port uint16, log io.Writer, keys ...[]byte) *Group {
	t.Helper()
	g, err := Join(Config{Node: node, Addr: loopback, Port: int(port), Keys: keys, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.close() })
	return g
}

// at is where a member is met.
func (g *Group) at() netip.AddrPort { return netip.AddrPortFrom(loopback, g.list.LocalNode().Port) }

// group starts three members that tell one subnet each, and lets them meet. a and b go on meeting whoever is missing; c is the one to die.
func group(t *testing.T) (a, b, c *Group) {
	t.Helper()
	a, b, c = join(t, "a"), join(t, "b"), join(t, "c")
	for g, prefix := range map[*Group]string{a: "10.0.1.0/24", b: "10.0.2.0/24", c: "10.0.3.0/24"} {
		g.Serve([]Segment{on("eth0", prefix)})
	}
	peers := map[string]netip.AddrPort{"a": a.at(), "b": b.at(), "c": c.at()}
	run(t, a, peers)
	run(t, b, peers)
	for _, g := range []*Group{a, b, c} {
		await(t, g, everyone)
	}
	return a, b, c
}

// run lets a member meet whoever of the peers is missing, until the test ends.
func run(t *testing.T, g *Group, peers map[string]netip.AddrPort) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx, func() map[string]netip.AddrPort { return peers }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("a member ended with %v", err)
		}
	})
}

var everyone = map[string]Member{
	"a": {Segments: []Segment{on("eth0", "10.0.1.0/24")}},
	"b": {Segments: []Segment{on("eth0", "10.0.2.0/24")}},
	"c": {Segments: []Segment{on("eth0", "10.0.3.0/24")}},
}

// except returns the members without one.
func except(node string) map[string]Member {
	rest := maps.Clone(everyone)
	delete(rest, node)
	return rest
}

// await waits until a member sees these members. It looks only when it is told that something has changed.
func await(t *testing.T, g *Group, want map[string]Member) {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		diff := cmp.Diff(want, g.Members(), compareAll, cmpopts.EquateEmpty())
		if diff == "" {
			return
		}
		select {
		case <-g.Changed():
		case <-late:
			t.Fatalf("what %s sees does not become what is so (-want +got):\n%s", g.list.LocalNode().Name, diff)
		}
	}
}

// TestAMemberThatLeavesIsGone: its word is enough. It goes on answering probes here, so that nobody could find its absence.
func TestAMemberThatLeavesIsGone(t *testing.T) {
	a, b, c := group(t)
	c.leave()
	await(t, a, except("c"))
	await(t, b, except("c"))
}

// TestASilentDeathIsNoticed, and the member is met again when it comes back under the same name and port.
func TestASilentDeathIsNoticed(t *testing.T) {
	a, b, c := group(t)
	at := c.at()
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	await(t, a, except("c"))
	await(t, b, except("c"))

	c = rejoin(t, "c", at.Port())
	c.Serve(everyone["c"].Segments)
	run(t, c, map[string]netip.AddrPort{"a": a.at(), "b": b.at()}) // it may be known to the others before it knows them
	for _, g := range []*Group{a, b, c} {
		await(t, g, everyone)
	}
}

// TestWhoComesBackServesNothingYet, though it was away for so short a time that nobody noticed: what it served before is forgotten.
// TestAnswered is when a member showed last that it lives: while it does, and no more.
func TestAnswered(t *testing.T) {
	a, _, c := group(t)
	start := time.Now()
	if got := a.Answered("nobody"); !got.IsZero() {
		t.Errorf("a node that there is not answered at %v", got)
	}
	for deadline := start.Add(10 * time.Second); a.Answered("c").Before(start); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the last answer is of %v, before %v", a.Answered("c"), start)
		}
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	closed := time.Now()
	await(t, a, except("c"))
	if last := a.Answered("c"); last.IsZero() || last.After(closed) {
		t.Errorf("the last answer is of %v, and its port was closed at %v", last, closed)
	}
}

func TestWhoComesBackServesNothingYet(t *testing.T) {
	a, b, c := group(t)
	at := c.at()
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	c = rejoin(t, "c", at.Port())
	run(t, c, map[string]netip.AddrPort{"a": a.at(), "b": b.at()})
	want := except("c")
	want["c"] = Member{}
	for _, g := range []*Group{a, b, c} {
		await(t, g, want)
	}
}

// TestAChangedInterfaceIsHeard by the others. What does not fit is told to nobody, the member itself included: all decide from the same.
func TestAChangedInterfaceIsHeard(t *testing.T) {
	a, b, c := group(t)
	long := strings.Repeat("x", segmentsLimit)
	segments := []Segment{on("eth1", "10.0.4.0/24"), on(long, "10.0.5.0/24")}
	c.Serve(segments)
	fitting, err := Fit(segments)
	wantErr := "1 subnets of this node do not fit into what the speakers tell each other: addresses there are not announced from here"
	if err == nil || err.Error() != wantErr {
		t.Errorf("error is %v, want %s", err, wantErr)
	}
	if diff := cmp.Diff(segments[:1], fitting, comparePrefix); diff != "" {
		t.Errorf("what fits (-want +got):\n%s", diff)
	}
	want := except("c")
	want["c"] = Member{Segments: fitting}
	for _, g := range []*Group{a, b, c} {
		await(t, g, want)
	}
}

// TestServeWaitsForNobody: a pass that takes an address over must not stand still until a peer has heard of it, even one that is dead and
// not yet known to be.
func TestServeWaitsForNobody(t *testing.T) {
	a, _, c := group(t)
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	told := make(chan struct{})
	go func() {
		for i := range 100 { // each would wait for the gossip's next round, 50 ms
			a.Serve([]Segment{on("eth0", "10.0.1.0/24"), on(fmt.Sprintf("eth%d", i+1), "10.0.6.0/24")})
		}
		close(told)
	}()
	select {
	case <-told:
	case <-time.After(2 * time.Second):
		t.Error("a hundred changes take more than two seconds to tell")
	}
}

// TestMetOnceEveryPeerWasCalled, those that do not answer as well.
func TestMetOnceEveryPeerWasCalled(t *testing.T) {
	a, b := join(t, "a"), join(t, "b")
	b.Serve(everyone["b"].Segments)
	select {
	case <-a.Met():
		t.Error("it has met the others before it was told of them")
	default:
	}
	nobody := netip.AddrPortFrom(loopback, 1)
	run(t, a, map[string]netip.AddrPort{"0": nobody, "b": b.at(), "z": nobody})
	select {
	case <-a.Met():
	case <-time.After(20 * time.Second):
		t.Fatal("it never says that it has met the others")
	}
	want := map[string]Member{"a": {}, "b": everyone["b"]}
	if diff := cmp.Diff(want, a.Members(), comparePrefix); diff != "" {
		t.Errorf("members then (-want +got):\n%s", diff)
	}
}

// TestAnotherKeyIsAnotherGroup: a program without the key neither hears nor is heard.
func TestAnotherKeyIsAnotherGroup(t *testing.T) {
	a := join(t, "a")
	stranger := rejoinWith(t, "b", 0, io.Discard, newKey)
	stranger.meet(t.Context(), map[string]netip.AddrPort{"a": a.at()}) // returns when it is refused
	for _, g := range []*Group{a, stranger} {
		if n := len(g.Members()); n != 1 {
			t.Errorf("%s sees %d members, want itself alone", g.list.LocalNode().Name, n)
		}
	}
}

func TestAPortThatIsTakenIsNamed(t *testing.T) {
	a := join(t, "a")
	_, err := Join(Config{Node: "b", Addr: loopback, Port: int(a.at().Port()), Keys: [][]byte{oldKey}, Log: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "spec.speaker.membershipPort") {
		t.Errorf("error is %v, want one that names spec.speaker.membershipPort", err)
	}
}

// TestRunEndsWithItsContext, while a peer that accepts and never answers lets it wait. The others know at once, and nothing is left running.
func TestRunEndsWithItsContext(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close() //nolint:errcheck // nothing was written
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	members := map[string]*Group{"a": join(t, "a"), "b": join(t, "b"), "c": join(t, "c")}
	ended := make(chan error, len(members))
	peers := func() map[string]netip.AddrPort {
		all := map[string]netip.AddrPort{"z-mute": netip.MustParseAddrPort(mute.Addr().String())}
		for node, g := range members {
			all[node] = g.at()
		}
		return all
	}
	for _, g := range members {
		go func() { ended <- g.Run(ctx, peers) }()
	}
	for _, g := range members {
		await(t, g, map[string]Member{"a": {}, "b": {}, "c": {}})
	}
	if _, err := mute.Accept(); err != nil { // somebody waits for its answer now
		t.Fatal(err)
	}
	cancel()
	late := time.After(5 * time.Second) // half of the time that memberlist would wait for a peer
	for range members {
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("a member ended with %v", err)
			}
		case <-late:
			t.Fatal("a member still runs")
		}
	}
	awaitNoGoroutine(t)
}

// awaitNoGoroutine waits until nothing of memberlist's runs: it tells its goroutines to end without waiting for them.
func awaitNoGoroutine(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		all := string(stacks[:runtime.Stack(stacks, true)])
		if !strings.Contains(all, "hashicorp/memberlist.(") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still running:\n%s", all)
		}
	}
}
