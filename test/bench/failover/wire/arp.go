package wire

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
)

// MAC is a hardware address of Ethernet.
type MAC [6]byte

// String writes it with colons, as the kernel does.
func (m MAC) String() string {
	text := make([]byte, 0, 17)
	for i, b := range m {
		if i > 0 {
			text = append(text, ':')
		}
		text = hex.AppendEncode(text, []byte{b})
	}
	return string(text)
}

// ParseMAC reads what String writes.
func ParseMAC(text string) (MAC, error) {
	var m MAC
	if len(text) != 17 {
		return m, fmt.Errorf("%q is no hardware address", text)
	}
	for i := range m {
		if _, err := hex.Decode(m[i:i+1], []byte(text[3*i:3*i+2])); err != nil {
			return m, fmt.Errorf("%q is no hardware address: %w", text, err)
		}
	}
	return m, nil
}

var broadcast = MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// The offsets of an ARP packet's fields (RFC 826) for Ethernet and IPv4, from the start of the Ethernet header.
const (
	offsetType      = 12
	offsetARP       = 14
	offsetOperation = 20
	offsetSenderMAC = 22
	offsetSenderIP  = 28
	offsetTargetMAC = 32
	offsetTargetIP  = 38
	lengthARP       = 42
	// shortest is the shortest Ethernet frame, in bytes, without its checksum.
	shortest = 60

	typeARP  = 0x0806
	typeIPv4 = 0x0800
)

// ethernetIPv4 is how an ARP packet for Ethernet and IPv4 begins: hardware type 1, protocol 0x0800, lengths 6 and 4.
var ethernetIPv4 = [6]byte{0, 1, 8, 0, 6, 4}

// Claim says whose hardware address a frame gives for an address of the LAN: every ARP packet does for its sender, be it an answer, an
// announcement or a question. A probe (sender 0.0.0.0) claims nothing.
func Claim(frame []byte) (addr netip.Addr, mac MAC, ok bool) {
	if len(frame) < lengthARP || binary.BigEndian.Uint16(frame[offsetType:]) != typeARP || [6]byte(frame[offsetARP:]) != ethernetIPv4 {
		return addr, mac, false
	}
	addr = netip.AddrFrom4([4]byte(frame[offsetSenderIP:]))
	return addr, MAC(frame[offsetSenderMAC:]), !addr.IsUnspecified()
}

// Answer says who is told by a frame, an ARP reply, where an address is.
func Answer(frame []byte) (addr, to netip.Addr, ok bool) {
	addr, _, ok = Claim(frame)
	if !ok || binary.BigEndian.Uint16(frame[offsetOperation:]) != 2 {
		return addr, to, false
	}
	return addr, netip.AddrFrom4([4]byte(frame[offsetTargetIP:])), true
}

// Ask makes the frame that asks everybody on the LAN who has an address.
func Ask(addr, asker netip.Addr, from MAC) []byte {
	frame := make([]byte, shortest)
	copy(frame, broadcast[:])
	copy(frame[6:], from[:])
	binary.BigEndian.PutUint16(frame[offsetType:], typeARP)
	copy(frame[offsetARP:], ethernetIPv4[:])
	binary.BigEndian.PutUint16(frame[offsetOperation:], 1)
	copy(frame[offsetSenderMAC:], from[:])
	copy(frame[offsetSenderIP:], asker.AsSlice())
	copy(frame[offsetTargetIP:], addr.AsSlice())
	return frame
}
