package links

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

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
	links, err := whole(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("listing interfaces: %w", err)
	}
	addrs, err := whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("listing the interfaces' addresses: %w", err)
	}
	byIndex := map[int][]netlink.Addr{}
	for _, a := range addrs {
		byIndex[a.LinkIndex] = append(byIndex[a.LinkIndex], a)
	}
	var found []Interface
	for _, link := range links {
		attrs := link.Attrs()
		if i := interfaceOf(attrs, byIndex[attrs.Index]); announces(attrs) && len(i.Addresses) > 0 {
			found = append(found, i)
		}
	}
	slices.SortFunc(found, func(a, b Interface) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// dumpTries bounds how often a list is begun that the kernel says was interrupted by a change, as happens while many pods start.
const dumpTries = 10

// whole returns a list that nothing interrupted.
func whole[T any](dump func() ([]T, error)) (found []T, err error) {
	for range dumpTries {
		if found, err = dump(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return found, err
}

// unusable are the flags of an IPv6 address that its interface does not have yet, or does not get: the kernel looks for duplicates first
// (RFC 4862, section 5.4). To use it meanwhile could take it from a host that has it.
const unusable = unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED

// interfaceOf converts an interface at the library's border.
func interfaceOf(a *netlink.LinkAttrs, addrs []netlink.Addr) Interface {
	i := Interface{Name: a.Name, Index: a.Index, MAC: a.HardwareAddr, Carrier: a.RawFlags&unix.IFF_LOWER_UP != 0}
	for _, addr := range addrs {
		if p, ok := prefixOf(addr.IPNet); ok && addr.Flags&unusable == 0 {
			i.Addresses = append(i.Addresses, p)
		}
	}
	slices.SortFunc(i.Addresses, netip.Prefix.Compare)
	return i
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

// resubscribeAfter is how long a subscription that ended is left alone.
const resubscribeAfter = 100 * time.Millisecond

// Watch sends on changed once it watches, and then whenever an interface or an address changes, until the context ends. When more changes
// at once than the kernel holds for it, it sends as well: the receiver lists anew.
func Watch(ctx context.Context, changed chan<- struct{}) error { return watch(ctx, changed, subscribe) }

// subscriber opens the kernel's messages about interfaces and addresses, until done. It calls unread for one that cannot be read. The
// channels are closed when the subscription ends: by itself it does when the kernel has dropped messages.
type subscriber func(done <-chan struct{}, unread func(error)) (<-chan netlink.LinkUpdate, <-chan netlink.AddrUpdate, error)

func subscribe(done <-chan struct{}, unread func(error)) (<-chan netlink.LinkUpdate, <-chan netlink.AddrUpdate, error) {
	links, addrs := make(chan netlink.LinkUpdate), make(chan netlink.AddrUpdate)
	if err := netlink.LinkSubscribeWithOptions(links, done, netlink.LinkSubscribeOptions{ErrorCallback: unread}); err != nil {
		return nil, nil, fmt.Errorf("watching interfaces: %w", err)
	}
	if err := netlink.AddrSubscribeWithOptions(addrs, done, netlink.AddrSubscribeOptions{ErrorCallback: unread}); err != nil {
		return nil, nil, fmt.Errorf("watching addresses: %w", err)
	}
	return links, addrs, nil
}

// watch subscribes anew whenever a subscription ends. Only the first one has to succeed: later, when the kernel is short of something for
// a while, the receiver still lists by itself now and then, and ending would take all that the node announces off the air.
func watch(ctx context.Context, changed chan<- struct{}, open subscriber) error {
	for first := true; ; first = false {
		if err := follow(ctx, changed, open); err != nil && first {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(resubscribeAfter):
		}
	}
}

// follow passes on one subscription until it ends or the context does.
func follow(ctx context.Context, changed chan<- struct{}, open subscriber) error {
	wake := func() {
		select {
		case changed <- struct{}{}:
		default: // a signal is pending already
		}
	}
	done := make(chan struct{})
	links, addrs, err := open(done, func(error) { wake() })
	if err != nil {
		close(done)
		return err
	}
	defer func() {
		close(done)
		for range links { // the subscription may wait to hand over a message: it ends after that
		}
		for range addrs {
		}
	}()
	wake() // what changed before this could not be heard
	for {
		more := true
		select {
		case <-ctx.Done():
			return nil
		case _, more = <-links:
		case _, more = <-addrs:
		}
		if !more {
			return nil
		}
		wake()
	}
}
