package membership

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/hashicorp/memberlist"
)

// incarnationMark is what the entry begins with that says which incarnation speaks. No segment can be taken for it: those have a slash.
const incarnationMark = "i="

// segmentsLimit is how many bytes of its segments a member can tell the others: what memberlist carries, without the incarnation, a number
// of up to 13 digits in base 36.
const segmentsLimit = memberlist.MetaMaxSize - len(incarnationMark) - 13 - len(",")

// MAC is the hardware address of an Ethernet interface. Zero: it was not told.
type MAC [6]byte

// String writes it as usual: 02:aa:bb:cc:dd:ee.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// Segment is an interface with carrier and one of its addresses.
type Segment struct {
	Interface string
	// Prefix is the address, with the length of its subnet's prefix: where the others reach this node there.
	Prefix netip.Prefix
	MAC    MAC
}

// Fit returns the segments that fit into what a member can tell the others: those that do not are nobody's, so that all decide from the
// same. The error says how many were left out.
func Fit(segments []Segment) ([]Segment, error) {
	_, left := encode(segments)
	if left == 0 {
		return segments, nil
	}
	return segments[:len(segments)-left], fmt.Errorf(
		"%d subnets of this node do not fit into what the speakers tell each other: addresses there are not announced from here", left)
}

// encode writes segments as "eth0=192.168.1.7/24=02aabbccddee,…", as many as fit, and says how many do not. Linux allows commas and equals
// signs in names, which are escaped.
func encode(segments []Segment) (meta []byte, left int) {
	for i, s := range segments {
		entry := url.QueryEscape(s.Interface) + "=" + s.Prefix.String()
		if s.MAC != (MAC{}) {
			entry += "=" + hex.EncodeToString(s.MAC[:])
		}
		if i > 0 {
			entry = "," + entry
		}
		if len(meta)+len(entry) > segmentsLimit {
			return meta, len(segments) - i
		}
		meta = append(meta, entry...)
	}
	return meta, 0
}

// decode reads what encode wrote. An entry that it cannot read, of a newer speaker perhaps, is no segment.
func decode(meta []byte) []Segment {
	var segments []Segment
	for _, entry := range strings.Split(string(meta), ",") {
		escaped, rest, _ := strings.Cut(entry, "=")
		subnet, address, told := strings.Cut(rest, "=")
		name, nameErr := url.QueryUnescape(escaped)
		prefix, prefixErr := netip.ParsePrefix(subnet)
		mac, readable := decodeMAC(address)
		if name != "" && nameErr == nil && prefixErr == nil && (readable || !told) {
			segments = append(segments, Segment{Interface: name, Prefix: prefix, MAC: mac})
		}
	}
	return segments
}

func decodeMAC(text string) (mac MAC, ok bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(mac) {
		return MAC{}, false
	}
	return MAC(b), true
}

// introduce writes which incarnation speaks before its segments.
func introduce(incarnation uint64, segments []byte) []byte {
	meta := incarnationMark + strconv.FormatUint(incarnation, 36)
	if len(segments) > 0 {
		meta += ","
	}
	return append([]byte(meta), segments...)
}

// incarnationOf reads which incarnation speaks. 0: it does not say.
func incarnationOf(meta []byte) uint64 {
	first, _, _ := strings.Cut(string(meta), ",")
	digits, ok := strings.CutPrefix(first, incarnationMark)
	incarnation, err := strconv.ParseUint(digits, 36, 64)
	if !ok || err != nil {
		return 0
	}
	return incarnation
}
