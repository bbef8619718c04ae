package wire

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// Port is where the echo servers answer datagrams.
const Port = 7007

// probeLength is that of a probe, in bytes: the time at which it was sent, in nanoseconds since 1970, which is also its number.
const probeLength = 8

// Probe makes the datagram that is sent at a time. No two are sent in the same nanosecond.
func Probe(sent time.Time) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(sent.UnixNano()))
}

// Echo makes a backend's answer to a probe: the probe, and the node that the backend is on. What is no probe has no answer.
func Echo(probe []byte, node string) ([]byte, bool) {
	if len(probe) != probeLength {
		return nil, false
	}
	return append(probe[:probeLength:probeLength], node...), true
}

// Reply is a backend's answer as the client gets it.
type Reply struct {
	// VIP is the address that was asked.
	VIP netip.Addr
	// Via is the hardware address that the frame came from: that of the node that answers for the VIP, through which traffic passes both
	// ways, wherever the backend is.
	Via MAC
	// Backend is the node of the backend.
	Backend string
	// Sent is when the probe was sent.
	Sent time.Time
}

// The offsets of an IPv4 packet's fields (RFC 791), from the start of the Ethernet header, and of a UDP header's (RFC 768), from its start.
const (
	offsetIP       = 14
	offsetProtocol = 23
	offsetFragment = 20
	offsetSource   = 26
	lengthIP       = 20
	lengthUDP      = 8
	protocolUDP    = 17
	// laterFragment are the bits of a packet that is a later part of another.
	laterFragment = 0x1fff
)

// ParseReply reads a frame with a backend's answer.
func ParseReply(frame []byte) (Reply, bool) {
	if len(frame) < offsetIP+lengthIP || binary.BigEndian.Uint16(frame[offsetType:]) != typeIPv4 || frame[offsetProtocol] != protocolUDP ||
		binary.BigEndian.Uint16(frame[offsetFragment:])&laterFragment != 0 {
		return Reply{}, false
	}
	udp := offsetIP + 4*int(frame[offsetIP]&0x0f)
	if len(frame) < udp+lengthUDP || binary.BigEndian.Uint16(frame[udp:]) != Port {
		return Reply{}, false
	}
	end := udp + int(binary.BigEndian.Uint16(frame[udp+4:])) // a short frame is padded
	if end > len(frame) || end < udp+lengthUDP+probeLength {
		return Reply{}, false
	}
	payload := frame[udp+lengthUDP : end]
	return Reply{
		VIP: netip.AddrFrom4([4]byte(frame[offsetSource:])), Via: MAC(frame[6:]), Backend: string(payload[probeLength:]),
		Sent: time.Unix(0, int64(binary.BigEndian.Uint64(payload))),
	}, true
}
