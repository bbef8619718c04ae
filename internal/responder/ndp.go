package responder

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// ErrNoIPv6 says that an interface has no IPv6 address: IPv6 is disabled there, or the interface is not up.
var ErrNoIPv6 = errors.New("the interface has no IPv6 address: IPv6 is disabled on it, or it is not up")

// ListenNDP opens a responder for IPv6 addresses on the interface with this index and hardware address. Nothing passes its filter until
// Hear has been called. On an interface without IPv6 the error is ErrNoIPv6.
func ListenNDP(index int, mac net.HardwareAddr, config Config) (*Responder, error) {
	own, err := macOf(mac)
	if err != nil {
		return nil, err
	}
	if err := checkIPv6(index); err != nil {
		return nil, err
	}
	r, err := open(index, own, ndp{own}, unix.ETH_P_IPV6, config)
	if err != nil {
		return nil, err
	}
	r.groups = newGroups(func() (memberships, error) { return openMemberships(index) })
	return r, nil
}

// checkIPv6 says whether an interface has IPv6. The kernel sends no reports of multicast groups where it has not.
func checkIPv6(index int) error {
	link, err := net.InterfaceByIndex(index)
	if err != nil {
		return fmt.Errorf("looking for the interface: %w", err)
	}
	addrs, err := link.Addrs()
	if err != nil {
		return fmt.Errorf("listing the interface's addresses: %w", err)
	}
	if !slices.ContainsFunc(addrs, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && ndp{}.family(p.Addr())
	}) {
		return ErrNoIPv6
	}
	return nil
}

// ndp makes and reads frames of neighbour discovery for an interface with this hardware address. Like the kernel of a host that had the
// address, it sends from the address itself.
type ndp struct{ mac MAC }

var _ protocol = ndp{}

func (ndp) name() string { return "NDP" }

func (ndp) family(a netip.Addr) bool { return a.Is6() && !a.Is4In6() }

// selection wants solicitations and advertisements of addresses in the ranges: the second are what others claim. Both name the address at one
// place. Solicitations of others' addresses hardly come, as those are in other groups. Checking the hop limit and the checksum is left to the program.
func (ndp) selection() selection {
	return selection{
		protocol: []bpf.Instruction{
			bpf.LoadAbsolute{Off: offsetEtherType, Size: 2},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: etherTypeIPv6, SkipFalse: 5},
			bpf.LoadAbsolute{Off: offsetNextHeader, Size: 1},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: nextHeaderICMPv6, SkipFalse: 3},
			bpf.LoadAbsolute{Off: offsetType, Size: 1},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(neighbourSolicitation), SkipTrue: 2},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(neighbourAdvertisement), SkipTrue: 1},
			bpf.RetConstant{Val: drop},
		},
		claimed: offsetTarget,
		asked:   offsetTarget,
		highest: packetTypeMulticast,
	}
}

// read takes the frame's source for the sender's address when the message says none, as solicitations to one neighbour may.
func (ndp) read(frame []byte) (message, Drop) {
	n, ok := parseNeighbour(frame)
	if !ok {
		return message{}, Malformed
	}
	source := MAC(frame[6:offsetEtherType])
	if source.isGroup() || n.linkLayer != nil && *n.linkLayer != source {
		return message{}, Spoofed
	}
	m := message{source: source, sender: n.source}
	switch {
	case n.kind == neighbourAdvertisement:
		m.claims = n.target
	case n.source.IsUnspecified():
		m.asks = n.target
	default:
		m.claims, m.asks = n.source, n.target
	}
	return m, ""
}

// answer goes to who asked. Who probes for duplicates has no address yet: everybody is told (RFC 4862, section 5.4.4).
func (p ndp) answer(m message) []byte {
	if m.probes() {
		return p.announcement(m.asks)[0]
	}
	return neighbourMessage{kind: neighbourAdvertisement, flags: solicited | override, source: m.asks, destination: m.sender,
		target: m.asks, linkLayer: &p.mac}.frame(p.mac, m.source)
}

// announcement has the Override flag: without it, entries stay as they are.
func (p ndp) announcement(a netip.Addr) [][]byte {
	return [][]byte{neighbourMessage{kind: neighbourAdvertisement, flags: override, source: a, destination: allNodes,
		target: a, linkLayer: &p.mac}.frame(p.mac, groupMAC(allNodes))}
}

func (p ndp) directed(a netip.Addr, to asker) []byte {
	return neighbourMessage{kind: neighbourSolicitation, source: a, destination: to.addr, target: to.addr, linkLayer: &p.mac}.frame(p.mac, to.mac)
}

// probe goes to the address's group even when it goes to one neighbour alone: RFC 4861, section 7.1.1, wants it so without a source.
func (p ndp) probe(a netip.Addr, to *MAC) []byte {
	group := solicitedNode(a)
	destination := groupMAC(group)
	if to != nil {
		destination = *to
	}
	return neighbourMessage{kind: neighbourSolicitation, source: netip.IPv6Unspecified(), destination: group, target: a}.frame(p.mac, destination)
}

func (p ndp) request(a, from netip.Addr) []byte {
	group := solicitedNode(a)
	return neighbourMessage{kind: neighbourSolicitation, source: from, destination: group, target: a, linkLayer: &p.mac}.frame(p.mac, groupMAC(group))
}
