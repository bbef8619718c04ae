package responder

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"

	"github.com/mdlayher/arp"
	"github.com/mdlayher/ethernet"
)

// Drop is why a frame gets no answer.
type Drop string

// The reasons for no answer.
const (
	// Malformed: it is no ARP packet for Ethernet and IPv4 (RFC 826).
	Malformed Drop = "malformed"
	// NotRequest: it is a reply.
	NotRequest Drop = "not_request"
	// Own: we sent it.
	Own Drop = "own"
	// Spoofed: the sender that the packet names is not the one that the frame came from, or is no single host.
	Spoofed Drop = "spoofed"
	// Announcement: it asks for the sender's own address, as a host does to tell others where it is (RFC 5227, section 3).
	Announcement Drop = "announcement"
	// NotOwned: it asks for an address that is not announced here.
	NotOwned Drop = "not_owned"
)

// The hardware types of ARP on Ethernet: 1 (RFC 826), and 6 (RFC 1042, IEEE 802 networks), which is taken as the same.
const (
	hardwareEthernet = 1
	hardwareIEEE802  = 6
)

var zeroMAC = net.HardwareAddr{0, 0, 0, 0, 0, 0}

// reply returns the frame that answers a request for an owned address, or why there is none. A probe (RFC 5227, sender address 0.0.0.0) is
// answered too: that is what keeps others from taking the address.
func reply(frame []byte, owned func(netip.Addr) bool, mac net.HardwareAddr) ([]byte, Drop) {
	request, source, ok := parse(frame)
	switch {
	case !ok:
		return nil, Malformed
	case request.Operation != arp.OperationRequest:
		return nil, NotRequest
	case bytes.Equal(request.SenderHardwareAddr, mac):
		return nil, Own
	case !bytes.Equal(request.SenderHardwareAddr, source) || isGroup(source):
		return nil, Spoofed
	case request.SenderIP == request.TargetIP:
		return nil, Announcement
	case !owned(request.TargetIP):
		return nil, NotOwned
	}
	answer, err := encode(arp.OperationReply, mac, request.TargetIP, request.SenderHardwareAddr, request.SenderIP, request.SenderHardwareAddr)
	if err != nil {
		return nil, Malformed
	}
	return answer, ""
}

// parse reads an untagged frame with an ARP packet for Ethernet and IPv4, and whom the frame came from. Padding is ignored.
func parse(frame []byte) (packet arp.Packet, source net.HardwareAddr, ok bool) {
	var outer ethernet.Frame
	if err := outer.UnmarshalBinary(frame); err != nil || outer.EtherType != ethernet.EtherTypeARP || outer.VLAN != nil || outer.ServiceVLAN != nil {
		return packet, nil, false
	}
	if err := packet.UnmarshalBinary(outer.Payload); err != nil {
		return packet, nil, false
	}
	ok = (packet.HardwareType == hardwareEthernet || packet.HardwareType == hardwareIEEE802) &&
		packet.ProtocolType == uint16(ethernet.EtherTypeIPv4) && packet.HardwareAddrLength == 6 && packet.IPLength == 4
	return packet, outer.Source, ok
}

// isGroup says whether a hardware address is that of a group: no frame comes from one, and none of ours may go to one as an answer.
func isGroup(a net.HardwareAddr) bool { return a[0]&1 != 0 }

// announcement returns the two frames that tell everybody on the LAN where an address is now. The request form, with a target hardware
// address of 0, is what Junos takes; the reply form, whose target hardware address is the sender's, is what Linux takes at once even for
// an entry that it has just updated.
func announcement(addr netip.Addr, mac net.HardwareAddr) (request, answer []byte, err error) {
	request, err = encode(arp.OperationRequest, mac, addr, zeroMAC, addr, ethernet.Broadcast)
	if err != nil {
		return nil, nil, err
	}
	answer, err = encode(arp.OperationReply, mac, addr, mac, addr, ethernet.Broadcast)
	return request, answer, err
}

// encode makes an ARP packet in an Ethernet frame, padded to 60 bytes.
func encode(op arp.Operation, senderMAC net.HardwareAddr, sender netip.Addr, targetMAC net.HardwareAddr, target netip.Addr, to net.HardwareAddr) ([]byte, error) {
	packet, err := arp.NewPacket(op, senderMAC, sender, targetMAC, target)
	if err != nil {
		return nil, fmt.Errorf("making an ARP packet: %w", err)
	}
	payload, err := packet.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("encoding an ARP packet: %w", err)
	}
	frame := ethernet.Frame{Destination: to, Source: senderMAC, EtherType: ethernet.EtherTypeARP, Payload: payload}
	encoded, err := frame.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("encoding an Ethernet frame: %w", err)
	}
	return encoded, nil
}
