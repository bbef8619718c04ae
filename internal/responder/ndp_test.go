package responder

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	ourAddr6   = netip.MustParseAddr("fd00::200")
	theirAddr6 = netip.MustParseAddr("fd00::122")
	ourPool6   = []Range{rangeOf("fd00::200", "fd00::210")}
)

// solicitation is a question of theirs to our address's group, with what is changed in it.
func solicitation(change func(n *neighbourMessage)) []byte {
	mac := theirMAC
	n := neighbourMessage{kind: neighbourSolicitation, source: theirAddr6, destination: solicitedNode(ourAddr6), target: ourAddr6, linkLayer: &mac}
	change(&n)
	return n.frame(theirMAC, groupMAC(solicitedNode(ourAddr6)))
}

// broken is their question with some bytes changed, and the checksum made right again.
func broken(change func(frame []byte)) []byte {
	frame := solicitation(func(*neighbourMessage) {})
	change(frame)
	frame[offsetChecksum], frame[offsetChecksum+1] = 0, 0
	sum := checksum(frame)
	frame[offsetChecksum], frame[offsetChecksum+1] = byte(sum>>8), byte(sum)
	return frame
}

// outcomes6 are what becomes of their frames, for the pool ourPool6 of which ourAddr6 is owned.
func outcomes6() map[string]struct {
	frame []byte
	want  outcome
} {
	us, everybody, ours := ndp{ourMAC}, ndp{ourMAC}.announcement(ourAddr6)[0], solicitedNode(ourAddr6)
	answer := hex.EncodeToString(us.answer(message{source: theirMAC, sender: theirAddr6, asks: ourAddr6}))
	answered := outcome{Answer: answer, Learned: true}
	seen := func(a netip.Addr, kind SightingKind) Sighting { return Sighting{a, theirMAC, kind} }
	malformed, otherMAC := outcome{Drop: Malformed}, MAC{2, 0, 0, 0, 0, 0xcc}
	return map[string]struct {
		frame []byte
		want  outcome
	}{
		"a question to the address's group":                   {solicitation(func(*neighbourMessage) {}), answered},
		"a question to us alone, as a neighbour checks on us": {solicitation(func(n *neighbourMessage) { n.destination = ourAddr6 }), answered},
		"the same without a link-layer address":               {solicitation(func(n *neighbourMessage) { n.destination, n.linkLayer = ourAddr6, nil }), answered},
		"padding after the packet":                            {append(solicitation(func(*neighbourMessage) {}), 0, 0), answered},
		"another option instead of the link-layer address":    {broken(withNonce), answered},
		"a question about another address of the pool":        {solicitation(func(n *neighbourMessage) { n.target = ourAddr6.Next() }), outcome{Learned: true, Drop: NotOwned}},
		"a question about an address that is not heard":       {solicitation(func(n *neighbourMessage) { n.target = theirAddr6.Next() }), outcome{Drop: NotOwned}},
		"a question of a host about its own address":          {solicitation(func(n *neighbourMessage) { n.source = ourAddr6 }), outcome{Sighting: seen(ourAddr6, Claimed), Drop: Announcement}},
		"a question from another address of the pool": {solicitation(func(n *neighbourMessage) { n.source = ourAddr6.Next() }), outcome{Learned: true, Sighting: seen(ourAddr6.Next(), Claimed),
			Answer: hex.EncodeToString(us.answer(message{source: theirMAC, sender: ourAddr6.Next(), asks: ourAddr6}))}},
		"a probe for duplicates of our address (RFC 4862)":         {ndp{theirMAC}.probe(ourAddr6, nil), outcome{Answer: hex.EncodeToString(everybody), Sighting: seen(ourAddr6, Probed)}},
		"a probe that is sent to us alone":                         {ndp{theirMAC}.probe(ourAddr6, &ourMAC), outcome{Answer: hex.EncodeToString(everybody), Sighting: seen(ourAddr6, Probed)}},
		"a probe of an address that is free yet":                   {ndp{theirMAC}.probe(ourAddr6.Next(), nil), outcome{Sighting: seen(ourAddr6.Next(), Probed), Drop: NotOwned}},
		"our own probe, given back by the network":                 {ndp{ourMAC}.probe(ourAddr6, nil), outcome{Drop: Own}},
		"another host's announcement of our address":               {ndp{theirMAC}.announcement(ourAddr6)[0], outcome{Sighting: seen(ourAddr6, Claimed), Drop: NotRequest}},
		"another host's answer about an address that is not heard": {ndp{theirMAC}.announcement(theirAddr6)[0], outcome{Drop: NotRequest}},
		"our own announcement, given back by the network":          {everybody, outcome{Drop: Own}},
		"a link-layer address that the frame did not come from":    {solicitation(func(n *neighbourMessage) { n.linkLayer = &otherMAC }), outcome{Drop: Spoofed}},
		"a frame from a group":                                     {broken(func(f []byte) { f[6] |= 1 }), outcome{Drop: Spoofed}},
		"a probe with a link-layer address":                        {solicitation(func(n *neighbourMessage) { n.source = netip.IPv6Unspecified() }), malformed},
		"a probe to us instead of the group": {solicitation(func(n *neighbourMessage) {
			n.source, n.destination, n.linkLayer = netip.IPv6Unspecified(), ourAddr6, nil
		}), malformed},
		"a question from a group":                                 {solicitation(func(n *neighbourMessage) { n.source = allNodes }), malformed},
		"a question about a group":                                {solicitation(func(n *neighbourMessage) { n.target = ours }), malformed},
		"an advertisement to a group that says it was solicited":  {neighbourMessage{kind: neighbourAdvertisement, flags: solicited, source: ourAddr6, destination: allNodes, target: ourAddr6}.frame(theirMAC, groupMAC(allNodes)), malformed},
		"a router's advertisement, which is no neighbour message": {broken(func(f []byte) { f[offsetType] = 134 }), malformed},
		"a hop limit of 254: it came through a router":            {broken(func(f []byte) { f[offsetHopLimit] = 254 }), malformed},
		"a code that is not 0":                                    {broken(func(f []byte) { f[offsetCode] = 1 }), malformed},
		"another protocol than ICMPv6":                            {broken(func(f []byte) { f[offsetNextHeader] = 17 }), malformed},
		"another version of IP":                                   {broken(func(f []byte) { f[offsetVersion] = 0x40 }), malformed},
		"another EtherType":                                       {broken(func(f []byte) { f[offsetEtherType] = 8 }), malformed},
		"an option of no length":                                  {broken(func(f []byte) { f[offsetOptions+1] = 0 }), malformed},
		"an option that goes beyond the end":                      {broken(func(f []byte) { f[offsetOptions+1] = 2 }), malformed},
		"a packet that goes beyond the end":                       {broken(func(f []byte) { f[offsetPayloadLength+1]++ }), malformed},
		"a packet that ends before its target does":               {broken(func(f []byte) { f[offsetPayloadLength+1] = 23 }), malformed},
		"a wrong checksum":                                        {func() []byte { f := solicitation(func(*neighbourMessage) {}); f[offsetChecksum]++; return f }(), malformed},
		"a frame that ends within the Ethernet header":            {[]byte{1, 2, 3}, malformed},
	}
}

