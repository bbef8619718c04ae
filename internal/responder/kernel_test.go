package responder

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mdlayher/packet"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/lanyard-dev/lanyard/internal/testnet"
)

// host is a Linux host at the far end of the cable, in a network namespace of its own.
type host struct {
	home, away netns.NsHandle
	link       netlink.Link
}

// neighbourHost makes a host with the addresses that tests ask from. The test stays in the near namespace.
func neighbourHost(t *testing.T) (near *net.Interface, h host) {
	t.Helper()
	testnet.Enter(t)
	near, far := cable(t)
	home, err := netns.Get()
	must(t, err)
	away, err := netns.New() // which is entered
	must(t, err)
	t.Cleanup(func() { must(t, errors.Join(home.Close(), away.Close())) })
	must(t, netns.Set(home))
	link, err := netlink.LinkByIndex(far.Index)
	must(t, err)
	must(t, netlink.LinkSetNsFd(link, int(away)))
	h = host{home: home, away: away}
	h.do(t, func() {
		h.link, err = netlink.LinkByName("far")
		must(t, err)
		must(t, netlink.LinkSetUp(h.link))
		h.add(t, "192.168.1.122/24", unix.IFA_F_NODAD)
		h.add(t, "fd00::122/64", unix.IFA_F_NODAD)
	})
	// The link-local address that it sends from is usable once duplicates were looked for, which takes a second.
	await(t, "both interfaces have their addresses", func() bool {
		usable := h.usable(t)
		nearAddrs, err := netlink.AddrList(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: near.Index}}, netlink.FAMILY_V6)
		must(t, err)
		return usable && len(nearAddrs) > 0
	})
	return near, h
}

// usable says whether none of the host's addresses is tentative.
func (h host) usable(t *testing.T) (usable bool) {
	t.Helper()
	usable = true
	h.do(t, func() {
		addrs, err := netlink.AddrList(h.link, netlink.FAMILY_V6)
		must(t, err)
		for _, a := range addrs {
			usable = usable && a.Flags&unix.IFA_F_TENTATIVE == 0
		}
		usable = usable && len(addrs) == 2
	})
	return usable
}

// do runs something on the host.
func (h host) do(t *testing.T, f func()) {
	t.Helper()
	must(t, netns.Set(h.away))
	defer func() { must(t, netns.Set(h.home)) }()
	f()
}

// add gives the host an address. The caller is on it.
func (h host) add(t *testing.T, prefix string, flags int) {
	t.Helper()
	addr, err := netlink.ParseAddr(prefix)
	must(t, err)
	if addr.IP.To4() == nil {
		addr.Flags = flags
	}
	must(t, netlink.AddrAdd(h.link, addr))
}

// talk makes the host's kernel look for an address.
func (h host) talk(t *testing.T, addr string) {
	t.Helper()
	h.do(t, func() {
		c, err := net.Dial("udp", net.JoinHostPort(addr, "9"))
		must(t, err)
		_, _ = c.Write([]byte("x")) // that nobody answered a packet before is told here
		must(t, c.Close())
	})
}

// neighbour returns the host's entry for an address.
func (h host) neighbour(t *testing.T, addr string) (mac string, state int) {
	t.Helper()
	h.do(t, func() {
		all, err := netlink.NeighList(h.link.Attrs().Index, netlink.FAMILY_ALL)
		must(t, err)
		for _, n := range all {
			if n.IP.String() == addr {
				mac, state = n.HardwareAddr.String(), n.State
			}
		}
	})
	return mac, state
}

// hold gives the host an entry for an address.
func (h host) hold(t *testing.T, addr string, mac MAC, state int) {
	t.Helper()
	h.do(t, func() {
		must(t, netlink.NeighSet(&netlink.Neigh{LinkIndex: h.link.Attrs().Index, IP: net.ParseIP(addr), HardwareAddr: mac[:], State: state}))
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await polls until something holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not become true that %s", what)
		}
	}
}

