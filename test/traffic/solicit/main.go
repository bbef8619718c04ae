// Command solicit asks for an IPv6 address in each way in which hosts ask, and prints who answers: the test's own eyes on neighbour discovery,
// which share nothing with the speaker's.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mdlayher/ndp"
	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"
)

// The parts of a frame: Ethernet, IPv6 (RFC 8200), ICMPv6.
const (
	ethernetHeader = 14
	ipHeader       = 40
	icmpv6         = 58
)

func main() {
	iface := flag.String("interface", "eth0", "where to ask")
	target := flag.String("target", "", "the address that is asked for")
	how := flag.String("how", "multicast", "multicast, as who knows nothing asks; unicast, as who looks whether a neighbour is still there; "+
		"without-option, the same without saying its own hardware address; duplicate, as who is about to take the address")
	to := flag.String("to", "", "the hardware address to ask, for unicast and without-option")
	listen := flag.Duration("listen", 500*time.Millisecond, "how long to listen for answers")
	flag.Parse()
	answers, err := ask(*iface, *target, *how, *to, *listen)
	if err != nil {
		fmt.Fprintln(os.Stderr, "solicit:", err)
		os.Exit(1)
	}
	fmt.Println(strings.Join(answers, "\n"))
}

// ask sends one solicitation, and returns each advertisement of the target once, as "HARDWARE-ADDRESS FLAGS DESTINATION".
func ask(name, target, how, to string, listen time.Duration) ([]string, error) {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("looking for the interface: %w", err)
	}
	wanted, err := netip.ParseAddr(target)
	if err != nil {
		return nil, fmt.Errorf("reading --target: %w", err)
	}
	from, err := own(iface)
	if err != nil {
		return nil, err
	}
	var neighbour net.HardwareAddr
	if to != "" {
		if neighbour, err = net.ParseMAC(to); err != nil {
			return nil, fmt.Errorf("reading --to: %w", err)
		}
	}
	frame, err := solicitation(iface.HardwareAddr, from, wanted, how, neighbour)
	if err != nil {
		return nil, err
	}
	lan, err := packet.Listen(iface, packet.Raw, unix.ETH_P_IPV6, nil)
	if err != nil {
		return nil, fmt.Errorf("opening the interface: %w", err)
	}
	defer lan.Close() //nolint:errcheck // the program ends
	if _, err := lan.WriteTo(frame, &packet.Addr{HardwareAddr: frame[:6]}); err != nil {
		return nil, fmt.Errorf("asking: %w", err)
	}
	return hear(lan, wanted, time.Now().Add(listen))
}

// own is the interface's address of more than the link.
func own(iface *net.Interface) (netip.Addr, error) {
	addrs, err := iface.Addrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("listing addresses: %w", err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is6() && !p.Addr().IsLinkLocalUnicast() {
			return p.Addr(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s has no IPv6 address but of the link", iface.Name)
}

// solicitation is the frame that asks.
func solicitation(mac net.HardwareAddr, from, target netip.Addr, how string, neighbour net.HardwareAddr) ([]byte, error) {
	group, err := ndp.SolicitedNodeMulticast(target)
	if err != nil {
		return nil, fmt.Errorf("finding the address's group: %w", err)
	}
	b := group.As16()
	destination, ethernet := group, net.HardwareAddr{0x33, 0x33, b[12], b[13], b[14], b[15]}
	said := &ndp.NeighborSolicitation{TargetAddress: target, Options: []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: mac}}}
	switch how {
	case "multicast":
	case "unicast", "without-option":
		if len(neighbour) == 0 {
			return nil, fmt.Errorf("--how %s needs --to", how)
		}
		destination, ethernet = target, neighbour
		if how == "without-option" {
			said.Options = nil
		}
	case "duplicate": // RFC 4862, section 5.4.2
		from, said.Options = netip.IPv6Unspecified(), nil
	default:
		return nil, fmt.Errorf("--how is %q: it is multicast, unicast, without-option or duplicate", how)
	}
	body, err := ndp.MarshalMessageChecksum(said, from, destination)
	if err != nil {
		return nil, fmt.Errorf("writing the solicitation: %w", err)
	}
	frame := slices.Concat(ethernet, mac, []byte{0x86, 0xdd}, make([]byte, ipHeader), body)
	ip := frame[ethernetHeader:]
	ip[0], ip[6], ip[7] = 6<<4, icmpv6, 255
	binary.BigEndian.PutUint16(ip[4:], uint16(len(body)))
	copy(ip[8:], from.AsSlice())
	copy(ip[24:], destination.AsSlice())
	return frame, nil
}

// hear returns who advertises the target.
func hear(lan *packet.Conn, target netip.Addr, until time.Time) ([]string, error) {
	var answers []string
	if err := lan.SetReadDeadline(until); err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	frame := make([]byte, 2048)
	for {
		n, _, err := lan.ReadFrom(frame)
		if os.IsTimeout(err) {
			slices.Sort(answers)
			return slices.Compact(answers), nil
		}
		if err != nil {
			return nil, fmt.Errorf("listening: %w", err)
		}
		if n < ethernetHeader+ipHeader+1 || frame[ethernetHeader+6] != icmpv6 || frame[ethernetHeader+7] != 255 {
			continue
		}
		said, err := ndp.ParseMessage(frame[ethernetHeader+ipHeader : n])
		if err != nil {
			continue // somebody else's, of another kind
		}
		if na, is := said.(*ndp.NeighborAdvertisement); is && na.TargetAddress == target {
			destination := netip.AddrFrom16([16]byte(frame[ethernetHeader+24 : ethernetHeader+40]))
			answers = append(answers, fmt.Sprintf("%s %s %s", net.HardwareAddr(frame[6:12]), flags(na), destination))
		}
	}
}

// flags are those of an advertisement, by their letters in RFC 4861.
func flags(na *ndp.NeighborAdvertisement) string {
	text := ""
	for _, f := range []struct {
		letter string
		set    bool
	}{{"R", na.Router}, {"S", na.Solicited}, {"O", na.Override}} {
		if f.set {
			text += f.letter
		}
	}
	return text
}
