package responder

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	codec "github.com/mdlayher/arp"
)

var (
	ourMAC   = MAC{0x02, 0, 0, 0, 0, 0xaa}
	theirMAC = MAC{0x02, 0, 0, 0, 0, 0xbb}
	ourAddr  = netip.MustParseAddr("192.168.1.200")
	ourPool  = []Range{rangeOf("192.168.1.200", "192.168.1.210")}
)

// outcome is what becomes of a frame.
type outcome struct {
	// Answer is the frame that answers it, in hexadecimal.
	Answer   string
	Sighting Sighting
	Learned  bool
	Drop     Drop
}

// outcomeOf hands a frame to a protocol that hears a pool and owns one of its addresses.
func outcomeOf(p protocol, frame []byte, pool []Range, owned netip.Addr) outcome {
	m, unread := p.read(frame)
	if unread != "" {
		return outcome{Drop: unread}
	}
	v := judge(m, ourMAC, func(a netip.Addr) bool { return contains(pool, a) }, func(a netip.Addr) bool { return a == owned })
	o := outcome{Sighting: v.sighting, Learned: v.learn, Drop: v.drop}
	if v.drop == "" {
		o.Answer = hex.EncodeToString(p.answer(m))
	}
	return o
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

func TestARP(t *testing.T) {
	//   destination  source       type hard prot  h p  op   sender       address  target       address
	const (
		request    = "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8"
		requested  = "0200000000bb 0200000000aa 0806 0001 0800 06 04 0002 0200000000aa c0a801c8 0200000000bb c0a8017a " + padding
		probe      = "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb 00000000 000000000000 c0a801c8"
		probed     = "0200000000bb 0200000000aa 0806 0001 0800 06 04 0002 0200000000aa c0a801c8 0200000000bb 00000000 " + padding
		otherProbe = "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb 00000000 000000000000 c0a801c9"
		unicast    = "0200000000aa 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 0200000000aa c0a801c8"
		ieee802    = "ffffffffffff 0200000000bb 0806 0006 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8"
		fromPool   = "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a801c9 000000000000 c0a801c8"
		forOther   = "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a801c9 000000000000 c0a8017a"
		answer     = "0200000000aa 0200000000bb 0806 0001 0800 06 04 0002 0200000000bb c0a8017a 0200000000aa c0a801c8"
		claim      = "0200000000aa 0200000000bb 0806 0001 0800 06 04 0002 0200000000bb c0a801c8 0200000000aa 00000000"
		reverse    = "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0003 0200000000bb c0a801c8 000000000000 c0a801c8"
		other      = "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c9"
		outside    = "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a80107"
		everybody  = "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb ffffffff 000000000000 c0a801c9"
		announced  = "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a801c8 000000000000 c0a801c8"
		byUs       = "ffffffffffff 0200000000aa 0806 0001 0800 06 04 0001 0200000000aa c0a801c8 000000000000 c0a801c8"
		spoofed    = "ffffffffffff 0200000000cc 0806 0001 0800 06 04 0001 0200000000bb c0a801c8 000000000000 c0a801c8"
		fromGroup  = "ffffffffffff 0100000000bb 0806 0001 0800 06 04 0001 0100000000bb c0a8017a 000000000000 c0a801c8"
		tagged     = "ffffffffffff 0200000000bb 8100 0064 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8"
		ipv4       = "ffffffffffff 0200000000bb 0800 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8"
		infiniband = "ffffffffffff 0200000000bb 0806 0020 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8"
		forIPX     = "ffffffffffff 0200000000bb 0806 0001 8137 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8"
		longMAC    = "ffffffffffff 0200000000bb 0806 0001 0800 08 04 0001 0200000000bb0000 c0a8017a 0000000000000000 c0a801c8"
		longIP     = "ffffffffffff 0200000000bb 0806 0001 0800 06 10 0001 0200000000bb 00000000000000000000000000000000 000000000000 00000000000000000000ffffc0a801c8"
		cut        = "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801"
	)
	seen := func(addr string, kind SightingKind) Sighting {
		return Sighting{netip.MustParseAddr(addr), theirMAC, kind}
	}
	for name, tc := range map[string]struct {
		frame string
		want  outcome
	}{
		"a request for our address":                                      {request, outcome{Answer: requested, Learned: true}},
		"a request with padding, as it comes off a wire":                 {request + padding, outcome{Answer: requested, Learned: true}},
		"a probe before somebody takes our address (RFC 5227)":           {probe, outcome{Answer: probed, Sighting: seen("192.168.1.200", Probed)}},
		"a probe of an address that is free yet":                         {otherProbe, outcome{Sighting: seen("192.168.1.201", Probed), Drop: NotOwned}},
		"a request to us alone, as a neighbour checks that we are there": {unicast, outcome{Answer: requested, Learned: true}},
		"a request of hardware type 6, answered with type 1":             {ieee802, outcome{Answer: requested, Learned: true}},
		"a request from another address of the pool": {fromPool, outcome{Learned: true, Sighting: seen("192.168.1.201", Claimed),
			Answer: "0200000000bb 0200000000aa 0806 0001 0800 06 04 0002 0200000000aa c0a801c8 0200000000bb c0a801c9 " + padding}},
		"a request from another address of the pool, for a neighbour's": {forOther, outcome{Sighting: seen("192.168.1.201", Claimed), Drop: NotOwned}},
		"a reply about another's address":                               {answer, outcome{Drop: NotRequest}},
		"a reply that claims our address":                               {claim, outcome{Sighting: seen("192.168.1.200", Claimed), Drop: NotRequest}},
		"a request of reverse ARP":                                      {reverse, outcome{Drop: NotRequest}},
		"a request for another address of the pool":                     {other, outcome{Learned: true, Drop: NotOwned}},
		"a request for an address that is not heard":                    {outside, outcome{Drop: NotOwned}},
		"a request from an address that no host has":                    {everybody, outcome{Drop: NotOwned}},
		"another host's announcement of our address":                    {announced, outcome{Sighting: seen("192.168.1.200", Claimed), Drop: Announcement}},
		"our own announcement, given back by the network":               {byUs, outcome{Drop: Own}},
		"a sender that is not where the frame came from":                {spoofed, outcome{Drop: Spoofed}},
		"a sender that is a group":                                      {fromGroup, outcome{Drop: Spoofed}},
		"a frame of a VLAN":                                             {tagged, outcome{Drop: Malformed}},
		"a frame that is not ARP":                                       {ipv4, outcome{Drop: Malformed}},
		"ARP for InfiniBand":                                            {infiniband, outcome{Drop: Malformed}},
		"ARP for another protocol than IPv4":                            {forIPX, outcome{Drop: Malformed}},
		"ARP with hardware addresses of eight bytes":                    {longMAC, outcome{Drop: Malformed}},
		"ARP with protocol addresses of sixteen bytes":                  {longIP, outcome{Drop: Malformed}},
		"a frame that ends before the target address does":              {cut, outcome{Drop: Malformed}},
		"a frame that ends within the Ethernet header":                  {"ffffffffffff 0200000000bb 08", outcome{Drop: Malformed}},
		"a frame that ends where lengths of addresses would be":         {"ffffffffffff 0200000000bb 0806 0001 08", outcome{Drop: Malformed}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.want.Answer = hex.EncodeToString(frameOf(t, tc.want.Answer))
			if diff := cmp.Diff(tc.want, outcomeOf(arp{ourMAC}, frameOf(t, tc.frame), ourPool, ourAddr), compareAddrs); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzARP: whatever arrives, an answer is a well-formed ARP reply from us, about our address, to one host: the one that sent the frame. A
// sighting is about an address of the pool and never of us.
func FuzzARP(f *testing.F) {
	f.Add(frameOf(f, "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8"))
	f.Add(frameOf(f, "ffffffffffff 0200000000bb 0806 0001 0800 06 10 0001 0200000000bb c0a8017a 000000000000 c0a801c8"))
	f.Add(frameOf(f, "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0002 0200000000bb c0a801c8 000000000000 c0a801c8"))
	f.Add(frameOf(f, "ffffffffffff 0200000000bb 8100 0064 0806 0001 0800 06 04 0001 0200000000bb c0a8017a 000000000000 c0a801c8"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, frame []byte) {
		o := outcomeOf(arp{ourMAC}, frame, ourPool, ourAddr)
		checkOutcome(t, o, ourPool)
		if o.Answer == "" {
			return
		}
		answer := frameOf(t, o.Answer)
		p, source, ok := parseARP(answer)
		if !ok || len(answer) != 60 || source != ourMAC || p.operation != codec.OperationReply || p.senderHardware != ourMAC || p.senderProtocol != ourAddr {
			t.Fatalf("bad answer %x to %x", answer, frame)
		}
		if to := MAC(answer[:6]); to.isGroup() || to != MAC(frame[6:12]) {
			t.Fatalf("the answer to %x goes to %s, want it to go to who asked", frame, to)
		}
	})
}

// checkOutcome: there is either an answer or a reason for none, and a sighting is somebody else's, about an address of the pool.
func checkOutcome(t *testing.T, o outcome, pool []Range) {
	t.Helper()
	if (o.Answer == "") == (o.Drop == "") {
		t.Fatalf("the answer %q with the drop reason %q: want one of the two", o.Answer, o.Drop)
	}
	if s := o.Sighting; s.Addr.IsValid() && (!contains(pool, s.Addr) || s.MAC == ourMAC || s.MAC.isGroup()) {
		t.Fatalf("bad sighting %+v", s)
	}
}
