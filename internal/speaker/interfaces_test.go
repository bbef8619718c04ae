package speaker

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/internal/links"
	"github.com/lanyard-dev/lanyard/internal/responder"
	"github.com/lanyard-dev/lanyard/internal/testnet"
)

// inNewNetwork gives the test a network of its own, in which it makes interfaces with ip.
func inNewNetwork(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skipf("interfaces are made with iproute2: %v", err)
	}
	testnet.Enter(t)
}

// ip runs iproute2 in the test's namespace.
func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// cable joins near, where the responder is, with far, where this machine's kernel is the client.
func cable(t *testing.T) links.Interface {
	t.Helper()
	ip(t, "link", "add", "near", "type", "veth", "peer", "name", "far")
	ip(t, "address", "add", "192.168.1.122/24", "dev", "far")
	ip(t, "link", "set", "near", "up")
	ip(t, "link", "set", "far", "up")
	near, err := net.InterfaceByName("near")
	if err != nil {
		t.Fatal(err)
	}
	return links.Interface{Name: "near", Index: near.Index, MAC: near.HardwareAddr, Carrier: true}
}

// awaitAnswer waits until the kernel, which asks again and again, knows the address at this hardware address.
func awaitAnswer(t *testing.T, addr string, mac net.HardwareAddr) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		client, err := net.Dial("udp4", addr+":9")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = client.Write([]byte("x")) // the kernel asks who has the address; a failure before is told here
		_ = client.Close()
		table, err := os.ReadFile("/proc/thread-self/net/arp")
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(table), "\n") {
			if strings.HasPrefix(line, addr+" ") && strings.Contains(line, mac.String()) {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not answered from %s:\n%s", addr, mac, table)
		}
	}
}

// newResponders are some without an interface yet, and what wakes their loop.
func newResponders(t *testing.T) (r *responders, failed <-chan struct{}) {
	t.Helper()
	signals := make(chan struct{}, 1)
	none := func() {}
	return &responders{log: testr.New(t), failed: signals, seen: func(string, responder.Sighting) {}, tasks: map[string]*running{}, troubles: map[string]trouble{},
		counters: responder.Counters{Replied: none, Announced: none, Unsent: none, Dropped: func(responder.Drop) {}}}, signals
}

// TestAnInterfaceThatComesBackIsAnsweredAgain, at once, though its responder was started a moment ago and failed.
func TestAnInterfaceThatComesBackIsAnsweredAgain(t *testing.T) {
	inNewNetwork(t)
	r, failed := newResponders(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer r.wait()
	defer cancel()
	now := time.Now() // stands still: nothing here waits for retryAfter
	own := map[string][]netip.Addr{"near": addrs("192.168.1.200")}
	ranges := []responder.Range{{First: netip.MustParseAddr("192.168.1.200"), Last: netip.MustParseAddr("192.168.1.210")}}

	near := cable(t)
	r.sync(ctx, []links.Interface{near}, now)
	r.hear(ranges, now)
	r.own(own, now)
	awaitAnswer(t, "192.168.1.200", near.MAC)

	ip(t, "link", "delete", "near")
	select {
	case <-failed:
	case <-time.After(10 * time.Second):
		t.Fatal("the loop is not woken")
	}
	r.sync(ctx, nil, now)
	if len(r.tasks) != 0 || len(r.troubles) != 0 {
		t.Errorf("%d responders run, %d are in trouble; want neither", len(r.tasks), len(r.troubles))
	}

	near = cable(t) // with another index and hardware address
	r.sync(ctx, []links.Interface{near}, now)
	r.hear(ranges, now)
	r.own(own, now)
	awaitAnswer(t, "192.168.1.200", near.MAC)

	near.Carrier = false // a flap
	r.sync(ctx, []links.Interface{near}, now)
	if len(r.tasks) != 0 {
		t.Error("a responder runs on an interface without carrier")
	}
	near.Carrier = true
	r.sync(ctx, []links.Interface{near}, now)
	r.hear(ranges, now)
	r.own(own, now)
	ip(t, "neighbour", "flush", "dev", "far")
	awaitAnswer(t, "192.168.1.200", near.MAC)
}

// TestAnInterfaceThatFailsIsTriedAgain a little later, each time after twice as long; what keeps it from being answered on is told, and
// nobody takes it for one that is.
func TestAnInterfaceThatFailsIsTriedAgain(t *testing.T) {
	inNewNetwork(t)
	r, _ := newResponders(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer r.wait()
	defer cancel()
	near := cable(t)
	gone := near
	gone.Index += 1000
	start := time.Now()
	for _, step := range []struct {
		what    string
		with    links.Interface
		after   time.Duration
		answers bool
		again   time.Duration
	}{
		{what: "it cannot be opened", with: gone, again: retryAfter},
		{what: "nor at the next try", with: gone, after: retryAfter, again: 2 * retryAfter},
		{what: "it could be, but is left alone", with: near, after: 3*retryAfter - 1, again: 1},
		{what: "it is opened", with: near, after: 3 * retryAfter, answers: true, again: lookAgain},
		{what: "it goes on", with: near, after: 3*retryAfter + 1, answers: true, again: lookAgain},
	} {
		now := start.Add(step.after)
		r.sync(ctx, []links.Interface{step.with}, now)
		if answers, again := r.answers("near"), r.retryIn(now); answers != step.answers || again != step.again {
			t.Errorf("%s: answers: %v, looked at again in %v, want %v and %v", step.what, answers, again, step.answers, step.again)
		}
		want := map[string]string{}
		if !step.answers {
			want["near"] = "opening the ARP socket: listen packet " + near.MAC.String() + ": bind: no such device"
		}
		if diff := cmp.Diff(want, r.reasons()); diff != "" {
			t.Errorf("%s: reasons (-want +got):\n%s", step.what, diff)
		}
	}
}

// TestFailuresAreForgotten when a responder has run for long, and the pause has an end.
func TestFailuresAreForgotten(t *testing.T) {
	r, _ := newResponders(t)
	opened := time.Now()
	pauseAfter := func(ran time.Duration) time.Duration {
		r.fail("eth0", errors.New("network is down"), opened, opened.Add(ran))
		return r.troubles["eth0"].until.Sub(opened)
	}
	for range 10 {
		pauseAfter(0)
	}
	if got := pauseAfter(0); got != retryAtMost {
		t.Errorf("after many failures it is left alone for %v, want %v", got, retryAtMost)
	}
	if got := pauseAfter(retryAtMost); got != retryAfter {
		t.Errorf("when it has run for long it is left alone for %v from when it was opened, want %v", got, retryAfter)
	}
}
