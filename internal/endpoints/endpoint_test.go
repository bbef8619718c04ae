package endpoints

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	var many strings.Builder
	for i := range 12 {
		fmt.Fprintf(&many, "10.0.0.%d:6443\n", i)
	}
	type result struct {
		List    []Endpoint
		Remarks []string
	}
	for name, tc := range map[string]struct {
		text string
		want result
	}{
		"an empty file lists nothing, and is no mistake": {text: "", want: result{}},
		"addresses and names keep their order": {
			text: "k8s.example.com:6443\n192.168.1.125:6443\n[fd00::1]:6443\n10.96.0.1:443\n",
			want: result{List: []Endpoint{{"k8s.example.com", 6443}, {"192.168.1.125", 6443}, {"fd00::1", 6443}, {"10.96.0.1", 443}}},
		},
		"what an editor leaves behind does no harm": {
			text: "\r\n  192.168.1.125:6443\t\r\n\n\n10.96.0.1:443",
			want: result{List: []Endpoint{{"192.168.1.125", 6443}, {"10.96.0.1", 443}}},
		},
		"one endpoint written twice is one": {
			text: "K8S.example.com:6443\nk8s.example.com:6443\n[0:0::1]:443\n[::1]:443\n[::ffff:10.0.0.1]:443\n10.0.0.1:443\n",
			want: result{List: []Endpoint{{"k8s.example.com", 6443}, {"::1", 443}, {"10.0.0.1", 443}}},
		},
		"rubbish is skipped and named, and what is between it counts": {
			text: "# by hand\nhttps://10.0.0.1:6443\n10.0.0.1:6443\n10.0.0.2\n10.0.0.3:0\n10.0.0.4:65536\n10.0.0:443\n0.0.0.0:443\n[fe80::1%eth0]:443\n" +
				strings.Repeat("é", 50) + "\n",
			want: result{List: []Endpoint{{"10.0.0.1", 6443}}, Remarks: []string{
				`line 1: "# by hand" is no host:port`,
				`line 2: "https://10.0.0.1:6443" is no host:port`,
				`line 4: "10.0.0.2" is no host:port`,
				`line 5: "10.0.0.3:0" has no port between 1 and 65535`,
				`line 6: "10.0.0.4:65536" has no port between 1 and 65535`,
				`line 7: "10.0.0:443" has neither an IP address nor a DNS name`,
				`line 8: "0.0.0.0:443" has an address that no API server can be reached at`,
				`line 9: "[fe80::1%eth0]:443" has an address that no API server can be reached at`,
				`line 10: "` + strings.Repeat("é", 30) + `…" is no host:port`,
			}},
		},
		"a list that is too long ends where it would take too long to try": {
			text: many.String(),
			want: result{
				List: []Endpoint{{"10.0.0.0", 6443}, {"10.0.0.1", 6443}, {"10.0.0.2", 6443}, {"10.0.0.3", 6443}, {"10.0.0.4", 6443},
					{"10.0.0.5", 6443}, {"10.0.0.6", 6443}, {"10.0.0.7", 6443}, {"10.0.0.8", 6443}},
				Remarks: []string{"3 endpoints after the first 9 are left out"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got result
			got.List, got.Remarks = Parse(tc.text)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzParse: whatever is in the file, what is read is short, stays the same when it is written and read again, and can be dialled.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "10.0.0.1:6443\n", "[fd00::1]:6443\nk8s.example.com:443\n", "[::ffff:1.2.3.4]:1\n", "a:b:c\n\x00:1\n", "[a]:1", "1.:2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, remarks := Parse(text)
		if len(list) > maxEndpoints || len(remarks) > maxEndpoints+1 {
			t.Fatalf("%d endpoints and %d remarks are too many", len(list), len(remarks))
		}
		again, complaints := Parse(Format(list))
		if diff := cmp.Diff(list, again); diff != "" || len(complaints) > 0 {
			t.Fatalf("written and read again it is another list (-before +after), with the remarks %q:\n%s", complaints, diff)
		}
	})
}

func TestOrder(t *testing.T) {
	first, second, third, own := Endpoint{"10.0.0.1", 6443}, Endpoint{"10.0.0.2", 6443}, Endpoint{"10.0.0.3", 6443}, Endpoint{"10.96.0.1", 443}
	for name, tc := range map[string]struct {
		list     []Endpoint
		answered Endpoint
		want     []Endpoint
	}{
		"without a list there is the in-cluster address": {want: []Endpoint{own}},
		"at first, the order is the list's":              {list: []Endpoint{first, second, own}, want: []Endpoint{first, second, own}},
		"the one that answered comes first, the others as they were": {
			list: []Endpoint{first, second, third, own}, answered: third, want: []Endpoint{third, first, second, own}},
		"one that answered and is no longer listed is forgotten": {list: []Endpoint{first, own}, answered: second, want: []Endpoint{first, own}},
		"the in-cluster address is last, wherever it is listed, and although it answered": {
			list: []Endpoint{own, first, second}, answered: own, want: []Endpoint{first, second, own}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Order(tc.list, tc.answered, own)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
