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
	return links.Interface{Name: "near", Index: near.Index, MAC: near.HardwareAddr, Carrier: true,
		Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.1.7/24")}}
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

// someResponders are some without an interface yet, and what wakes their loop.
func someResponders(t *testing.T) (r *responders, failed <-chan struct{}) {
	t.Helper()
	signals := make(chan struct{}, 1)
	none := func(protocol) responder.Counters { return responder.Counters{} }
	return newResponders(testr.New(t), none, func(string, responder.Sighting) {}, signals), signals
}

// TestOutlets: a protocol is spoken where an interface with carrier has an address of its family.
func TestOutlets(t *testing.T) {
	prefixes := func(texts ...string) (all []netip.Prefix) {
		for _, text := range texts {
			all = append(all, netip.MustParsePrefix(text))
		}
		return all
	}
	four := links.Interface{Name: "four", Carrier: true, Addresses: prefixes("192.168.1.7/24", "10.0.0.7/8")}
	six := links.Interface{Name: "six", Carrier: true, Addresses: prefixes("fd00::7/64")}
	both := links.Interface{Name: "both", Carrier: true, Addresses: prefixes("192.168.2.7/24", "fd01::7/64")}
	down := links.Interface{Name: "down", Addresses: prefixes("192.168.3.7/24")}
	bare := links.Interface{Name: "bare", Carrier: true}
	want := map[outlet]links.Interface{{"four", byARP}: four, {"six", byNDP}: six, {"both", byARP}: both, {"both", byNDP}: both}
	if diff := cmp.Diff(want, outletsOf([]links.Interface{four, six, both, down, bare}), compareValues); diff != "" {
		t.Errorf("outlets (-want +got):\n%s", diff)
	}
}

// TestBothFamiliesAreAnswered on one interface, each address by its own protocol.
func TestBothFamiliesAreAnswered(t *testing.T) {
	inNewNetwork(t)
	near := cable(t)
	ip(t, "address", "add", "fd00::122/64", "dev", "far", "nodad")
	ip(t, "address", "add", "fd00::7/64", "dev", "near", "nodad")
	near.Addresses = append(near.Addresses, netip.MustParsePrefix("fd00::7/64"))
	r, _ := someResponders(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer r.wait()
	defer cancel()
	now := time.Now()
	r.sync(ctx, []links.Interface{near}, now)
	four, six := netip.MustParseAddr("192.168.1.200"), netip.MustParseAddr("fd00::200")
	r.hear([]responder.Range{{First: four, Last: four}, {First: six, Last: six}}, nil, now)
	r.own(map[string][]netip.Addr{"near": {four, six}}, nil, now)
	awaitAnswer(t, "192.168.1.200", near.MAC)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		client, err := net.Dial("udp6", "[fd00::200]:9")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = client.Write([]byte("x")) // the kernel asks who has the address; a failure before is told here
		_ = client.Close()
		table, err := exec.Command("ip", "-6", "neighbour", "show", "fd00::200", "dev", "far").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, table)
		}
		if strings.Contains(string(table), near.MAC.String()) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("fd00::200 is not answered from %s: %s", near.MAC, table)
		}
	}
	for _, addr := range []netip.Addr{four, six} {
		if !r.answers("near", addr) {
			t.Errorf("nothing answers for addresses like %s", addr)
		}
	}
	if r.answers("near", netip.MustParseAddr("fd00::1")) != r.answers("near", six) || r.answers("far", six) {
		t.Error("it is the family that counts, and the interface")
	}
}

// TestAnInterfaceThatComesBackIsAnsweredAgain, at once, though its responder was started a moment ago and failed.
func TestAnInterfaceThatComesBackIsAnsweredAgain(t *testing.T) {
	inNewNetwork(t)
	r, failed := someResponders(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer r.wait()
	defer cancel()
	now := time.Now() // stands still: nothing here waits for retryAfter
	own := map[string][]netip.Addr{"near": addrs("192.168.1.200")}
	ranges := []responder.Range{{First: netip.MustParseAddr("192.168.1.200"), Last: netip.MustParseAddr("192.168.1.210")}}

	near := cable(t)
	r.sync(ctx, []links.Interface{near}, now)
	r.hear(ranges, nil, now)
	r.own(own, nil, now)
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
	r.hear(ranges, nil, now)
	r.own(own, nil, now)
	awaitAnswer(t, "192.168.1.200", near.MAC)

	near.Carrier = false // a flap
	r.sync(ctx, []links.Interface{near}, now)
	if len(r.tasks) != 0 {
		t.Error("a responder runs on an interface without carrier")
	}
	near.Carrier = true
	r.sync(ctx, []links.Interface{near}, now)
	r.hear(ranges, nil, now)
	r.own(own, nil, now)
	ip(t, "neighbour", "flush", "dev", "far")
	awaitAnswer(t, "192.168.1.200", near.MAC)
}

// TestAnInterfaceThatFailsIsTriedAgain a little later, each time after twice as long; what keeps it from being answered on is told, and
// nobody takes it for one that is.
func TestAnInterfaceThatFailsIsTriedAgain(t *testing.T) {
	inNewNetwork(t)
	r, _ := someResponders(t)
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
		if answers, again := r.answers("near", near.Addresses[0].Addr()), r.retryIn(now); answers != step.answers || again != step.again {
			t.Errorf("%s: answers: %v, looked at again in %v, want %v and %v", step.what, answers, again, step.answers, step.again)
		}
		want := map[outlet]string{}
		if !step.answers {
			want[outlet{"near", byARP}] = "opening the ARP socket: listen packet " + near.MAC.String() + ": bind: no such device"
		}
		if diff := cmp.Diff(want, r.reasons()); diff != "" {
			t.Errorf("%s: reasons (-want +got):\n%s", step.what, diff)
		}
	}
}

// TestFailuresAreForgotten when a responder has run for long, and the pause has an end.
func TestFailuresAreForgotten(t *testing.T) {
	r, _ := someResponders(t)
	opened := time.Now()
	pauseAfter := func(ran time.Duration) time.Duration {
		r.fail(outlet{"eth0", byARP}, errors.New("network is down"), opened, opened.Add(ran))
		return r.troubles[outlet{"eth0", byARP}].until.Sub(opened)
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
