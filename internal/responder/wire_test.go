package responder

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	codec "github.com/mdlayher/arp"
	"github.com/mdlayher/packet"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/lanyard-dev/lanyard/internal/testnet"
)

// cable makes two interfaces that are joined by a cable. The near one is for the responder, the far one for who asks.
func cable(t *testing.T) (near, far *net.Interface) {
	t.Helper()
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "near"}, PeerName: "far"}
	if err := netlink.LinkAdd(pair); err != nil {
		t.Fatalf("making a pair of interfaces: %v", err)
	}
	var ends []*net.Interface
	for _, name := range []string{"near", "far"} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(link); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, &net.Interface{Index: link.Attrs().Index, Name: name, HardwareAddr: link.Attrs().HardwareAddr})
	}
	awaitUp(t, ends)
	return ends[0], ends[1]
}

// awaitUp waits until the kernel has noticed that the cable is in: until then it drops, without an error, what is sent.
func awaitUp(t *testing.T, ends []*net.Interface) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		up := 0
		for _, end := range ends {
			link, err := netlink.LinkByIndex(end.Index)
			if err != nil {
				t.Fatal(err)
			}
			if link.Attrs().OperState == netlink.OperUp {
				up++
			}
		}
		if up == len(ends) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the pair of interfaces does not come up")
		}
	}
}

// stranger sends requests on the far end and reads what comes back.
type stranger struct {
	*packet.Conn
	mac MAC
}

func strangerOn(t *testing.T, far *net.Interface) stranger {
	t.Helper()
	c, err := packet.Listen(far, packet.Raw, unix.ETH_P_ARP, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return stranger{Conn: c, mac: MAC(far.HardwareAddr)}
}

// ask sends a request for an address, with a VLAN's tag if it is not 0.
func (a stranger) ask(t *testing.T, addr string, vlan uint16) {
	t.Helper()
	request := arpPacket{codec.OperationRequest, a.mac, MAC{}, netip.MustParseAddr("192.168.1.122"), netip.MustParseAddr(addr)}.frame(broadcast)
	if vlan != 0 {
		request = slices.Insert(request, offsetEtherType, 0x81, 0x00, byte(vlan>>8), byte(vlan))
	}
	a.send(t, request)
}

// send writes a frame to whom it names.
func (a stranger) send(t *testing.T, frame []byte) {
	t.Helper()
	if _, err := a.WriteTo(frame, &packet.Addr{HardwareAddr: frame[:6]}); err != nil {
		t.Fatal(err)
	}
}

// repliesUntil returns the addresses that are answered for, in order, up to a last one. Whatever was answered before it has arrived by then.
func (a stranger) repliesUntil(t *testing.T, last string, from net.HardwareAddr) []string {
	t.Helper()
	if err := a.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var answered []string
	frame := make([]byte, frameSize)
	for {
		n, _, err := a.ReadFrom(frame)
		if err != nil {
			t.Fatalf("%s was not answered, only %v: %v", last, answered, err)
		}
		p, source, ok := parseARP(frame[:n])
		if !ok || p.operation != codec.OperationReply || MAC(frame[:6]) != a.mac {
			continue
		}
		if source != MAC(from) {
			t.Errorf("%s answers for %s, want %s", source, p.senderProtocol, from)
		}
		answered = append(answered, p.senderProtocol.String())
		if p.senderProtocol.String() == last {
			return answered
		}
	}
}

func listenOn(t *testing.T, near *net.Interface, c *counts) (*Responder, <-chan error, context.CancelFunc) {
	t.Helper()
	r, err := ListenARP(near.Index, near.HardwareAddr, Config{Counters: c.counters()})
	if errors.Is(err, os.ErrPermission) {
		t.Skipf("packet sockets need NET_RAW: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Hear([]Range{rangeOf("192.168.1.200", "192.168.1.210")}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return r, done, cancel
}

// TestOnTheWire asks for addresses of all sorts, then for one more: each that is owned is answered once, nothing else is.
func TestOnTheWire(t *testing.T) {
	testnet.Enter(t)
	near, far := cable(t)
	var c counts
	r, done, stop := listenOn(t, near, &c)
	a := strangerOn(t, far)
	r.Own([]netip.Addr{netip.MustParseAddr("192.168.1.200"), netip.MustParseAddr("192.168.1.210")}, time.Now())

	a.ask(t, "192.168.1.200", 0)
	a.ask(t, "192.168.1.200", 100) // of a VLAN that nobody here has
	a.ask(t, "192.168.1.201", 0)   // of the pool, but another's
	a.ask(t, "192.168.1.7", 0)     // of no pool
	a.ask(t, "192.168.1.210", 0)
	if diff := cmp.Diff([]string{"192.168.1.200", "192.168.1.210"}, a.repliesUntil(t, "192.168.1.210", near.HardwareAddr)); diff != "" {
		t.Errorf("answered (-want +got):\n%s", diff)
	}

	r.Own([]netip.Addr{netip.MustParseAddr("192.168.1.210")}, time.Now())
	a.ask(t, "192.168.1.200", 0)
	a.ask(t, "192.168.1.210", 0)
	if diff := cmp.Diff([]string{"192.168.1.210"}, a.repliesUntil(t, "192.168.1.210", near.HardwareAddr)); diff != "" {
		t.Errorf("answered after .200 was given up (-want +got):\n%s", diff)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("it ended with %v", err)
	}
	// .201, and .200 once it was given up: what the filter drops, of VLANs and of no pool, is not even counted.
	if diff := cmp.Diff(map[Drop]int{NotOwned: 2}, c.dropped); diff != "" {
		t.Errorf("frames without an answer (-want +got):\n%s", diff)
	}
}

// TestAnInterfaceThatGoesEndsTheResponder: the speaker opens it anew when the interface is back.
func TestAnInterfaceThatGoesEndsTheResponder(t *testing.T) {
	testnet.Enter(t)
	near, _ := cable(t)
	_, done, _ := listenOn(t, near, &counts{})
	link, err := netlink.LinkByIndex(near.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkDel(link); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err == nil {
			t.Error("it ended without an error")
		}
	case <-time.After(10 * time.Second):
		t.Error("it still runs")
	}
}
