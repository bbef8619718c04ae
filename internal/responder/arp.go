package responder

import (
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// ARP is a responder for IPv4.
type ARP = Responder

// Listen is ListenARP without sightings.
func Listen(index int, mac net.HardwareAddr, counters Counters) (*ARP, error) {
	return ListenARP(index, mac, Config{Counters: counters})
}

// ListenARP opens a responder for IPv4 addresses on the interface with this index and hardware address. Nothing passes its filter until
// Hear has been called.
func ListenARP(index int, mac net.HardwareAddr, config Config) (*Responder, error) {
	own, err := macOf(mac)
	if err != nil {
		return nil, err
	}
	return open(index, own, arp{own}, unix.ETH_P_ARP, config)
}

// The offsets of an ARP packet's fields (RFC 826), from the start of the Ethernet header.
const (
	offsetEtherType             = 12
	offsetHardwareType          = 14
	offsetProtocolType          = 16
	offsetHardwareLength        = 18
	offsetProtocolLength        = 19
	offsetOperation             = 20
	offsetSenderHardware        = 22
	offsetSenderProtocol        = 28
	offsetTargetHardware        = 32
	offsetTargetProtocol        = 38
	arpLength                   = 42
	etherTypeARP                = 0x0806
	etherTypeIPv4               = 0x0800
	hardwareEthernet            = 1
	hardwareIEEE802             = 6 // RFC 1042, IEEE 802 networks: taken as the same
	hardwareLength              = 6
	protocolLength              = 4
	ethernetLength              = 60 // the shortest frame, without its checksum
	operationRequest     uint16 = 1
	operationReply       uint16 = 2
)

// arpPacket are the fields of an ARP packet that vary.
type arpPacket struct {
	operation                      uint16
	senderHardware, targetHardware MAC
	senderProtocol, targetProtocol netip.Addr
}

// frame puts the packet in an Ethernet frame from its sender, padded to 60 bytes.
func (p arpPacket) frame(to MAC) []byte {
	frame := make([]byte, ethernetLength)
	copy(frame, to[:])
	copy(frame[6:], p.senderHardware[:])
	binary.BigEndian.PutUint16(frame[offsetEtherType:], etherTypeARP)
	binary.BigEndian.PutUint16(frame[offsetHardwareType:], hardwareEthernet)
	binary.BigEndian.PutUint16(frame[offsetProtocolType:], etherTypeIPv4)
	frame[offsetHardwareLength], frame[offsetProtocolLength] = hardwareLength, protocolLength
	binary.BigEndian.PutUint16(frame[offsetOperation:], p.operation)
	copy(frame[offsetSenderHardware:], p.senderHardware[:])
	copy(frame[offsetSenderProtocol:], p.senderProtocol.AsSlice())
	copy(frame[offsetTargetHardware:], p.targetHardware[:])
	copy(frame[offsetTargetProtocol:], p.targetProtocol.AsSlice())
	return frame
}

// parseARP reads an untagged frame with an ARP packet for Ethernet and IPv4, and whom the frame came from. Padding is ignored.
func parseARP(frame []byte) (p arpPacket, source MAC, ok bool) {
	if len(frame) < arpLength || binary.BigEndian.Uint16(frame[offsetEtherType:]) != etherTypeARP {
		return p, source, false
	}
	hardware := binary.BigEndian.Uint16(frame[offsetHardwareType:])
	if hardware != hardwareEthernet && hardware != hardwareIEEE802 ||
		binary.BigEndian.Uint16(frame[offsetProtocolType:]) != etherTypeIPv4 ||
		frame[offsetHardwareLength] != hardwareLength || frame[offsetProtocolLength] != protocolLength {
		return p, source, false
	}
	return arpPacket{
		operation:      binary.BigEndian.Uint16(frame[offsetOperation:]),
		senderHardware: MAC(frame[offsetSenderHardware:offsetSenderProtocol]),
		senderProtocol: netip.AddrFrom4([4]byte(frame[offsetSenderProtocol:offsetTargetHardware])),
		targetHardware: MAC(frame[offsetTargetHardware:offsetTargetProtocol]),
		targetProtocol: netip.AddrFrom4([4]byte(frame[offsetTargetProtocol:arpLength])),
	}, MAC(frame[6:offsetEtherType]), true
}

// arp makes and reads frames of ARP for an interface with this hardware address.
type arp struct{ mac MAC }

var _ protocol = arp{}

func (arp) name() string { return "ARP" }

func (arp) family(a netip.Addr) bool { return a.Is4() }

// selection wants packets from and for addresses in the ranges: the first are what others claim.
func (arp) selection() selection {
	return selection{
		protocol: []bpf.Instruction{
			bpf.LoadAbsolute{Off: offsetEtherType, Size: 2},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: etherTypeARP, SkipTrue: 1},
			bpf.RetConstant{Val: drop},
		},
		addresses: []uint32{offsetTargetProtocol, offsetSenderProtocol},
		highest:   packetTypeBroadcast,
	}
}

func (arp) read(frame []byte) (message, Drop) {
	p, source, ok := parseARP(frame)
	switch {
	case !ok:
		return message{}, Malformed
	case p.senderHardware != source || source.isGroup():
		return message{}, Spoofed
	}
	m := message{source: source, sender: p.senderProtocol}
	if p.operation == operationRequest {
		m.asks = p.targetProtocol
	}
	if (p.operation == operationRequest || p.operation == operationReply) && !m.sender.IsUnspecified() {
		m.claims = m.sender
	}
	return m, ""
}

func (p arp) answer(m message) []byte {
	return arpPacket{operationReply, p.mac, m.source, m.asks, m.sender}.frame(m.source)
}

// announcement has two forms. The request, with the target hardware address 0, is what Junos takes; the reply, whose target hardware
// address is the sender's, is what Linux takes at once even for an entry that it has just updated.
func (p arp) announcement(a netip.Addr) [][]byte {
	return [][]byte{
		arpPacket{operationRequest, p.mac, MAC{}, a, a}.frame(broadcast),
		arpPacket{operationReply, p.mac, p.mac, a, a}.frame(broadcast),
	}
}

func (p arp) directed(a netip.Addr, to asker) []byte {
	return arpPacket{operationRequest, p.mac, MAC{}, a, to.addr}.frame(to.mac)
}

func (p arp) probe(a netip.Addr, to *MAC) []byte {
	destination := broadcast
	if to != nil {
		destination = *to
	}
	return arpPacket{operationRequest, p.mac, MAC{}, netip.IPv4Unspecified(), a}.frame(destination)
}
