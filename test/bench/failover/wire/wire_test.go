package wire

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	vip    = netip.MustParseAddr("192.168.1.200")
	client = netip.MustParseAddr("192.168.1.122")
	node   = MAC{2, 0, 192, 168, 1, 128}
	addrs  = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
)

func TestMACIsReadAsWritten(t *testing.T) {
	got, err := ParseMAC(node.String())
	if err != nil || got != node {
		t.Errorf("ParseMAC(%q) = %v, %v", node.String(), got, err)
	}
	for _, bad := range []string{"", "02:00:c0:a8:01", "02:00:c0:a8:01:zz"} {
		if m, err := ParseMAC(bad); err == nil {
			t.Errorf("ParseMAC(%q) = %v, want an error", bad, m)
		}
	}
}

// arp makes an ARP packet whose sender claims an address.
func arp(operation uint16, sender netip.Addr, mac MAC) []byte {
	frame := Ask(vip, sender, mac)
	binary.BigEndian.PutUint16(frame[offsetOperation:], operation)
	return frame
}

func TestClaim(t *testing.T) {
	type claim struct {
		Addr netip.Addr
		MAC  MAC
		OK   bool
	}
	ipv6 := arp(1, vip, node)
	binary.BigEndian.PutUint16(ipv6[offsetType:], 0x86dd)
	token := arp(1, vip, node)
	token[offsetARP+1] = 4
	for name, tc := range map[string]struct {
		frame []byte
		want  claim
	}{
		"an announcement claims its sender's address": {frame: arp(1, vip, node), want: claim{vip, node, true}},
		"so does an answer":                           {frame: arp(2, vip, node), want: claim{vip, node, true}},
		"a question claims the asker's own":           {frame: arp(1, client, node), want: claim{client, node, true}},
		"a probe claims nothing":                      {frame: arp(1, netip.IPv4Unspecified(), node), want: claim{netip.IPv4Unspecified(), node, false}},
		"another protocol claims nothing":             {frame: ipv6},
		"another kind of network claims nothing":      {frame: token},
		"half a packet claims nothing":                {frame: arp(1, vip, node)[:40]},
		"an empty frame claims nothing":               {},
	} {
		t.Run(name, func(t *testing.T) {
			var got claim
			got.Addr, got.MAC, got.OK = Claim(tc.frame)
			if diff := cmp.Diff(tc.want, got, addrs); diff != "" {
				t.Errorf("claim (-want +got):\n%s", diff)
			}
		})
	}
}

// datagram makes a frame with a UDP datagram from the VIP.
func datagram(port uint16, payload []byte) []byte {
	frame := make([]byte, offsetIP+lengthIP+lengthUDP, shortest)
	copy(frame[6:], node[:])
	binary.BigEndian.PutUint16(frame[offsetType:], typeIPv4)
	frame[offsetIP] = 0x45 // version 4, five words
	frame[offsetProtocol] = protocolUDP
	copy(frame[offsetSource:], vip.AsSlice())
	binary.BigEndian.PutUint16(frame[offsetIP+lengthIP:], port)
	binary.BigEndian.PutUint16(frame[offsetIP+lengthIP+4:], uint16(lengthUDP+len(payload)))
	return append(frame, payload...)
}

func TestAnswer(t *testing.T) {
	type answer struct {
		Addr, To netip.Addr
		OK       bool
	}
	for name, tc := range map[string]struct {
		frame []byte
		want  answer
	}{
		"a reply tells whom it names": {frame: arp(2, client, node), want: answer{client, vip, true}},
		"a question tells nobody":     {frame: arp(1, client, node), want: answer{Addr: client}},
		"half a packet tells nothing": {frame: arp(2, client, node)[:40]},
	} {
		t.Run(name, func(t *testing.T) {
			var got answer
			got.Addr, got.To, got.OK = Answer(tc.frame)
			if diff := cmp.Diff(tc.want, got, addrs); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseReply(t *testing.T) {
	sent := time.Unix(1_800_000_000, 123_456_789)
	answer, ok := Echo(Probe(sent), "k8s-wl-02")
	if !ok {
		t.Fatal("a probe has no answer")
	}
	whole := datagram(Port, answer)
	part := datagram(Port, answer)
	binary.BigEndian.PutUint16(part[offsetFragment:], 185)
	tcp := datagram(Port, answer)
	tcp[offsetProtocol] = 6
	want := Reply{VIP: vip, Via: node, Backend: "k8s-wl-02", Sent: sent}
	for name, tc := range map[string]struct {
		frame []byte
		want  Reply
		ok    bool
	}{
		"an answer tells the VIP, the node it came through, the backend and the probe": {frame: whole, want: want, ok: true},
		"padding is no part of it":                     {frame: append(datagram(Port, answer), 0, 0, 0), want: want, ok: true},
		"a backend without a name is one all the same": {frame: datagram(Port, Probe(sent)), want: Reply{VIP: vip, Via: node, Sent: sent}, ok: true},
		"a datagram from another port is none":         {frame: datagram(53, answer)},
		"a datagram that holds no probe is none":       {frame: datagram(Port, []byte("hello"))},
		"a datagram that was cut off is none":          {frame: whole[:len(whole)-1]},
		"a later part of a packet is none":             {frame: part},
		"another protocol is none":                     {frame: tcp},
		"half a header is none":                        {frame: whole[:30]},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := ParseReply(tc.frame)
			if ok != tc.ok {
				t.Fatalf("it is read: %v", ok)
			}
			if diff := cmp.Diff(tc.want, got, addrs); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsNoProbeHasNoAnswer(t *testing.T) {
	for _, datagram := range [][]byte{nil, []byte("hello"), []byte("much longer than a probe")} {
		if answer, ok := Echo(datagram, "k8s-wl-02"); ok {
			t.Errorf("%q is answered with %q", datagram, answer)
		}
	}
}