// start runs a responder that a test has opened.
func start(t *testing.T, r *Responder, err error, pool []Range) {
	t.Helper()
	if errors.Is(err, os.ErrPermission) {
		t.Skipf("packet sockets need NET_RAW: %v", err)
	}
	must(t, err)
	must(t, r.Hear(pool))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

// families are the responders that Linux is asked to believe.
var families = map[string]struct {
	listen      func(int, net.HardwareAddr, Config) (*Responder, error)
	pool        []Range
	addr, other string
}{
	"ARP": {ListenARP, ourPool, "192.168.1.200", "192.168.1.201"},
	"NDP": {ListenNDP, ourPool6, "fd00::200", "fd00::201"},
}

// TestLinuxBelieves what it is told: when it asks everybody, when it checks on us alone, and when an address moves to us while it has an
// entry for somebody else, for an address that it asked for or not.
func TestLinuxBelieves(t *testing.T) {
	for name, tc := range families {
		t.Run(name, func(t *testing.T) {
			near, h := neighbourHost(t)
			ours := near.HardwareAddr.String()
			r, err := tc.listen(near.Index, near.HardwareAddr, Config{})
			start(t, r, err, tc.pool)
			own := func(addrs ...string) { r.Own(parsed(addrs...), time.Now()) }

			own(tc.addr)
			await(t, "it finds us when it asks", func() bool {
				h.talk(t, tc.addr)
				mac, state := h.neighbour(t, tc.addr)
				return mac == ours && state&(netlink.NUD_REACHABLE|netlink.NUD_DELAY|netlink.NUD_STALE) != 0
			})
			h.hold(t, tc.addr, MAC(near.HardwareAddr), netlink.NUD_PROBE)
			await(t, "it finds us when it checks on us alone", func() bool {
				mac, state := h.neighbour(t, tc.addr)
				return mac == ours && state == netlink.NUD_REACHABLE
			})
			own()
			h.hold(t, tc.addr, theirMAC, netlink.NUD_REACHABLE)
			h.hold(t, tc.other, theirMAC, netlink.NUD_REACHABLE)
			own(tc.addr, tc.other)
			await(t, "its entries are ours", func() bool {
				first, _ := h.neighbour(t, tc.addr)
				second, _ := h.neighbour(t, tc.other)
				return first == ours && second == ours
			})
		})
	}
}

// TestLinuxIsReassured: an entry that it was about to check counts as checked.
func TestLinuxIsReassured(t *testing.T) {
	for name, tc := range families {
		t.Run(name, func(t *testing.T) {
			near, h := neighbourHost(t)
			r, err := tc.listen(near.Index, near.HardwareAddr, Config{})
			start(t, r, err, tc.pool)
			r.Own(parsed(tc.addr), time.Now())
			await(t, "it finds us when it asks", func() bool {
				h.talk(t, tc.addr)
				mac, _ := h.neighbour(t, tc.addr)
				return mac == near.HardwareAddr.String()
			})
			h.hold(t, tc.addr, MAC(near.HardwareAddr), netlink.NUD_STALE)
			r.Reassure(t.Context())
			await(t, "it believes that we are there", func() bool {
				mac, state := h.neighbour(t, tc.addr)
				return mac == near.HardwareAddr.String() && state == netlink.NUD_REACHABLE
			})
		})
	}
}

// TestLinuxIsProbed: what it has is seen, what nobody has is not.
func TestLinuxIsProbed(t *testing.T) {
	for name, tc := range map[string]struct {
		family      string
		addr, other string
	}{
		"ARP": {"ARP", "192.168.1.122", "192.168.1.121"},
		"NDP": {"NDP", "fd00::122", "fd00::121"},
	} {
		t.Run(name, func(t *testing.T) {
			near, h := neighbourHost(t)
			seen := make(chan Sighting, 16)
			r, err := families[tc.family].listen(near.Index, near.HardwareAddr, Config{Seen: func(s Sighting) { seen <- s }})
			start(t, r, err, []Range{rangeOf(tc.other, tc.addr)})
			for probe, to := range map[string]net.HardwareAddr{"everybody": nil, "one": h.link.Attrs().HardwareAddr} {
				must(t, r.Probe(netip.MustParseAddr(tc.other), to))
				must(t, r.Probe(netip.MustParseAddr(tc.addr), to))
				select {
				case s := <-seen:
					want := Sighting{netip.MustParseAddr(tc.addr), MAC(h.link.Attrs().HardwareAddr), Claimed}
					if diff := cmp.Diff(want, s, compareAddrs); diff != "" {
						t.Errorf("probe to %s (-want +got):\n%s", probe, diff)
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("no answer to the probe to %s", probe)
				}
			}
		})
	}
}

// TestLinuxIsAsked from an address of this host: what it has is seen, what nobody has is not, and an address of the other family is refused.
func TestLinuxIsAsked(t *testing.T) {
	for name, tc := range map[string]struct{ family, addr, other, from, foreign string }{
		"ARP": {"ARP", "192.168.1.122", "192.168.1.121", "192.168.1.7", "fd00::122"},
		"NDP": {"NDP", "fd00::122", "fd00::121", "fd00::7", "192.168.1.122"},
	} {
		t.Run(name, func(t *testing.T) {
			near, h := neighbourHost(t)
			seen := make(chan Sighting, 16)
			r, err := families[tc.family].listen(near.Index, near.HardwareAddr, Config{Seen: func(s Sighting) { seen <- s }})
			start(t, r, err, []Range{rangeOf(tc.other, tc.addr)})
			from := netip.MustParseAddr(tc.from)
			must(t, r.Ask(netip.MustParseAddr(tc.other), from))
			must(t, r.Ask(netip.MustParseAddr(tc.addr), from))
			if err := r.Ask(netip.MustParseAddr(tc.foreign), from); err == nil {
				t.Errorf("it asks for %s by %s", tc.foreign, tc.family)
			}
			select {
			case s := <-seen:
				want := Sighting{netip.MustParseAddr(tc.addr), MAC(h.link.Attrs().HardwareAddr), Claimed}
				if diff := cmp.Diff(want, s, compareAddrs); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("no answer")
			}
		})
	}
}

// TestLinuxDoesNotTakeAnAddressThatIsOurs: it looks for duplicates first (RFC 4862), and its probe is seen.
func TestLinuxDoesNotTakeAnAddressThatIsOurs(t *testing.T) {
	near, h := neighbourHost(t)
	seen, announced := make(chan Sighting, 16), make(chan struct{}, 16)
	r, err := ListenNDP(near.Index, near.HardwareAddr, Config{
		Seen: func(s Sighting) { seen <- s }, Counters: Counters{Announced: func() { announced <- struct{}{} }}})
	start(t, r, err, ourPool6)
	r.Own([]netip.Addr{ourAddr6}, time.Now().Add(-time.Minute)) // an announcement would do it as well, and this one is the last
	<-announced
	h.do(t, func() { h.add(t, "fd00::200/64", 0) })
	await(t, "the address is a duplicate", func() (failed bool) {
		h.do(t, func() {
			addrs, err := netlink.AddrList(h.link, netlink.FAMILY_V6)
			must(t, err)
			for _, a := range addrs {
				failed = failed || a.IP.String() == "fd00::200" && a.Flags&unix.IFA_F_DADFAILED != 0
			}
		})
		return failed
	})
	want := Sighting{ourAddr6, MAC(h.link.Attrs().HardwareAddr), Probed}
	select {
	case s := <-seen:
		if diff := cmp.Diff(want, s, compareAddrs); diff != "" {
			t.Errorf("seen (-want +got):\n%s", diff)
		}
	case <-time.After(10 * time.Second):
		t.Error("its probe is not seen")
	}
}

// joinedGroups are the solicited-node groups of fd00::/64 that the kernel is in on an interface, in the order that it lists them.
func joinedGroups(t *testing.T, near *net.Interface) map[string]bool {
	t.Helper()
	table, err := os.ReadFile(filepath.Join("/proc/thread-self/net", "igmp6"))
	must(t, err)
	groups := map[string]bool{}
	for _, line := range strings.Split(string(table), "\n") {
		if f := strings.Fields(line); len(f) > 2 && f[0] == strconv.Itoa(near.Index) && strings.HasPrefix(f[2], "ff0200000000000000000001ff000") {
			groups[f[2]] = true
		}
	}
	return groups
}

// TestTheKernelReportsTheGroupsOfOwnedAddresses, of thousands as of one, and leaves them: switches learn so where to send questions.
func TestTheKernelReportsTheGroupsOfOwnedAddresses(t *testing.T) {
	near, h := neighbourHost(t)
	var reports *packet.Conn
	var err error
	h.do(t, func() {
		reports, err = packet.Listen(&net.Interface{Index: h.link.Attrs().Index}, packet.Raw, unix.ETH_P_IPV6, nil)
	})
	must(t, err)
	defer func() { must(t, reports.Close()) }()
	r, err := ListenNDP(near.Index, near.HardwareAddr, Config{Failed: func(err error) { t.Error(err) }})
	start(t, r, err, ourPool6)

	r.Own([]netip.Addr{ourAddr6}, time.Now())
	if diff := cmp.Diff(map[string]bool{"ff0200000000000000000001ff000200": true}, joinedGroups(t, near)); diff != "" {
		t.Errorf("joined (-want +got):\n%s", diff)
	}
	awaitReport(t, reports, solicitedNode(ourAddr6))

	r.Seek([]netip.Addr{netip.MustParseAddr("fd00::201"), netip.MustParseAddr("192.168.1.201")}, time.Now())
	r.Own(nil, time.Now())
	if diff := cmp.Diff(map[string]bool{"ff0200000000000000000001ff000201": true}, joinedGroups(t, near)); diff != "" {
		t.Errorf("joined for an address that is about to be probed (-want +got):\n%s", diff)
	}
	r.Seek(nil, time.Now())

	all := []netip.Addr{netip.MustParseAddr("fd00::1")}
	for len(all) < 4000 {
		all = append(all, all[len(all)-1].Next())
	}
	r.Own(all, time.Now())
	if n := len(joinedGroups(t, near)); n != len(all) {
		t.Errorf("joined %d groups, want %d", n, len(all))
	}
	r.Own(nil, time.Now())
	if diff := cmp.Diff(map[string]bool{}, joinedGroups(t, near)); diff != "" {
		t.Errorf("joined in the end (-want +got):\n%s", diff)
	}
}

// awaitReport reads until the kernel has reported a group: MLDv2 (RFC 3810) with a hop-by-hop header before ICMPv6.
func awaitReport(t *testing.T, reports *packet.Conn, group netip.Addr) {
	t.Helper()
	const offsetReportType, reportV2 = 62, 143
	must(t, reports.SetReadDeadline(time.Now().Add(10*time.Second)))
	frame := make([]byte, frameSize)
	for {
		n, _, err := reports.ReadFrom(frame)
		if err != nil {
			t.Fatalf("the group is not reported: %v", err)
		}
		if n > offsetReportType && frame[offsetReportType] == reportV2 && strings.Contains(string(frame[:n]), string(group.AsSlice())) {
			return
		}
	}
}

// TestAnInterfaceWithoutIPv6 is told from one that does not work.
func TestAnInterfaceWithoutIPv6(t *testing.T) {
	testnet.Enter(t)
	near, _ := cable(t)
	link, err := netlink.LinkByIndex(near.Index)
	must(t, err)
	addrs, err := netlink.AddrList(link, netlink.FAMILY_V6)
	must(t, err)
	for _, a := range addrs {
		must(t, netlink.AddrDel(link, &a))
	}
	if _, err := ListenNDP(near.Index, near.HardwareAddr, Config{}); !errors.Is(err, ErrNoIPv6) {
		t.Errorf("error %v, want ErrNoIPv6", err)
	}
}
