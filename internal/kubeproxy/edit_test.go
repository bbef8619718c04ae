package kubeproxy

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// compareGolden compares text with a golden file, line by line; with -update it rewrites the file first.
func compareGolden(t *testing.T, golden, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v; make it with: go test ./internal/kubeproxy -update", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
}

// declared are the specs that every document in testdata is edited for.
var declared = []struct {
	name   string
	fields Fields
}{
	{"mode iptables", Fields{{PathMode, "iptables"}}},
	{"mode nftables", Fields{{PathMode, "nftables"}}},
	{"mode ipvs with strictARP", Fields{{PathMode, "ipvs"}, {PathStrictARP, true}}},
	{"strictARP", Fields{{PathStrictARP, true}}},
	{"every setting", Fields{
		{PathMode, "ipvs"}, {PathScheduler, "lc"}, {PathStrictARP, true}, {PathExcludeCIDRs, []string{"10.9.0.0/16", "fd00:9::/64"}},
		{PathTCPTimeout, "15m"}, {PathTCPFinTimeout, "2m"}, {PathUDPTimeout, "300s"}, {PathNodePortAddresses, []string{"primary"}},
		{PathTCPBeLiberal, true}, {PathMetricsBindAddress, "0.0.0.0:10249"}, {PathClusterCIDR, "10.244.0.0/16,fd00:10:244::/56"},
	}},
	{"what kube-proxy does by itself", FieldsOf(Settings{}, Paths)},
}

// TestEditGolden edits testdata/CASE.conf for each declared spec and compares the lines that differ with CASE.golden. A case is added by
// adding a file.
func TestEditGolden(t *testing.T) {
	for name, document := range documents(t) {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			for _, want := range declared {
				fmt.Fprintf(&got, "# %s\n", want.name)
				edited, changes, err := Edit(document, want.fields)
				if err != nil {
					fmt.Fprintf(&got, "refused: %v\n", err)
					continue
				}
				for _, c := range changes {
					fmt.Fprintf(&got, "%v\n", c)
				}
				got.WriteString(changedLines(document, edited))
			}
			compareGolden(t, filepath.Join("testdata", name+".golden"), got.String())
		})
	}
}

// documents returns the documents in testdata by the name of their case.
func documents(t testing.TB) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.conf")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases in testdata: %v", err)
	}
	all := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(path), ".conf")] = string(text)
	}
	return all
}

// changedLines lists the lines that an edit replaces or inserts, with their numbers before and after it.
func changedLines(before, after string) string {
	was, is := strings.Split(before, "\n"), strings.Split(after, "\n")
	var lines strings.Builder
	for i, j := 0, 0; i < len(was) || j < len(is); j++ {
		switch {
		case i < len(was) && j < len(is) && was[i] == is[j]:
			i++
			continue
		case i < len(was) && !slices.Contains(is[min(j, len(is)):min(j+20, len(is))], was[i]):
			fmt.Fprintf(&lines, "%3d -%s\n", i+1, was[i])
			i++
		}
		if j < len(is) {
			fmt.Fprintf(&lines, "%3d +%s\n", j+1, is[j])
		}
	}
	return lines.String()
}

// TestEditKeepsLineEndings: a document with CRLF is edited into what the same document with LF becomes, with CRLF.
func TestEditKeepsLineEndings(t *testing.T) {
	for name, document := range documents(t) {
		for _, want := range declared {
			t.Run(name+", "+want.name, func(t *testing.T) {
				lf, lfChanges, lfErr := Edit(document, want.fields)
				crlf, crlfChanges, crlfErr := Edit(strings.ReplaceAll(document, "\n", "\r\n"), want.fields)
				if diff := cmp.Diff(strings.ReplaceAll(lf, "\n", "\r\n"), crlf); diff != "" {
					t.Errorf("edited document (-with LF +with CRLF):\n%s", diff)
				}
				if diff := cmp.Diff(lfChanges, crlfChanges); diff != "" {
					t.Errorf("changes (-with LF +with CRLF):\n%s", diff)
				}
				if diff := cmp.Diff(fmt.Sprint(lfErr), fmt.Sprint(crlfErr)); diff != "" {
					t.Errorf("error (-with LF +with CRLF):\n%s", diff)
				}
			})
		}
	}
}

