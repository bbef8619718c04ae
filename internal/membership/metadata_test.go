package membership

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/memberlist"
)

var comparePrefix = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

var mac = MAC{0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee}

// with is a segment whose hardware address is known.
func with(s Segment, mac MAC) Segment {
	s.MAC = mac
	return s
}

// on is a segment.
func on(iface, prefix string) Segment {
	return Segment{Interface: iface, Prefix: netip.MustParsePrefix(prefix)}
}

func TestMetadata(t *testing.T) {
	for name, tc := range map[string]struct {
		segments []Segment
		want     string
	}{
		"a node without a usable interface tells nothing": {},
		"one interface with two subnets": {
			segments: []Segment{on("eth0", "192.168.1.0/24"), on("eth0", "fd00::/64")},
			want:     "eth0=192.168.1.0/24,eth0=fd00::/64",
		},
		"two interfaces, one a VLAN": {
			segments: []Segment{on("bond0", "10.0.0.0/8"), on("bond0.100", "172.16.0.0/12")},
			want:     "bond0=10.0.0.0/8,bond0.100=172.16.0.0/12",
		},
		"interfaces whose hardware addresses are known": {
			segments: []Segment{with(on("eth0", "192.168.1.0/24"), mac), on("eth1", "10.0.0.0/8"), with(on("eth0", "fd00::/64"), mac)},
			want:     "eth0=192.168.1.0/24=02aabbccddee,eth1=10.0.0.0/8,eth0=fd00::/64=02aabbccddee",
		},
		"names with the separators, which Linux allows": {
			segments: []Segment{on("a,b=c", "10.0.0.0/8"), on("d%2C+", "10.0.0.0/9")},
			want:     "a%2Cb%3Dc=10.0.0.0/8,d%252C%2B=10.0.0.0/9",
		},
	} {
		t.Run(name, func(t *testing.T) {
			meta, left := encode(tc.segments)
			if diff := cmp.Diff(tc.want, string(meta)); diff != "" || left != 0 {
				t.Errorf("metadata, without %d segments (-want +got):\n%s", left, diff)
			}
			if diff := cmp.Diff(tc.segments, decode(meta), comparePrefix); diff != "" {
				t.Errorf("what the others read (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeReadsWhatItKnows(t *testing.T) {
	for name, tc := range map[string]struct {
		meta string
		want []Segment
	}{
		"nothing": {},
		"what a newer speaker adds is passed over": {
			meta: "v=2,eth0=192.168.1.0/24,claims=@7f,eth1=10.0.0.0/8,10.1.0.0/16",
			want: []Segment{on("eth0", "192.168.1.0/24"), on("eth1", "10.0.0.0/8")},
		},
		"which incarnation speaks is no segment": {
			meta: "i=h3x,eth0=192.168.1.0/24=02aabbccddee",
			want: []Segment{with(on("eth0", "192.168.1.0/24"), mac)},
		},
		"the address in its subnet is kept": {
			meta: "eth0=192.168.1.7/24",
			want: []Segment{on("eth0", "192.168.1.7/24")},
		},
		"an entry that is cut off, without a name, or badly written is no segment": {
			meta: "eth0=192.168.1,=10.0.0.0/8,eth%zz=10.0.0.0/8,eth1=10.0.0.0/33,eth2=10.0.0.0/8=,eth2=10.0.0.0/8=02aabb,eth2=10.0.0.0/8=zz,,",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, decode([]byte(tc.meta)), comparePrefix); diff != "" {
				t.Errorf("segments (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMetadataStopsAtTheLimit: an entry is told as a whole or not at all, and those that are left out are counted.
func TestMetadataStopsAtTheLimit(t *testing.T) {
	var segments []Segment
	for i := range 30 {
		segments = append(segments, on(fmt.Sprintf("eth%d", 10+i), fmt.Sprintf("10.10.%d.0/24", 100+i))) // 20 bytes, 21 with the comma
	}
	meta, left := encode(segments)
	if len(meta) != 482 || left != 7 {
		t.Errorf("%d bytes and %d segments left out, want 23 segments in 482 bytes and 7 left out", len(meta), left)
	}
	if diff := cmp.Diff(segments[:23], decode(meta), comparePrefix); diff != "" {
		t.Errorf("what the others read (-want +got):\n%s", diff)
	}
}

func TestIncarnationIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		meta string
		want uint64
	}{
		"with nothing else":                             {meta: string(introduce(35, nil)), want: 35},
		"before the segments":                           {meta: string(introduce(1<<63, []byte("eth0=10.0.0.0/8"))), want: 1 << 63},
		"not by a speaker that knows of none":           {meta: "eth0=10.0.0.0/8"},
		"not by an interface with the name of its mark": {meta: "i=10.0.0.0/8"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := incarnationOf([]byte(tc.meta)); got != tc.want {
				t.Errorf("%q says incarnation %d, want %d", tc.meta, got, tc.want)
			}
		})
	}
	if longest := introduce(1<<64-1, bytes.Repeat([]byte("x"), segmentsLimit)); len(longest) != memberlist.MetaMaxSize {
		t.Errorf("the longest metadata are %d bytes, want the %d that memberlist carries", len(longest), memberlist.MetaMaxSize)
	}
}

// FuzzDecode: whatever a member tells, it reads without panic as segments that could be told on.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"", "eth0=192.168.1.0/24", "eth0=192.168.1.7/24,b%2Cc=fd00::/64", "=,%=,a=b", "x=::ffff:1.2.3.4/120", "v=2",
		"i=h3x,eth0=10.0.0.0/8=02aabbccddee",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, meta []byte) {
		read := decode(meta)
		told, left := encode(read)
		if len(told) > segmentsLimit {
			t.Fatalf("%d bytes are more than memberlist carries", len(told))
		}
		if diff := cmp.Diff(read[:len(read)-left], append(read[:0:0], decode(told)...), comparePrefix); diff != "" {
			t.Errorf("told on (-first +second):\n%s", diff)
		}
	})
}
