package responder

import (
	"encoding/hex"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestFrames compares each kind of frame that is sent with its file in testdata/frames.
func TestFrames(t *testing.T) {
	client := asker{netip.MustParseAddr("192.168.1.122"), theirMAC}
	client6 := asker{theirAddr6, theirMAC}
	a, n := arp{ourMAC}, ndp{ourMAC}
	for name, frame := range map[string][]byte{
		"arp-answer":               a.answer(message{source: theirMAC, sender: client.addr, asks: ourAddr}),
		"arp-answer-to-probe":      a.answer(message{source: theirMAC, sender: netip.IPv4Unspecified(), asks: ourAddr}),
		"arp-announcement-reply":   a.announcement(ourAddr)[1],
		"arp-announcement-request": a.announcement(ourAddr)[0],
		"arp-directed":             a.directed(ourAddr, client),
		"arp-request":              a.request(client.addr, ourAddr),
		"arp-probe":                a.probe(ourAddr, nil),
		"arp-probe-unicast":        a.probe(ourAddr, &theirMAC),
		"ndp-announcement":         n.announcement(ourAddr6)[0],
		"ndp-answer":               n.answer(message{source: theirMAC, sender: theirAddr6, asks: ourAddr6}),
		"ndp-answer-to-probe":      n.answer(message{source: theirMAC, sender: netip.IPv6Unspecified(), asks: ourAddr6}),
		"ndp-directed":             n.directed(ourAddr6, client6),
		"ndp-request":              n.request(theirAddr6, ourAddr6),
		"ndp-probe":                n.probe(ourAddr6, nil),
		"ndp-probe-unicast":        n.probe(ourAddr6, &theirMAC),
	} {
		t.Run(name, func(t *testing.T) {
			path, got := filepath.Join("testdata", "frames", name+".hex"), hex.Dump(frame)
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("frame (-want +got):\n%s", diff)
			}
		})
	}
}
