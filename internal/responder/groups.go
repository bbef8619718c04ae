package responder

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// joinsAtMost is how many groups a socket joins: the kernel's limit of memory for a socket's options (optmem_max) allows for 365 at the
// least.
const joinsAtMost = 256

// memberships is a socket that is in multicast groups on one interface.
type memberships interface {
	join(group netip.Addr) error
	leave(group netip.Addr) error
	close() error
}

// shard is a socket and how many groups it is in.
type shard struct {
	memberships
	joined int
}

// groups are the solicited-node groups of addresses. The kernel has to be in them, so that it reports them (MLD, RFC 3810): switches pass on
// a group's frames only to where it was reported.
type groups struct {
	open   func() (memberships, error)
	shards []*shard
	in     map[netip.Addr]*shard
	closed bool
}

func newGroups(open func() (memberships, error)) *groups {
	return &groups{open: open, in: map[netip.Addr]*shard{}}
}

// join joins the groups of these addresses, those that share one once, and returns what failed. What failed is tried again the next time.
func (g *groups) join(addrs []netip.Addr) (failed []error) {
	if g.closed {
		return nil
	}
	for group := range groupsOf(addrs) {
		if _, in := g.in[group]; in {
			continue
		}
		s, err := g.room()
		if err == nil {
			err = s.join(group)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("joining the multicast group %s: %w", group, err))
			continue
		}
		s.joined++
		g.in[group] = s
	}
	return failed
}

// leaveAllBut leaves all groups but those of these addresses. A socket that is left with no group is closed.
func (g *groups) leaveAllBut(addrs []netip.Addr) {
	wanted := groupsOf(addrs)
	for group, s := range g.in {
		if wanted[group] {
			continue
		}
		_ = s.leave(group) // it fails only where the interface has gone, and the group with it
		s.joined--
		delete(g.in, group)
	}
	kept := g.shards[:0]
	for _, s := range g.shards {
		if s.joined > 0 {
			kept = append(kept, s)
			continue
		}
		_ = s.close()
	}
	clear(g.shards[len(kept):])
	g.shards = kept
}

// close leaves all groups for good.
func (g *groups) close() {
	g.leaveAllBut(nil)
	g.closed = true
}

// room returns a socket that can join another group.
func (g *groups) room() (*shard, error) {
	for _, s := range g.shards {
		if s.joined < joinsAtMost {
			return s, nil
		}
	}
	m, err := g.open()
	if err != nil {
		return nil, err
	}
	s := &shard{memberships: m}
	g.shards = append(g.shards, s)
	return s, nil
}

// groupsOf returns the groups of addresses.
func groupsOf(addrs []netip.Addr) map[netip.Addr]bool {
	wanted := make(map[netip.Addr]bool, len(addrs))
	for _, a := range addrs {
		wanted[solicitedNode(a)] = true
	}
	return wanted
}

// memberSocket is a UDP socket that nothing is sent to.
type memberSocket struct{ fd, index int }

func openMemberships(index int) (memberships, error) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a socket for multicast groups: %w", err)
	}
	return memberSocket{fd: fd, index: index}, nil
}

func (s memberSocket) set(option int, group netip.Addr) error {
	return unix.SetsockoptIPv6Mreq(s.fd, unix.IPPROTO_IPV6, option,
		&unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(s.index)}) //nolint:gosec // the kernel numbers interfaces from 1
}

func (s memberSocket) join(group netip.Addr) error {
	err := s.set(unix.IPV6_JOIN_GROUP, group)
	if errors.Is(err, unix.EADDRINUSE) { // this socket is in it already
		return nil
	}
	return os.NewSyscallError("setsockopt", err)
}

func (s memberSocket) leave(group netip.Addr) error {
	return os.NewSyscallError("setsockopt", s.set(unix.IPV6_LEAVE_GROUP, group))
}

func (s memberSocket) close() error { return os.NewSyscallError("close", unix.Close(s.fd)) }
