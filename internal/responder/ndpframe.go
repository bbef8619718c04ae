package responder

import (
	"encoding/binary"
	"net/netip"
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

// The options that say a link-layer address: the source's in a solicitation, the target's in an advertisement.
const (
	optionSourceLinkLayer = 1
	optionTargetLinkLayer = 2
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

// option is the type of the option that says the link-layer address.
func (n neighbourMessage) option() byte {
	if n.kind == neighbourAdvertisement {
		return optionTargetLinkLayer
	}
	return optionSourceLinkLayer
}

// frame puts the message in an Ethernet frame.
func (n neighbourMessage) frame(from, to MAC) []byte {
	frame := make([]byte, offsetOptions, offsetOptions+lengthUnit)
	copy(frame, to[:])
	copy(frame[6:], from[:])
	binary.BigEndian.PutUint16(frame[offsetEtherType:], etherTypeIPv6)
	frame[offsetVersion] = version6 << 4
	frame[offsetNextHeader], frame[offsetHopLimit] = nextHeaderICMPv6, hopLimit
	copy(frame[offsetSource:], n.source.AsSlice())
	copy(frame[offsetDestination:], n.destination.AsSlice())
	frame[offsetType], frame[offsetFlags] = byte(n.kind), byte(n.flags)
	copy(frame[offsetTarget:], n.target.AsSlice())
	if n.linkLayer != nil {
		frame = append(append(frame, n.option(), 1), n.linkLayer[:]...)
	}
	binary.BigEndian.PutUint16(frame[offsetPayloadLength:], uint16(len(frame)-offsetICMP)) //nolint:gosec // 24 or 32
	binary.BigEndian.PutUint16(frame[offsetChecksum:], checksum(frame))
	return frame
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
	n = neighbourMessage{
		kind:        neighbourType(frame[offsetType]),
		source:      netip.AddrFrom16([16]byte(frame[offsetSource:offsetDestination])),
		destination: netip.AddrFrom16([16]byte(frame[offsetDestination:offsetICMP])),
		target:      netip.AddrFrom16([16]byte(frame[offsetTarget:offsetOptions])),
	}
	if n.kind == neighbourAdvertisement {
		n.flags = flags(frame[offsetFlags])
	}
	n.linkLayer, ok = linkLayerIn(frame[offsetOptions:end], n.option())
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

// linkLayerIn returns the Ethernet address in the option of this type, nil if there is none, or that the options are malformed.
func linkLayerIn(options []byte, kind byte) (found *MAC, ok bool) {
	for len(options) > 0 {
		if len(options) < lengthUnit || options[1] == 0 || int(options[1])*lengthUnit > len(options) {
			return nil, false
		}
		if options[0] == kind && found == nil {
			if options[1] != 1 {
				return nil, false
			}
			mac := MAC(options[2:lengthUnit])
			found = &mac
		}
		options = options[int(options[1])*lengthUnit:]
	}
	return found, true
}
