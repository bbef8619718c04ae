package responder

import (
	"net"
	"net/netip"

	codec "github.com/mdlayher/arp"
	"github.com/mdlayher/ethernet"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// ListenARP opens a responder for IPv4 addresses on the interface with this index and hardware address. Nothing passes its filter until
// Hear has been called.
func ListenARP(index int, mac net.HardwareAddr, config Config) (*Responder, error) {
	own, err := macOf(mac)
	if err != nil {
		return nil, err
	}
	return open(index, own, arp{own}, unix.ETH_P_ARP, config)
}

// The offsets of the fields that the filter looks at (RFC 826), from the start of the Ethernet header.
const (
	offsetEtherType      = 12
	offsetSenderProtocol = 28
	offsetTargetProtocol = 38
	etherTypeARP         = uint32(ethernet.EtherTypeARP)
)

// The hardware types of ARP on Ethernet: 1 (RFC 826), and 6 (RFC 1042, IEEE 802 networks), which is taken as the same.
const (
	hardwareEthernet = 1
	hardwareIEEE802  = 6
)

// arpPacket are the fields of an ARP packet that vary.
type arpPacket struct {
	operation                      codec.Operation
	senderHardware, targetHardware MAC
	senderProtocol, targetProtocol netip.Addr
}

// frame puts the packet in an Ethernet frame from its sender, padded to 60 bytes. Nothing that makes up these packets can fail to be written.
func (p arpPacket) frame(to MAC) []byte {
	payload, _ := (&codec.Packet{
		HardwareType: hardwareEthernet, ProtocolType: uint16(ethernet.EtherTypeIPv4),
		HardwareAddrLength: uint8(len(p.senderHardware)), IPLength: net.IPv4len, Operation: p.operation,
		SenderHardwareAddr: p.senderHardware[:], SenderIP: p.senderProtocol,
		TargetHardwareAddr: p.targetHardware[:], TargetIP: p.targetProtocol,
	}).MarshalBinary()
	frame, _ := (&ethernet.Frame{
		Destination: to[:], Source: p.senderHardware[:], EtherType: ethernet.EtherTypeARP, Payload: payload,
	}).MarshalBinary()
	return frame
}

// parseARP reads an untagged frame with an ARP packet for Ethernet and IPv4, and whom the frame came from. Padding is ignored.
func parseARP(frame []byte) (p arpPacket, source MAC, ok bool) {
	var (
		outer  ethernet.Frame
		packet codec.Packet
	)
	if err := outer.UnmarshalBinary(frame); err != nil || outer.EtherType != ethernet.EtherTypeARP || outer.VLAN != nil || outer.ServiceVLAN != nil {
		return p, source, false
	}
	if err := packet.UnmarshalBinary(outer.Payload); err != nil ||
		packet.HardwareType != hardwareEthernet && packet.HardwareType != hardwareIEEE802 ||
		packet.ProtocolType != uint16(ethernet.EtherTypeIPv4) ||
		int(packet.HardwareAddrLength) != len(source) || packet.IPLength != net.IPv4len {
		return p, source, false
	}
	return arpPacket{
		operation:      packet.Operation,
		senderHardware: MAC(packet.SenderHardwareAddr), senderProtocol: packet.SenderIP,
		targetHardware: MAC(packet.TargetHardwareAddr), targetProtocol: packet.TargetIP,
	}, MAC(outer.Source), true
}

// arp makes and reads frames of ARP for an interface with this hardware address.
type arp struct{ mac MAC }

var _ protocol = arp{}

func (arp) name() string { return "ARP" }

func (arp) family(a netip.Addr) bool { return a.Is4() }

// selection wants packets from and for addresses of interest: the first are what others claim.
func (arp) selection() selection {
	return selection{
		protocol: []bpf.Instruction{
			bpf.LoadAbsolute{Off: offsetEtherType, Size: 2},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: etherTypeARP, SkipTrue: 1},
			bpf.RetConstant{Val: drop},
		},
		claimed: offsetSenderProtocol,
		asked:   offsetTargetProtocol,
		highest: packetTypeBroadcast,
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
	if p.operation == codec.OperationRequest {
		m.asks = p.targetProtocol
	}
	if (p.operation == codec.OperationRequest || p.operation == codec.OperationReply) && !m.sender.IsUnspecified() {
		m.claims = m.sender
	}
	return m, ""
}

func (p arp) answer(m message) []byte {
	return arpPacket{codec.OperationReply, p.mac, m.source, m.asks, m.sender}.frame(m.source)
}

// announcement has two forms. The request, with the target hardware address 0, is what Junos takes; the reply, whose target hardware
// address is the sender's, is what Linux takes at once even for an entry that it has just updated.
func (p arp) announcement(a netip.Addr) [][]byte {
	return [][]byte{
		arpPacket{codec.OperationRequest, p.mac, MAC{}, a, a}.frame(broadcast),
		arpPacket{codec.OperationReply, p.mac, p.mac, a, a}.frame(broadcast),
	}
}

func (p arp) directed(a netip.Addr, to asker) []byte {
	return arpPacket{codec.OperationRequest, p.mac, MAC{}, a, to.addr}.frame(to.mac)
}

func (p arp) probe(a netip.Addr, to *MAC) []byte {
	destination := broadcast
	if to != nil {
		destination = *to
	}
	return arpPacket{codec.OperationRequest, p.mac, MAC{}, netip.IPv4Unspecified(), a}.frame(destination)
}

func (p arp) request(a, from netip.Addr) []byte {
	return arpPacket{codec.OperationRequest, p.mac, MAC{}, from, a}.frame(broadcast)
}
