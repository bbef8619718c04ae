package ipam

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseRange(t *testing.T) {
	for name, tc := range map[string]struct {
		text, want, wantErr string
	}{
		"a range as in the tutorial":       {text: "192.168.1.200-192.168.1.210", want: "192.168.1.200-192.168.1.210"},
		"a range of one address":           {text: "10.0.0.1-10.0.0.1", want: "10.0.0.1-10.0.0.1"},
		"an IPv4 CIDR with both ends":      {text: "192.168.1.192/28", want: "192.168.1.192-192.168.1.207"},
		"a single address as a CIDR":       {text: "192.168.1.7/32", want: "192.168.1.7-192.168.1.7"},
		"an IPv6 CIDR, not enumerated":     {text: "fd00::/64", want: "fd00::-fd00::ffff:ffff:ffff:ffff"},
		"a prefix that cuts a byte":        {text: "10.0.0.0/30", want: "10.0.0.0-10.0.0.3"},
		"a lone address":                   {text: "192.168.1.200", wantErr: `"192.168.1.200" is neither a CIDR nor a range of two addresses: write it like 192.168.1.192/28 or 192.168.1.200-192.168.1.210`},
		"host bits in a CIDR":              {text: "192.168.1.200/28", wantErr: `"192.168.1.200/28" has host bits set: the network is 192.168.1.192/28; write that, or a range FIRST-LAST for a part of it`},
		"a reversed range":                 {text: "192.168.1.210-192.168.1.200", wantErr: `"192.168.1.210-192.168.1.200" ends before it begins: write 192.168.1.200-192.168.1.210`},
		"a range across families":          {text: "192.168.1.1-fd00::1", wantErr: `"192.168.1.1-fd00::1" mixes IPv4 and IPv6: both ends of a range are of one family`},
		"spaces around the dash":           {text: "10.0.0.1 - 10.0.0.9", wantErr: `"10.0.0.1 - 10.0.0.9" is no range: "10.0.0.1 " is not an address; write it like 192.168.1.200-192.168.1.210, without spaces`},
		"an end that is left out":          {text: "10.0.0.1-", wantErr: `"10.0.0.1-" is no range: "" is not an address; write it like 192.168.1.200-192.168.1.210, without spaces`},
		"an IPv4-mapped IPv6 address":      {text: "::ffff:10.0.0.1-::ffff:10.0.0.9", wantErr: `"::ffff:10.0.0.1-::ffff:10.0.0.9" is no range: "::ffff:10.0.0.1" is not an address; write it like 192.168.1.200-192.168.1.210, without spaces`},
		"an IPv4-mapped prefix":            {text: "::ffff:10.0.0.0/120", wantErr: `"::ffff:10.0.0.0/120" is an IPv4 address written as IPv6: write it as IPv4`},
		"a zone, which no LAN address has": {text: "fe80::1%eth0-fe80::2%eth0", wantErr: `"fe80::1%eth0-fe80::2%eth0" is no range: "fe80::1%eth0" is not an address; write it like 192.168.1.200-192.168.1.210, without spaces`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseRange(tc.text)
			if diff := cmp.Diff(tc.wantErr, errorText(err)); diff != "" {
				t.Fatalf("error (-want +got):\n%s", diff)
			}
			if err == nil && got.String() != tc.want {
				t.Errorf("ParseRange(%q) = %s, want %s", tc.text, got, tc.want)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestRangeSizeIsExactWhereIntegersEnd(t *testing.T) {
	for text, want := range map[string]string{
		"192.168.1.200-192.168.1.210": "11",
		"10.0.0.0/8":                  "16777216",
		"fd00::/64":                   "18446744073709551616",
		"::/0":                        "340282366920938463463374607431768211456",
	} {
		r, err := ParseRange(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Size().String(); got != want {
			t.Errorf("size of %s = %s, want %s", text, got, want)
		}
	}
}

// FuzzParseRange checks that whatever is accepted is a proper interval that reads back as itself.
func FuzzParseRange(f *testing.F) {
	for _, seed := range []string{"192.168.1.200-192.168.1.210", "10.0.0.0/8", "fd00::/64", "1.2.3.4", "-", "/", "::ffff:1.2.3.4/128"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRange(text)
		if err != nil {
			return
		}
		if r.Last.Less(r.First) || !r.Contains(r.First) || !r.Contains(r.Last) || r.Size().Sign() < 1 {
			t.Fatalf("%q was read as %v, which is no interval", text, r)
		}
		again, err := ParseRange(r.String())
		if err != nil || again != r {
			t.Fatalf("%q was read as %v, which reads back as %v, %v", text, r, again, err)
		}
	})
}

func mustRange(t testing.TB, text string) Range {
	t.Helper()
	r, err := ParseRange(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func addrs(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

func TestSubtract(t *testing.T) {
	for name, tc := range map[string]struct{ from, what, want string }{
		"nothing":                         {"10.0.0.0-10.0.0.9", "", "10.0.0.0-10.0.0.9"},
		"from the middle":                 {"10.0.0.0-10.0.0.9", "10.0.0.3-10.0.0.4", "10.0.0.0-10.0.0.2 10.0.0.5-10.0.0.9"},
		"the ends":                        {"10.0.0.0-10.0.0.9", "10.0.0.8-10.0.0.20 9.0.0.0-10.0.0.0", "10.0.0.1-10.0.0.7"},
		"all":                             {"10.0.0.0-10.0.0.9", "10.0.0.0/24", ""},
		"all of one, and part of another": {"10.0.0.0-10.0.0.9 10.0.0.20-10.0.0.29", "10.0.0.0-10.0.0.25", "10.0.0.26-10.0.0.29"},
		"the last address that there is":  {"255.255.255.254-255.255.255.255", "255.255.255.255-255.255.255.255", "255.255.255.254-255.255.255.254"},
		"what overlaps itself":            {"10.0.0.0-10.0.0.9", "10.0.0.2-10.0.0.6 10.0.0.3-10.0.0.4", "10.0.0.0-10.0.0.1 10.0.0.7-10.0.0.9"},
		"another family":                  {"10.0.0.0-10.0.0.9 fd00::-fd00::9", "::/0", "10.0.0.0-10.0.0.9"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(ranges(t, tc.want), Subtract(ranges(t, tc.from), ranges(t, tc.what)), compareAddr); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	for name, tc := range map[string]struct{ of, want string }{
		"nothing":               {"", ""},
		"neighbours":            {"10.0.0.5-10.0.0.9 10.0.0.0-10.0.0.4", "10.0.0.0-10.0.0.9"},
		"one within another":    {"10.0.0.0/24 10.0.0.4-10.0.0.5 10.0.0.9-10.0.0.9", "10.0.0.0-10.0.0.255"},
		"some that are apart":   {"10.0.0.6-10.0.0.9 10.0.0.0-10.0.0.4", "10.0.0.0-10.0.0.4 10.0.0.6-10.0.0.9"},
		"the ends of the world": {"255.255.255.0-255.255.255.255 ::/127", "255.255.255.0-255.255.255.255 ::-::1"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(ranges(t, tc.want), Merge(ranges(t, tc.of)), compareAddr); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
		})
	}
}

// ranges reads some, with spaces between them.
func ranges(t *testing.T, text string) (all []Range) {
	t.Helper()
	for _, one := range strings.Fields(text) {
		all = append(all, mustRange(t, one))
	}
	return all
}
