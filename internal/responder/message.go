package responder

import (
	"net"
	"net/netip"
)

// MAC is an Ethernet address that can be compared.
type MAC [6]byte

// String writes it as usual, 02:00:00:00:00:aa.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// isGroup says whether it is the address of a group: no frame comes from one, and none of ours may go to one as an answer.
func (m MAC) isGroup() bool { return m[0]&1 != 0 }

// broadcast is everybody on the LAN.
var broadcast = MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// SightingKind is what a packet of somebody else says about an address.
type SightingKind string

// The kinds of sightings.
const (
	// Claimed: the sender says that the address is at its hardware address, as an answer, an announcement, or by asking from it.
	Claimed SightingKind = "claimed"
	// Probed: the sender asks whether anybody has the address before it takes it, without saying that it has one (RFC 5227, section 2.1.1;
	// RFC 4862, section 5.4).
	Probed SightingKind = "probed"
)

// Sighting is somebody else's packet about an address in the ranges that a responder hears.
type Sighting struct {
	Addr netip.Addr
	// MAC is the sender's.
	MAC  MAC
	Kind SightingKind
}

// message is what a frame says, in terms that ARP and NDP share.
type message struct {
	// source is the hardware address of the sender, the same in the packet as in the frame.
	source MAC
	// sender is the address that the sender has, unspecified in a probe.
	sender netip.Addr
	// claims is the address that it says is at its hardware address. It is the zero Addr if there is none.
	claims netip.Addr
	// asks is the address that it asks for. It is the zero Addr if there is none.
	asks netip.Addr
}

// probes says whether the sender asks without an address of its own.
func (m message) probes() bool { return m.asks.IsValid() && m.sender.IsUnspecified() }

// Drop is why a frame gets no answer.
type Drop string

// The reasons for no answer.
const (
	// Malformed: it is no ARP packet for Ethernet and IPv4 (RFC 826), or no neighbour message that is valid (RFC 4861, section 7.1).
	Malformed Drop = "malformed"
	// NotRequest: it asks for nothing.
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

// verdict is what becomes of a message.
type verdict struct {
	// sighting is what is reported; its address is the zero Addr if that is nothing.
	sighting Sighting
	// learn says whether the sender is one to be told when the address that it asks for moves.
	learn bool
	// drop is why there is no answer; empty if there is one.
	drop Drop
}

// judge decides on a message, given our hardware address and which addresses are heard and owned. A probe is answered too: that is what
// keeps others from taking the address. Who probes has no address yet, so it is not learned.
func judge(m message, mac MAC, heard, owned func(netip.Addr) bool) (v verdict) {
	if m.source == mac {
		return verdict{drop: Own}
	}
	switch {
	case m.probes() && heard(m.asks):
		v.sighting = Sighting{Addr: m.asks, MAC: m.source, Kind: Probed}
	case m.claims.IsValid() && heard(m.claims):
		v.sighting = Sighting{Addr: m.claims, MAC: m.source, Kind: Claimed}
	}
	switch {
	case !m.asks.IsValid():
		v.drop = NotRequest
	case m.asks == m.sender:
		v.drop = Announcement
	default:
		v.learn = isHost(m.sender) && heard(m.asks)
		if !owned(m.asks) {
			v.drop = NotOwned
		}
	}
	return v
}

// isHost says whether an address is one that a single host can have on a LAN.
func isHost(a netip.Addr) bool { return a.IsGlobalUnicast() || a.IsLinkLocalUnicast() }
