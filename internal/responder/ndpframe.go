package responder

import (
	"encoding/binary"
	"net/netip"

	codec "github.com/mdlayher/ndp"
)

// The offsets of a neighbour message's fields (RFC 8200, RFC 4861), from the start of the Ethernet header.
const (
	offsetVersion       = 14
	offsetPayloadLength = 18
	offsetNextHeader    = 20
	offsetHopLimit      = 21
	offsetSource        = 22
	offsetDestination   = 38
	offsetICMP          = 54
	offsetType          = 54
	offsetCode          = 55
	offsetChecksum      = 56
	offsetFlags         = 58
	offsetTarget        = 62
	offsetOptions       = 78
	etherTypeIPv6       = 0x86dd
	version6            = 6
	nextHeaderICMPv6    = 58
	hopLimit            = 255 // no router has passed it on
	lengthUnit          = 8   // of options, in bytes
)

// neighbourType is the ICMPv6 type of a neighbour message.
type neighbourType uint8

const (
	neighbourSolicitation  neighbourType = 135
	neighbourAdvertisement neighbourType = 136
)

// flags are those of a neighbour advertisement. The third, Router, is never set for an address that is announced: it is no router's, and
// Linux drops its default route by a neighbour whose flag goes.
type flags uint8

const (
	solicited flags = 0x40
	override  flags = 0x20
)

var (
	// allNodes is everybody on the link.
	allNodes = netip.MustParseAddr("ff02::1")
	// solicitedPrefix is what solicited-node groups begin with; an address's last three bytes follow (RFC 4291, section 2.7.1).
	solicitedPrefix = netip.MustParsePrefix("ff02::1:ff00:0/104")
)

// solicitedNode is the group in which an address is asked for.
func solicitedNode(a netip.Addr) netip.Addr {
	group, of := solicitedPrefix.Addr().As16(), a.As16()
	copy(group[13:], of[13:])
	return netip.AddrFrom16(group)
}

// groupMAC is the Ethernet address of a multicast group (RFC 2464, section 7).
func groupMAC(group netip.Addr) MAC {
	b := group.As16()
	return MAC{0x33, 0x33, b[12], b[13], b[14], b[15]}
}

// neighbourMessage is a neighbour solicitation or advertisement.
type neighbourMessage struct {
	kind                neighbourType
	flags               flags
	source, destination netip.Addr
	target              netip.Addr
	// linkLayer is the address in the option for the source in a solicitation, for the target in an advertisement; nil if there is none.
	linkLayer *MAC
}

// message is the neighbour message as its codec has it.
func (n neighbourMessage) message() codec.Message {
	var options []codec.Option
	if n.linkLayer != nil {
		direction := codec.Source
		if n.kind == neighbourAdvertisement {
			direction = codec.Target
		}
		options = []codec.Option{&codec.LinkLayerAddress{Direction: direction, Addr: n.linkLayer[:]}}
	}
	if n.kind == neighbourAdvertisement {
		return &codec.NeighborAdvertisement{
			Solicited: n.flags&solicited != 0, Override: n.flags&override != 0, TargetAddress: n.target, Options: options}
	}
	return &codec.NeighborSolicitation{TargetAddress: n.target, Options: options}
}

// frame puts the message in an Ethernet frame. Nothing that makes up these messages can fail to be written.
func (n neighbourMessage) frame(from, to MAC) []byte {
	body, _ := codec.MarshalMessageChecksum(n.message(), n.source, n.destination)
	header := make([]byte, offsetICMP-offsetVersion, offsetICMP-offsetVersion+len(body))
	header[0] = version6 << 4
	binary.BigEndian.PutUint16(header[offsetPayloadLength-offsetVersion:], uint16(len(body))) //nolint:gosec // 24 or 32
	header[offsetNextHeader-offsetVersion], header[offsetHopLimit-offsetVersion] = nextHeaderICMPv6, hopLimit
	copy(header[offsetSource-offsetVersion:], n.source.AsSlice())
	copy(header[offsetDestination-offsetVersion:], n.destination.AsSlice())
	frame := append(append(append(append(make([]byte, 0, offsetOptions+lengthUnit), to[:]...), from[:]...), etherTypeIPv6>>8, etherTypeIPv6&0xff), header...)
	return append(frame, body...)
}

// checksum is that of ICMPv6 over its pseudo-header and message (RFC 8200, section 8.1), for a frame that ends with the message. It is 0
// if the frame holds the right one.
func checksum(frame []byte) uint16 {
	sum := uint32(len(frame)-offsetICMP) + nextHeaderICMPv6 //nolint:gosec // a frame is short
	for covered := frame[offsetSource:]; len(covered) > 0; {
		if len(covered) == 1 {
			sum += uint32(covered[0]) << 8
			break
		}
		sum += uint32(binary.BigEndian.Uint16(covered))
		covered = covered[2:]
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// parseNeighbour reads an untagged frame with a neighbour message that is valid (RFC 4861, sections 7.1.1 and 7.1.2).
func parseNeighbour(frame []byte) (n neighbourMessage, ok bool) {
	if len(frame) < offsetOptions || binary.BigEndian.Uint16(frame[offsetEtherType:]) != etherTypeIPv6 ||
		frame[offsetVersion]>>4 != version6 || frame[offsetNextHeader] != nextHeaderICMPv6 || frame[offsetHopLimit] != hopLimit {
		return n, false
	}
	end := offsetICMP + int(binary.BigEndian.Uint16(frame[offsetPayloadLength:]))
	if end < offsetOptions || end > len(frame) || frame[offsetCode] != 0 || checksum(frame[:end]) != 0 {
		return n, false
	}
	body, err := codec.ParseMessage(frame[offsetICMP:end])
	if err != nil {
		return n, false
	}
	n.source = netip.AddrFrom16([16]byte(frame[offsetSource:offsetDestination]))
	n.destination = netip.AddrFrom16([16]byte(frame[offsetDestination:offsetICMP]))
	switch m := body.(type) {
	case *codec.NeighborSolicitation:
		n.kind, n.target = neighbourSolicitation, m.TargetAddress
		n.linkLayer, ok = linkLayerIn(m.Options, codec.Source)
	case *codec.NeighborAdvertisement:
		n.kind, n.target = neighbourAdvertisement, m.TargetAddress
		if m.Solicited {
			n.flags |= solicited
		}
		if m.Override {
			n.flags |= override
		}
		n.linkLayer, ok = linkLayerIn(m.Options, codec.Target)
	}
	return n, ok && n.valid()
}

// valid says whether the fields go together.
func (n neighbourMessage) valid() bool {
	if n.target.IsMulticast() || n.target.IsUnspecified() || n.source.IsMulticast() {
		return false
	}
	switch n.kind {
	case neighbourSolicitation: // without a source, it is for those who may have the address, and nobody could answer to it alone
		return !n.source.IsUnspecified() || solicitedPrefix.Contains(n.destination) && n.linkLayer == nil
	case neighbourAdvertisement:
		return !n.source.IsUnspecified() && (!n.destination.IsMulticast() || n.flags&solicited == 0)
	default:
		return false
	}
}

// linkLayerIn returns the Ethernet address in the first option of this direction, nil if there is none, or that it is of another kind of network.
func linkLayerIn(options []codec.Option, direction codec.Direction) (found *MAC, ok bool) {
	for _, option := range options {
		address, is := option.(*codec.LinkLayerAddress)
		if !is || address.Direction != direction {
			continue
		}
		if len(address.Addr) != len(MAC{}) {
			return nil, false
		}
		mac := MAC(address.Addr)
		return &mac, true
	}
	return nil, true
}
