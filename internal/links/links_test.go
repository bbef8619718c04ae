package links

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

var (
	compareValues = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	mac           = net.HardwareAddr{2, 0, 0, 0, 0, 1}
)

func TestAnnounces(t *testing.T) {
	const up = unix.IFF_UP | unix.IFF_BROADCAST | unix.IFF_MULTICAST
	for name, tc := range map[string]struct {
		link netlink.LinkAttrs
		want bool
	}{
		"an Ethernet interface that is up can": {
			link: netlink.LinkAttrs{EncapType: "ether", HardwareAddr: mac, RawFlags: up}, want: true},
		"one without carrier can, once it has it": {
			link: netlink.LinkAttrs{EncapType: "ether", HardwareAddr: mac, RawFlags: up &^ unix.IFF_LOWER_UP}, want: true},
		"one that is down cannot": {
			link: netlink.LinkAttrs{EncapType: "ether", HardwareAddr: mac, RawFlags: up &^ unix.IFF_UP}},
		"a member of a bond or a bridge cannot: its master answers": {
			link: netlink.LinkAttrs{EncapType: "ether", HardwareAddr: mac, RawFlags: up, MasterIndex: 7}},
		"loopback cannot": {
			link: netlink.LinkAttrs{EncapType: "loopback", HardwareAddr: make(net.HardwareAddr, 6), RawFlags: up | unix.IFF_LOOPBACK}},
		"one with ARP turned off, as kube-ipvs0 is, cannot": {
			link: netlink.LinkAttrs{EncapType: "ether", HardwareAddr: mac, RawFlags: up | unix.IFF_NOARP}},
		"a tunnel has nobody to answer": {
			link: netlink.LinkAttrs{EncapType: "none", RawFlags: up | unix.IFF_POINTOPOINT | unix.IFF_NOARP}},
		"an Ethernet interface made point-to-point has nobody to answer": {
			link: netlink.LinkAttrs{EncapType: "ether", HardwareAddr: mac, RawFlags: up | unix.IFF_POINTOPOINT}},
		"InfiniBand, with hardware addresses of 20 bytes, cannot": {
			link: netlink.LinkAttrs{EncapType: "infiniband", HardwareAddr: make(net.HardwareAddr, 20), RawFlags: up}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := announces(&tc.link); got != tc.want {
				t.Errorf("announces is %v, want %v", got, tc.want)
			}
		})
	}
}

// TestInterfaceOf: the addresses that make a subnet, in order.
func TestInterfaceOf(t *testing.T) {
	var addrs []netlink.Addr
	for _, text := range []string{
		"fd00::7/64", "192.168.1.7/24", "10.0.0.9/8", "10.0.0.9/16",
		"10.1.1.1/32", "fd00::8/128", // host routes
		"169.254.7.7/16", "fe80::1/64", // link-local
	} {
		p := netip.MustParsePrefix(text)
		addrs = append(addrs, netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}})
	}
	for text, flag := range map[string]int{"fd00:1::7/64": unix.IFA_F_TENTATIVE, "fd00:2::7/64": unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED} {
		p := netip.MustParsePrefix(text) // which the host does not have yet, or does not get
		addrs = append(addrs, netlink.Addr{Flags: flag, IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}})
	}
	got := interfaceOf(&netlink.LinkAttrs{Name: "eth0", Index: 3, HardwareAddr: mac, RawFlags: unix.IFF_UP | unix.IFF_LOWER_UP}, addrs)
	want := Interface{Name: "eth0", Index: 3, MAC: mac, Carrier: true, Addresses: []netip.Prefix{
		netip.MustParsePrefix("10.0.0.9/8"), netip.MustParsePrefix("10.0.0.9/16"),
		netip.MustParsePrefix("192.168.1.7/24"), netip.MustParsePrefix("fd00::7/64"),
	}}
	if diff := cmp.Diff(want, got, compareValues); diff != "" {
		t.Errorf("interface (-want +got):\n%s", diff)
	}
}

// TestAnInterruptedListIsBegunAgain: half a list would take an interface's addresses off the air. It does not go on for ever.
func TestAnInterruptedListIsBegunAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		interrupted int
		fails       error
		want        []int
		wantErr     error
	}{
		"nothing changes meanwhile": {want: []int{1, 2, 3}},
		"twice something does":      {interrupted: 2, want: []int{1, 2, 3}},
		"something always does":     {interrupted: dumpTries, want: []int{1}, wantErr: netlink.ErrDumpInterrupted},
		"another error is final":    {fails: unix.EPERM, wantErr: unix.EPERM},
	} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			got, err := whole(func() ([]int, error) {
				if tries++; tries <= tc.interrupted {
					return []int{1}, netlink.ErrDumpInterrupted
				}
				if tc.fails != nil {
					return nil, tc.fails
				}
				return []int{1, 2, 3}, nil
			})
			if diff := cmp.Diff(tc.want, got); diff != "" || !errors.Is(err, tc.wantErr) {
				t.Errorf("error is %v, want %v; list (-want +got):\n%s", err, tc.wantErr, diff)
			}
		})
	}
}
