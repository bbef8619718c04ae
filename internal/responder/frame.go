package responder

import (
	"errors"
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
	// Spoofed: the sender that the packet names is not the one that the frame came from.
	Spoofed Drop = "spoofed"
	// Own: we sent it.
	Own Drop = "own"
	// NotOwned: it asks for an address that is not announced here.
	NotOwned Drop = "not_owned"
)

var zeroMAC = net.HardwareAddr{0, 0, 0, 0, 0, 0}

// reply returns the frame that answers a request for an owned address, or why there is none. A probe (RFC 5227, sender address 0.0.0.0) is
// answered too: that is what keeps others from taking the address.
func reply(frame []byte, owned func(netip.Addr) bool, mac net.HardwareAddr) ([]byte, Drop) {
	var outer ethernet.Frame
	if err := outer.UnmarshalBinary(frame); err != nil || outer.EtherType != ethernet.EtherTypeARP || outer.VLAN != nil || outer.ServiceVLAN != nil {
		return nil, Malformed
	}
	var request arp.Packet
	if err := request.UnmarshalBinary(outer.Payload); err != nil {
		return nil, Malformed
	}
	switch {
	case request.HardwareType != 1 || request.ProtocolType != uint16(ethernet.EtherTypeIPv4) || len(request.SenderHardwareAddr) != 6 || !request.TargetIP.Is4():
		return nil, Malformed
	case request.Operation != arp.OperationRequest:
		return nil, NotRequest
	case string(request.SenderHardwareAddr) == string(mac):
		return nil, Own
	case string(request.SenderHardwareAddr) != string(outer.Source):
		return nil, Spoofed
	case !owned(request.TargetIP):
		return nil, NotOwned
	}
	answer, err := encode(arp.OperationReply, mac, request.TargetIP, request.SenderHardwareAddr, request.SenderIP, request.SenderHardwareAddr)
	if err != nil {
		return nil, Malformed
	}
	return answer, ""
}

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

var errNotEthernet = errors.New("it has no Ethernet address of 6 bytes")
