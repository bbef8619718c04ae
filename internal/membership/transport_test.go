package membership

import (
	"io"
	"log"
	"net"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// port opens a free port of this host.
func port(t *testing.T) *transport {
	t.Helper()
	p, err := listen(netip.AddrPortFrom(loopback, 0), log.New(io.Discard, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Shutdown() })
	return p
}

// TestADatagramStaysAsItCame, although others come after it: memberlist decrypts it later.
func TestADatagramStaysAsItCame(t *testing.T) {
	a, b := port(t), port(t)
	var got [][]byte
	for _, text := range []string{"first, and longer", "second"} {
		if _, err := a.WriteTo([]byte(text), b.at.String()); err != nil {
			t.Fatal(err)
		}
		packet := <-b.PacketCh()
		if from := packet.From.(*net.UDPAddr).AddrPort(); from != a.at || packet.Timestamp.IsZero() {
			t.Errorf("it came from %s at %s, want from %s", from, packet.Timestamp, a.at)
		}
		got = append(got, packet.Buf)
	}
	if diff := cmp.Diff([][]byte{[]byte("first, and longer"), []byte("second")}, got); diff != "" {
		t.Errorf("received (-want +got):\n%s", diff)
	}
}

// TestADatagramTakesItsOwnLength of memory, and not the longest one's.
func TestADatagramTakesItsOwnLength(t *testing.T) {
	a, b := port(t), port(t)
	text := make([]byte, 100)
	result := testing.Benchmark(func(bench *testing.B) {
		for bench.Loop() {
			if _, err := a.WriteTo(text, b.at.String()); err != nil {
				bench.Fatal(err)
			}
			<-b.PacketCh()
		}
	})
	if per := result.AllocedBytesPerOp(); per > 2048 {
		t.Errorf("a datagram of %d bytes takes %d bytes of memory", len(text), per)
	}
}

// TestShutdownEndsWhatWaits: nobody takes what came, and the port is free at once.
func TestShutdownEndsWhatWaits(t *testing.T) {
	a, b := port(t), port(t)
	if _, err := a.WriteTo([]byte("never taken"), b.at.String()); err != nil {
		t.Fatal(err)
	}
	c, err := a.DialTimeout(b.at.String(), meetTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // nothing was written
	for range 2 {
		if err := b.Shutdown(); err != nil {
			t.Fatal(err)
		}
	}
	again, err := listen(b.at, log.New(io.Discard, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Shutdown(); err != nil {
		t.Error(err)
	}
}
