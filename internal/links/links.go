package links

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Interface is a network interface that could announce an address.
type Interface struct {
	Name  string
	Index int
	MAC   net.HardwareAddr
	// Addresses are its addresses with their prefix lengths, in order.
	Addresses []netip.Prefix
	// Carrier says whether the link works.
	Carrier bool
}

// List returns the interfaces that could announce an address, by name: Ethernet, up, not part of a bond or bridge, with ARP, and with an
// address in a subnet.
func List() ([]Interface, error) {
	all, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("listing interfaces: %w", err)
	}
	var found []Interface
	for _, link := range all {
		attrs := link.Attrs()
		if !announces(attrs) {
			continue
		}
		addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return nil, fmt.Errorf("listing the addresses of %s: %w", attrs.Name, err)
		}
		i := Interface{Name: attrs.Name, Index: attrs.Index, MAC: attrs.HardwareAddr, Carrier: attrs.RawFlags&unix.IFF_LOWER_UP != 0}
		for _, a := range addrs {
			if p, ok := prefixOf(a.IPNet); ok {
				i.Addresses = append(i.Addresses, p)
			}
		}
		if len(i.Addresses) == 0 {
			continue
		}
		slices.SortFunc(i.Addresses, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
		found = append(found, i)
	}
	slices.SortFunc(found, func(a, b Interface) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// announces says whether an interface is of a kind that can announce. A member of a bond or a bridge receives what its master receives:
// both would answer.
func announces(a *netlink.LinkAttrs) bool {
	const never = unix.IFF_LOOPBACK | unix.IFF_POINTOPOINT | unix.IFF_NOARP
	return a.EncapType == "ether" && len(a.HardwareAddr) == 6 && a.MasterIndex == 0 && a.RawFlags&unix.IFF_UP != 0 && a.RawFlags&never == 0
}

// prefixOf converts an address at the library's border. Host routes and link-local addresses make no subnet that an address could be
// announced in.
func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	addr, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return netip.Prefix{}, false
	}
	addr = addr.Unmap()
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(addr, ones), ones < addr.BitLen() && !addr.IsLinkLocalUnicast()
}

// Watch sends on changed whenever an interface or an address changes, until the context ends. After a loss of messages it sends as well:
// the receiver lists anew.
func Watch(ctx context.Context, changed chan<- struct{}) error {
	done := make(chan struct{})
	defer close(done)
	failed := make(chan error, 2)
	fail := func(err error) {
		select {
		case failed <- err:
		default: // one is enough
		}
	}
	linkUpdates, addrUpdates := make(chan netlink.LinkUpdate), make(chan netlink.AddrUpdate)
	if err := netlink.LinkSubscribeWithOptions(linkUpdates, done, netlink.LinkSubscribeOptions{ErrorCallback: fail}); err != nil {
		return fmt.Errorf("watching interfaces: %w", err)
	}
	if err := netlink.AddrSubscribeWithOptions(addrUpdates, done, netlink.AddrSubscribeOptions{ErrorCallback: fail}); err != nil {
		return fmt.Errorf("watching addresses: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return fmt.Errorf("watching interfaces: %w", err)
		case _, open := <-linkUpdates:
			if !open {
				return fmt.Errorf("watching interfaces: the subscription ended")
			}
		case _, open := <-addrUpdates:
			if !open {
				return fmt.Errorf("watching addresses: the subscription ended")
			}
		}
		select {
		case changed <- struct{}{}:
		default: // a signal is pending already
		}
	}
}