// withNonce turns the option that a solicitation ends with into one that says nothing here (RFC 3971, section 5.3.2).
func withNonce(f []byte) { f[offsetOptions] = 14 }

func TestNDP(t *testing.T) {
	for name, tc := range outcomes6() {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, outcomeOf(ndp{ourMAC}, tc.frame, ourPool6, ourAddr6), compareAddrs); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzNDP: whatever arrives, an answer is a valid advertisement of our address from us, to who asked or to everybody. Since few inputs have
// the right checksum, each is tried with it as well.
func FuzzNDP(f *testing.F) {
	for _, tc := range outcomes6() {
		f.Add(tc.frame)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		checkNDP(t, frame)
		if len(frame) >= offsetOptions {
			mended := bytes.Clone(frame)
			end := min(len(frame), offsetICMP+int(mended[offsetPayloadLength])<<8+int(mended[offsetPayloadLength+1]))
			if end > offsetChecksum+1 {
				mended[offsetChecksum], mended[offsetChecksum+1] = 0, 0
				sum := checksum(mended[:end])
				mended[offsetChecksum], mended[offsetChecksum+1] = byte(sum>>8), byte(sum)
				checkNDP(t, mended)
			}
		}
	})
}

func checkNDP(t *testing.T, frame []byte) {
	t.Helper()
	o := outcomeOf(ndp{ourMAC}, frame, ourPool6, ourAddr6)
	checkOutcome(t, o, ourPool6)
	if o.Answer == "" {
		return
	}
	answer := frameOf(t, o.Answer)
	n, ok := parseNeighbour(answer)
	if !ok || n.kind != neighbourAdvertisement || n.source != ourAddr6 || n.target != ourAddr6 || *n.linkLayer != ourMAC || n.flags&override == 0 {
		t.Fatalf("bad answer %x to %x", answer, frame)
	}
	if to := MAC(answer[:6]); to != MAC(frame[6:12]) && to != groupMAC(allNodes) {
		t.Fatalf("the answer to %x goes to %s, want it to go to who asked", frame, to)
	}
}

