package responder

import (
	"encoding/hex"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	ourMAC  = net.HardwareAddr{0x02, 0, 0, 0, 0, 0xaa}
	ourAddr = netip.MustParseAddr("192.168.1.200")
)

// ownsOnly makes an address the only one that is answered for.
func ownsOnly(a netip.Addr) func(netip.Addr) bool {
	return func(b netip.Addr) bool { return a == b }
}

// frameOf reads a frame written in hexadecimal, with spaces where fields end.
func frameOf(t testing.TB, text string) []byte {
	t.Helper()
	frame, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatalf("the test's frame is wrong: %v", err)
	}
	return frame
}

// padding fills a frame with an ARP packet, of 42 bytes, up to Ethernet's 60.
const padding = "000000000000000000 000000000000000000"

func TestReply(t *testing.T) {
	//   destination  source       type hard prot  h p  op   sender       address  target       address
	const (
		request    = "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8"
		requested  = "0200000000bb 0200000000aa 0806 0001 0800 06 04 0002 0200000000aa c0a801c8 0200000000bb c0a8017a " + padding
		probe      = "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb 00000000 000000000000 c0a801c8"
		probed     = "0200000000bb 0200000000aa 0806 0001 0800 06 04 0002 0200000000aa c0a801c8 0200000000bb 00000000 " + padding
		unicast    = "0200000000aa 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 0200000000aa c0a801c8"
		ieee802    = "ffffffffffff 0200000000bb 0806 0006 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8"
		answer     = "0200000000aa 0200000000bb 0806 0001 0800 06 04 0002 0200000000bb c0a8017a 0200000000aa c0a801c8"
		reverse    = "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0003 0200000000bb c0a8017a 000000000000 c0a801c8"
		other      = "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c9"
		announced  = "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a801c8 000000000000 c0a801c8"
		byUs       = "ffffffffffff 0200000000aa 0806 0001 0800 06 04 0001 0200000000aa c0a801c8 000000000000 c0a801c8"
		spoofed    = "ffffffffffff 0200000000cc 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8"
		fromGroup  = "ffffffffffff 0100000000bb 0806 0001 0800 06 04 0001 0100000000bb c0a8017a 000000000000 c0a801c8"
		tagged     = "ffffffffffff 0200000000bb 8100 0064 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8"
		ipv4       = "ffffffffffff 0200000000bb 0800 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8"
		infiniband = "ffffffffffff 0200000000bb 0806 0020 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8"
		forIPX     = "ffffffffffff 0200000000bb 0806 0001 8137 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8"
		longMAC    = "ffffffffffff 0200000000bb 0806 0001 0800 08 04 0001 0200000000bb0000 c0a8017a 0000000000000000 c0a801c8"
		longIP     = "ffffffffffff 0200000000bb 0806 0001 0800 06 10 0001 0200000000bb 00000000000000000000000000000000 000000000000 00000000000000000000ffffc0a801c8"
		cut        = "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801"
	)
	for name, tc := range map[string]struct {
		frame string
		want  string
		drop  Drop
	}{
		"a request for our address":                                      {frame: request, want: requested},
		"a request with padding, as it comes off a wire":                 {frame: request + padding, want: requested},
		"a probe before somebody takes our address (RFC 5227)":           {frame: probe, want: probed},
		"a request to us alone, as a neighbour checks that we are there": {frame: unicast, want: requested},
		"a request of hardware type 6, answered with type 1":             {frame: ieee802, want: requested},
		"a reply":                                               {frame: answer, drop: NotRequest},
		"a request of reverse ARP":                              {frame: reverse, drop: NotRequest},
		"a request for another's address":                       {frame: other, drop: NotOwned},
		"another host's announcement of our address":            {frame: announced, drop: Announcement},
		"our own announcement, given back by the network":       {frame: byUs, drop: Own},
		"a sender that is not where the frame came from":        {frame: spoofed, drop: Spoofed},
		"a sender that is a group":                              {frame: fromGroup, drop: Spoofed},
		"a frame of a VLAN":                                     {frame: tagged, drop: Malformed},
		"a frame that is not ARP":                               {frame: ipv4, drop: Malformed},
		"ARP for InfiniBand":                                    {frame: infiniband, drop: Malformed},
		"ARP for another protocol than IPv4":                    {frame: forIPX, drop: Malformed},
		"ARP with hardware addresses of eight bytes":            {frame: longMAC, drop: Malformed},
		"ARP with protocol addresses of sixteen bytes":          {frame: longIP, drop: Malformed},
		"a frame that ends before the target address does":      {frame: cut, drop: Malformed},
		"a frame that ends within the Ethernet header":          {frame: "ffffffffffff 0200000000bb 08", drop: Malformed},
		"a frame that ends where lengths of addresses would be": {frame: "ffffffffffff 0200000000bb 0806 0001 08", drop: Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			got, drop := reply(frameOf(t, tc.frame), ownsOnly(ourAddr), ourMAC)
			if diff := cmp.Diff(hex.EncodeToString(frameOf(t, tc.want)), hex.EncodeToString(got)); diff != "" || drop != tc.drop {
				t.Errorf("reply is dropped as %q, want %q; frame (-want +got):\n%s", drop, tc.drop, diff)
			}
		})
	}
}

// TestAnnouncement: the request form has the target hardware address 0, the reply form its sender's. Linux takes the second only so.
func TestAnnouncement(t *testing.T) {
	request, answer, err := announcement(ourAddr, ourMAC)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		got  []byte
		want string
	}{
		"request": {request, "ffffffffffff 0200000000aa 0806 0001 0800 06 04 0001 0200000000aa c0a801c8 000000000000 c0a801c8 " + padding},
		"reply":   {answer, "ffffffffffff 0200000000aa 0806 0001 0800 06 04 0002 0200000000aa c0a801c8 0200000000aa c0a801c8 " + padding},
	} {
		if diff := cmp.Diff(hex.EncodeToString(frameOf(t, tc.want)), hex.EncodeToString(tc.got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if _, _, err := announcement(netip.MustParseAddr("fd00::200"), ourMAC); err == nil {
		t.Error("an IPv6 address has no announcement by ARP, want an error")
	}
}

// FuzzReply: whatever arrives, an answer is a well-formed ARP reply from us, about our address, to one host: the one that sent the frame.
func FuzzReply(f *testing.F) {
	f.Add(frameOf(f, "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8"))
	f.Add(frameOf(f, "ffffffffffff 0200000000bb 0806 0001 0800 06 10 0001 0200000000bb c0a8017a 000000000000 c0a801c8"))
	f.Add(frameOf(f, "ffffffffffff 0200000000bb 8100 0064 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, frame []byte) {
		answer, drop := reply(frame, ownsOnly(ourAddr), ourMAC)
		if (answer == nil) == (drop == "") {
			t.Fatalf("an answer of %d bytes with the drop reason %q: want one of the two", len(answer), drop)
		}
		if answer == nil {
			return
		}
		p, source, ok := parse(answer)
		if !ok || len(answer) != 60 || source.String() != ourMAC.String() || p.SenderHardwareAddr.String() != ourMAC.String() || p.SenderIP != ourAddr {
			t.Fatalf("bad answer %x to %x", answer, frame)
		}
		if to := net.HardwareAddr(answer[:6]); isGroup(to) || to.String() != net.HardwareAddr(frame[6:12]).String() {
			t.Fatalf("the answer to %x goes to %s, want it to go to who asked", frame, to)
		}
	})
}
