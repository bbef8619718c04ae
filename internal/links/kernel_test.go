package links

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/lanyard-dev/lanyard/internal/testnet"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// add makes an interface and sets it up.
func add(t *testing.T, link netlink.Link) netlink.Link {
	t.Helper()
	must(t, netlink.LinkAdd(link))
	return up(t, link.Attrs().Name)
}

// up sets an interface up.
func up(t *testing.T, name string) netlink.Link {
	t.Helper()
	link, err := netlink.LinkByName(name)
	must(t, err)
	must(t, netlink.LinkSetUp(link))
	return link
}

func address(t *testing.T, link netlink.Link, text string) {
	t.Helper()
	addr, err := netlink.ParseAddr(text)
	must(t, err)
	must(t, netlink.AddrAdd(link, addr))
}

// awaitList waits until the list is this, and looks only when it is woken.
func awaitList(t *testing.T, changed <-chan struct{}, want []Interface) {
	t.Helper()
	late := time.After(10 * time.Second)
	for {
		got, err := List()
		must(t, err)
		diff := cmp.Diff(want, got, compareValues, cmpopts.IgnoreFields(Interface{}, "Index", "MAC"))
		if diff == "" {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("interfaces (-want +got):\n%s", diff)
		}
	}
}

// watched starts a watcher of this test's namespace.
func watched(t *testing.T) (changed <-chan struct{}, stop func()) {
	t.Helper()
	signals, ended := make(chan struct{}, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	links, addrs, err := subscribe(done, func(err error) {
		if ctx.Err() == nil {
			t.Errorf("a message cannot be read: %v", err)
		}
	})
	must(t, err)
	opened := func(ended <-chan struct{}, _ func(error)) (<-chan netlink.LinkUpdate, <-chan netlink.AddrUpdate, error) {
		go func() { <-ended; close(done) }()
		return links, addrs, nil
	}
	go func() { ended <- watch(ctx, signals, opened) }()
	return signals, func() {
		cancel()
		must(t, receive(t, "the watcher's end", ended))
	}
}

// TestTheKernelsChangesAreSeen: each of them wakes the watcher, and the list is then what it has become.
func TestTheKernelsChangesAreSeen(t *testing.T) {
	testnet.Enter(t)
	changed, stop := watched(t)
	awaitList(t, changed, nil)

	near := add(t, &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "near"}, PeerName: "far"})
	address(t, near, "192.168.1.7/24")
	seen := Interface{Name: "near", Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.1.7/24")}}
	awaitList(t, changed, []Interface{seen})

	far := up(t, "far") // the cable is in
	seen.Carrier = true
	awaitList(t, changed, []Interface{seen})

	must(t, netlink.LinkSetDown(far)) // and out
	seen.Carrier = false
	awaitList(t, changed, []Interface{seen})

	address(t, near, "10.0.0.9/8")
	seen.Addresses = []netip.Prefix{netip.MustParsePrefix("10.0.0.9/8"), seen.Addresses[0]}
	awaitList(t, changed, []Interface{seen})

	bridge := add(t, &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}})
	address(t, bridge, "172.16.0.1/16")
	must(t, netlink.LinkSetMaster(near, bridge)) // the bridge answers from now on
	up(t, "far")
	onBridge := Interface{Name: "br0", Addresses: []netip.Prefix{netip.MustParsePrefix("172.16.0.1/16")}, Carrier: true}
	awaitList(t, changed, []Interface{onBridge})

	must(t, netlink.LinkDel(bridge))
	seen.Carrier = true
	awaitList(t, changed, []Interface{seen})
	must(t, netlink.LinkDel(near))
	awaitList(t, changed, nil)

	stop()
	awaitNoGoroutine(t)
}

// awaitNoGoroutine waits until no subscription runs: the library does not say when one has ended.
func awaitNoGoroutine(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		all := string(stacks[:runtime.Stack(stacks, true)])
		if !strings.Contains(all, "vishvananda/netlink.") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still running:\n%s", all)
		}
	}
}

// receive waits for a value.
func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(10 * time.Second):
		t.Fatalf("%s does not come", what)
		panic("unreachable")
	}
}

// TestWatchSurvivesAnOverflow: the library ends a subscription when the kernel dropped messages. Whoever lists is woken then, since what was
// dropped is not known, and further changes are heard. That the kernel is short of something for a while does not end it: what the node
// announces would go off the air.
func TestWatchSurvivesAnOverflow(t *testing.T) {
	changed, ended := make(chan struct{}, 1), make(chan error, 1)
	opened := make(chan chan netlink.LinkUpdate)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tries := 0
	go func() {
		ended <- watch(ctx, changed, func(done <-chan struct{}, _ func(error)) (<-chan netlink.LinkUpdate, <-chan netlink.AddrUpdate, error) {
			if tries++; tries == 2 {
				return nil, nil, unix.ENOBUFS
			}
			links, addrs := make(chan netlink.LinkUpdate), make(chan netlink.AddrUpdate)
			go func() { <-done; close(addrs) }()
			opened <- links
			return links, addrs, nil
		})
	}()
	first := receive(t, "a subscription", opened)
	receive(t, "the signal that it watches", changed)
	close(first)
	second := receive(t, "another subscription", opened)
	receive(t, "the signal that something may have been missed", changed)
	second <- netlink.LinkUpdate{}
	receive(t, "the signal of a change", changed)
	cancel()
	close(second)
	must(t, receive(t, "the end", ended))
}

// TestWatchSaysThatItCannot: without a subscription nothing would ever be heard.
func TestWatchSaysThatItCannot(t *testing.T) {
	none := errors.New("no netlink here")
	err := watch(t.Context(), nil, func(<-chan struct{}, func(error)) (<-chan netlink.LinkUpdate, <-chan netlink.AddrUpdate, error) {
		return nil, nil, none
	})
	if !errors.Is(err, none) {
		t.Errorf("error is %v, want %v", err, none)
	}
}