func TestTheFilterForNDPLetsOnlyTheRangesThrough(t *testing.T) {
	wide := []Range{rangeOf("fd00::ffff:ffff", "fd01::1"), rangeOf("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff")}
	asks := func(target string) []byte {
		return solicitation(func(n *neighbourMessage) { n.target = netip.MustParseAddr(target) })
	}
	for name, tc := range map[string]struct {
		ranges []Range
		frame  []byte
		passes bool
	}{
		"a question about the first of a range":              {ourPool6, asks("fd00::200"), true},
		"a question about the last of a range":               {ourPool6, asks("fd00::210"), true},
		"a question about one before the first":              {ourPool6, asks("fd00::1ff"), false},
		"a question about one after the last":                {ourPool6, asks("fd00::211"), false},
		"an advertisement of one in a range":                 {ourPool6, ndp{theirMAC}.announcement(ourAddr6)[0], true},
		"an advertisement of one in none":                    {ourPool6, ndp{theirMAC}.announcement(theirAddr6)[0], false},
		"a probe":                                            {ourPool6, ndp{theirMAC}.probe(ourAddr6, nil), true},
		"another prefix, the same end":                       {ourPool6, asks("fd01::200"), false},
		"just above the first of a wide range":               {wide, asks("fd00::1:0:0"), true},
		"just below the first of a wide range":               {wide, asks("fd00::ffff:fffe"), false},
		"the last of a wide range":                           {wide, asks("fd01::1"), true},
		"one after the last of a wide range":                 {wide, asks("fd01::2"), false},
		"the second of two ranges":                           {wide, asks("2001:db8:1::9"), true},
		"a router's advertisement":                           {ourPool6, broken(func(f []byte) { f[offsetType] = 134 }), false},
		"another protocol than ICMPv6":                       {ourPool6, broken(func(f []byte) { f[offsetNextHeader] = 17 }), false},
		"another EtherType":                                  {ourPool6, broken(func(f []byte) { f[offsetEtherType] = 8 }), false},
		"only IPv4 ranges, which NDP knows not":              {ourPool, asks("fd00::200"), false},
		"as many ranges as it tells apart, without this one": {everySecond6(claimedAtMost), asks("fd00::200"), false},
		"as many ranges as it tells apart, with this one":    {everySecond6(claimedAtMost), asks("2001:db8::2"), true},
		"between two of as many as it tells apart":           {everySecond6(claimedAtMost), asks("2001:db8::3"), false},
		"between two of more than it tells apart":            {everySecond6(2 * claimedAtMost), asks("2001:db8::5d"), true},
		"and still only neighbour messages with them":        {everySecond6(2 * claimedAtMost), broken(func(f []byte) { f[offsetType] = 134 }), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := passes(t, ndp{}, tc.ranges, tc.frame); got != tc.passes {
				t.Errorf("the packet passes: %t, want %t", got, tc.passes)
			}
		})
	}
}

// everySecond6 returns n ranges of one address each, none next to another.
func everySecond6(n int) []Range {
	var all []Range
	for i := range n {
		b := netip.MustParseAddr("2001:db8::").As16()
		b[14], b[15] = byte(i>>7), byte(i<<1)
		all = append(all, Range{First: netip.AddrFrom16(b), Last: netip.AddrFrom16(b)})
	}
	return all
}

// TestAnIPv6AddressIsAnnouncedToEverybodyAndToItsAskers, and an IPv4 address is left alone.
func TestAnIPv6AddressIsAnnouncedToEverybodyAndToItsAskers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		r := newResponder(7, ourMAC, ndp{ourMAC}, w, Config{})
		if err := r.Hear(ourPool6); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- r.Run(t.Context()) }()
		w.in <- solicitation(func(*neighbourMessage) {})
		synctest.Wait()
		r.Own([]netip.Addr{ourAddr6, ourAddr}, time.Now())
		time.Sleep(10 * time.Second)
		var want []string
		for _, at := range []string{"0s", "100ms", "300ms", "1.2s", "3s"} {
			want = append(want, at+" type 136 flags 20 fd00::200 for fd00::200 to 33:33:00:00:00:01", at+" type 135 flags 0 fd00::200 for fd00::122 to 02:00:00:00:00:bb")
		}
		if diff := cmp.Diff(want, w.take()); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}