// head begins the documents below; its three lines count in the errors.
const head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nclusterCIDR: 10.244.0.0/16\n"

func TestEditRefuses(t *testing.T) {
	nftables := Fields{{PathMode, "nftables"}}
	strict := Fields{{PathStrictARP, true}}
	ports := Fields{{PathNodePortAddresses, []string{"primary"}}}
	for name, tc := range map[string]struct {
		document string
		declared Fields
		want     string
	}{
		"a document with nothing but a comment": {
			document: "# moved to the wiki\n",
			want:     "config.conf is no YAML mapping: it should hold one KubeProxyConfiguration",
		},
		"a list": {
			document: "- mode: iptables\n",
			want:     "config.conf is no YAML mapping: it should hold one KubeProxyConfiguration",
		},
		"a tab as indentation": {
			document: head + "ipvs:\n\tstrictARP: false\n",
			want: "config.conf is not YAML (yaml: line 5: found character that cannot start any token): mend it by hand, " +
				"kube-proxy cannot start with it either",
		},
		"garbage": {
			document: "kind: [\x00",
			want:     "config.conf is not YAML (yaml: control characters are not allowed): mend it by hand, kube-proxy cannot start with it either",
		},
		"a second document, whose fields kube-proxy ignores": {
			document: head + "---\nmode: ipvs\n",
			want:     "config.conf holds more than one YAML document: leave only the KubeProxyConfiguration",
		},
		"a field that is there twice, because it is open which one counts": {
			document: head + "mode: ipvs\nmode: iptables\n",
			want: `config.conf cannot be read (yaml: unmarshal errors: line 5: mapping key "mode" already defined at line 4): ` +
				"mend it by hand",
		},
		"no kind": {
			document: "mode: iptables\n",
			want:     "config.conf has no kind: write `kind: KubeProxyConfiguration` if it is one, Lanyard edits nothing else",
		},
		"another kind": {
			document: "kind: KubeletConfiguration\n",
			want: "config.conf is of kind KubeletConfiguration, not KubeProxyConfiguration: Lanyard edits nothing else, " +
				"remove spec.kubeProxy",
		},
		"JSON, in which a bare word would be an error": {
			document: `{"kind": "KubeProxyConfiguration", "mode": ""}`,
			want:     "config.conf is written in braces, as JSON is: write it as YAML, one field to a line, or set mode there by hand",
		},
		"a mode over several lines": {
			document: head + "mode: |\n  iptables\n",
			want:     "config.conf: mode is not a plain value (line 4): write it as `mode: nftables`",
		},
		"a mode that another field refers to": {
			document: head + "mode: &mode iptables\ndetectLocalMode: *mode\n",
			want:     "config.conf: mode is not a plain value (line 4): write it as `mode: nftables`",
		},
		"a mode with a tag": {
			document: head + "mode: !!str iptables\n",
			want:     "config.conf: mode is written in a way that Lanyard does not know (line 4): write it as `mode: nftables`",
		},
		"lines that end with CR alone, so that their numbers are not those of an editor": {
			document: strings.ReplaceAll(head, "\n", "\r"),
			want:     "config.conf ends a line in a way that only YAML knows (a lone CR, NEL, LS or PS): end lines with LF, or set mode there by hand",
		},
		"an ipvs that is a text": {
			document: head + "ipvs: strict\n",
			declared: strict,
			want: "config.conf: ipvs is not written as a plain section of YAML (line 4): write it so, one field to a line, " +
				"or set ipvs.strictARP there by hand",
		},
		"an ipvs that another field refers to": {
			document: head + "ipvs: &ipvs\n  scheduler: rr\nfuture: *ipvs\n",
			declared: strict,
			want: "config.conf: ipvs is not written as a plain section of YAML (line 4): write it so, one field to a line, " +
				"or set ipvs.strictARP there by hand",
		},
		"an ipvs that another field refers to, with nothing in it": {
			document: head + "ipvs: &ipvs {}\nfuture: *ipvs\n",
			declared: strict,
			want: "config.conf: ipvs is not written as a plain section of YAML (line 4): write it so, one field to a line, " +
				"or set ipvs.strictARP there by hand",
		},
		"a text where a list should be": {
			document: head + "nodePortAddresses: 10.0.0.0/8\n",
			declared: ports,
			want:     "config.conf: nodePortAddresses is not a plain list (line 4): write it as `nodePortAddresses: [primary]`",
		},
		"a list in brackets over several lines": {
			document: head + "nodePortAddresses: [10.0.0.0/8, # the office\n  fd00::/8]\n",
			declared: ports,
			want:     "config.conf: nodePortAddresses is not a plain list (line 4): write it as `nodePortAddresses: [primary]`",
		},
		"a list with an item over several lines": {
			document: head + "nodePortAddresses:\n- >\n  10.0.0.0/8\n",
			declared: ports,
			want:     "config.conf: nodePortAddresses is not a plain list (line 5): write it as `nodePortAddresses: [primary]`",
		},
		"a list that another field refers to": {
			document: head + "nodePortAddresses: &all [10.0.0.0/8]\nfuture: *all\n",
			declared: ports,
			want:     "config.conf: nodePortAddresses is not a plain list (line 4): write it as `nodePortAddresses: [primary]`",
		},
		"a list of lists": {
			document: head + "nodePortAddresses:\n- - 10.0.0.0/8\n",
			declared: ports,
			want:     "config.conf: nodePortAddresses is not a plain list (line 5): write it as `nodePortAddresses: [primary]`",
		},
		"a list where a text should be": {
			document: head + "mode: [iptables]\n",
			want:     "config.conf: mode is not a plain value (line 4): write it as `mode: nftables`",
		},
		"ipvs merged from elsewhere, which a section of its own would hide": {
			document: head + "shared: &shared {ipvs: {scheduler: rr}}\n<<: *shared\n",
			declared: strict,
			want:     "config.conf: ipvs.strictARP would be <nil> after the edit, not true: set it by hand",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.declared == nil {
				tc.declared = nftables
			}
			edited, changes, err := Edit(tc.document, tc.declared)
			if diff := cmp.Diff(tc.want, fmt.Sprint(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if edited != "" || changes != nil {
				t.Errorf("a refused edit returns %q, %v, want nothing", edited, changes)
			}
		})
	}
}

func TestMode(t *testing.T) {
	for name, tc := range map[string]struct {
		mode, want, wantErr string
	}{
		"quoted":                                {mode: `"ipvs"`, want: "ipvs"},
		"empty, which leaves it to kube-proxy":  {mode: `""`},
		"null, in one of YAML's spellings":      {mode: "~"},
		"one that no kube-proxy starts with":    {mode: "IPVS", wantErr: "IPVS"},
		"one that kube-proxy no longer has":     {mode: "userspace", wantErr: "userspace"},
		"no text at all":                        {mode: "[ipvs]", wantErr: "[ipvs]"},
		"a reference to another field's anchor": {mode: "*it", want: "nftables"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Mode("detectLocalMode: &it nftables\nkind: KubeProxyConfiguration\nmode: " + tc.mode)
			wantErr := "<nil>"
			if tc.wantErr != "" {
				wantErr = fmt.Sprintf("config.conf: mode is %s, which kube-proxy does not start with: write iptables, ipvs or nftables there, "+
					"or set spec.kubeProxy.mode", tc.wantErr)
			}
			if diff := cmp.Diff([]string{tc.want, wantErr}, []string{got, fmt.Sprint(err)}); diff != "" {
				t.Errorf("mode and error (-want +got):\n%s", diff)
			}
		})
	}
}
