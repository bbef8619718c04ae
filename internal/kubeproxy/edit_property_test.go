package kubeproxy

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// FuzzEdit checks, with the YAML parser that kube-proxy itself reads its configuration with: an edited document is still readable, the
// declared fields have their values and all others the ones they had; an edit without changes is the same bytes; a second edit finds
// nothing to do; and to edit the changed settings back makes a document that says the same as the first.
func FuzzEdit(f *testing.F) {
	for _, document := range documents(f) {
		for i := range declared {
			f.Add(document, uint8(i))
		}
	}
	f.Add("kind: KubeProxyConfiguration\rmode: \"\"\r", uint8(1))           // YAML ends lines at a lone CR too
	f.Add("kind: KubeProxyConfiguration\n? mode\n: 'it''s'\n", uint8(1))    // a quote inside
	f.Add("# \u2028kind: KubeProxyConfiguration\nmode: \"\\\"\"", uint8(1)) // and at Unicode's line separator
	f.Add("\ufeffkind: KubeProxyConfiguration\nipvs:\n  ? strictARP", uint8(3))
	f.Add("kind: KubeProxyConfiguration\nnodePortAddresses:\n  - ::/0\n  - 'a'  # b\n  - a", uint8(4))
	f.Add("kind: KubeProxyConfiguration\rnodePortAddresses:\r- a\r- b", uint8(4))
	f.Fuzz(func(t *testing.T, document string, spec uint8) {
		want := declared[int(spec)%len(declared)].fields
		edited, changes, err := Edit(document, want)
		if err != nil {
			if edited != "" || changes != nil || strings.Contains(err.Error(), "\n") {
				t.Fatalf("refused with %q, %v and %q, want nothing and one line", edited, changes, err)
			}
			return
		}
		if (len(changes) == 0) != (edited == document) {
			t.Fatalf("changes %v, and the document becomes %q", changes, edited)
		}
		if again, more, err := Edit(edited, want); err != nil || again != edited || more != nil {
			t.Fatalf("edited again, it becomes %q with %v, %v", again, more, err)
		}
		checkValues(t, document, edited, want)
		checkWayBack(t, document, edited, changes)
	})
}

// checkValues compares what the documents say, but for the declared fields, which have to be as declared.
func checkValues(t *testing.T, document, edited string, want Fields) {
	t.Helper()
	var was, is map[string]any
	if yaml.Unmarshal([]byte(document), &was) != nil {
		t.Fatalf("%q cannot be read by kube-proxy, and was edited", document)
	}
	if err := yaml.Unmarshal([]byte(edited), &is); err != nil {
		t.Fatalf("kube-proxy could read the document and cannot read %q: %v", edited, err)
	}
	if diff := want.Against(settingsIn(is), iptables); diff != nil {
		t.Errorf("after the edit, these are not as declared: %v", diff)
	}
	if diff := cmp.Diff(undeclared(was, want), undeclared(is, want)); diff != "" {
		t.Errorf("undeclared fields (-before +after):\n%s", diff)
	}
}

// undeclared returns the fields that the spec does not declare. An empty section is the same as none.
func undeclared(fields map[string]any, spec Fields) map[string]any {
	for _, f := range spec {
		keys := f.Path.keys()
		if len(keys) == 1 {
			delete(fields, keys[0])
			continue
		}
		section, isSection := fields[keys[0]].(map[string]any)
		delete(section, keys[1])
		if isSection && len(section) == 0 || fields[keys[0]] == nil {
			delete(fields, keys[0])
		}
	}
	return fields
}

// checkWayBack edits the changed settings back. A document whose values have another type than kube-proxy reads there has no way back: no
// kube-proxy ran with it.
func checkWayBack(t *testing.T, document, edited string, changes []Change) {
	t.Helper()
	before, err := Read(document)
	if err != nil {
		t.Fatalf("%q was edited and cannot be read: %v", document, err)
	}
	_, values, err := parse(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range Paths {
		if value, isThere := find(values, path.keys()); isThere && knownFields[string(path)].mistyped(value) != "" {
			return
		}
	}
	var paths []Path
	for _, c := range changes {
		paths = append(paths, Path(c.Field))
	}
	back, _, err := Edit(edited, FieldsOf(before, paths))
	if err != nil {
		t.Fatalf("%q cannot be edited back: %v", edited, err)
	}
	after, err := Read(back)
	if err != nil {
		t.Fatalf("edited back, it cannot be read: %q: %v", back, err)
	}
	if diff := cmp.Diff(sets(before), sets(after)); diff != "" {
		t.Errorf("settings of %q before, and of %q after the way back (-before +after):\n%s", document, back, diff)
	}
}

// sets are the settings with the lists in one order, since an edit keeps the items that stay where they are.
func sets(s Settings) Settings {
	all := maps.Clone(s)
	for path, text := range all {
		if path.shape() == aList {
			all[path] = unordered(strings.Split(text, ","))
		}
	}
	return all
}

// TestEditThereAndBack edits documents as kubeadm writes them, with random settings, to other random settings and back: since every
// scalar is there already, the bytes are the same.
func TestEditThereAndBack(t *testing.T) {
	kubeadm := documents(t)["kubeadm-v1.36"]
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		document, _, err := Edit(kubeadm, somewhere(random))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		before, err := Read(document)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		there, changes, err := Edit(document, somewhere(random))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var paths []Path
		for _, c := range changes {
			paths = append(paths, Path(c.Field))
		}
		back, _, err := Edit(there, FieldsOf(before, paths))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if diff := cmp.Diff(strings.Split(document, "\n"), strings.Split(back, "\n")); diff != "" {
			t.Fatalf("seed %d: by way of %v (-before +after):\n%s", seed, changes, diff)
		}
	}
}

// somewhere returns random values for some of the settings that are scalars, each as Read would return it.
func somewhere(random *rand.Rand) Fields {
	values := map[Path][]any{
		PathMode: {"", "iptables", "ipvs", "nftables"}, PathScheduler: {"", "rr", "wlc"}, PathStrictARP: {false, true},
		PathTCPTimeout: {"0s", "15m0s", "1h30m0s"}, PathTCPFinTimeout: {"0s", "2m0s"}, PathUDPTimeout: {"0s", "5m0s"},
		PathTCPBeLiberal: {false, true}, PathMetricsBindAddress: {"", "0.0.0.0:10249", "[::]:10249"},
		PathClusterCIDR: {"", "10.244.0.0/16", "10.244.0.0/16,fd00::/56"},
	}
	var some Fields
	for _, path := range Paths {
		if choice := values[path]; len(choice) > 0 && random.IntN(2) == 0 {
			some = some.With(path, choice[random.IntN(len(choice))])
		}
	}
	return some
}

// TestEditLists takes a list, in each way in which it can be written, to other lists.
func TestEditLists(t *testing.T) {
	for name, tc := range map[string]struct {
		document string
		want     []string
		edited   string
	}{
		"an item joins the others": {
			document: "excludeCIDRs:\n  # of keepalived\n  - 10.9.0.0/16 # rack 9\nmode: ipvs\n", want: []string{"10.9.0.0/16", "10.8.0.0/16"},
			edited: "excludeCIDRs:\n  # of keepalived\n  - 10.9.0.0/16 # rack 9\n  - 10.8.0.0/16\nmode: ipvs\n",
		},
		"an item goes with its line": {
			document: "excludeCIDRs:\n- 10.9.0.0/16 # rack 9\n- \"10.8.0.0/16\" # rack 8\n", want: []string{"10.8.0.0/16"},
			edited: "excludeCIDRs:\n- \"10.8.0.0/16\" # rack 8\n",
		},
		"every item is another": {
			document: "excludeCIDRs:\n  - 10.9.0.0/16\n  - 10.8.0.0/16\nmode: ipvs\n", want: []string{"fd00::/64"},
			edited: "excludeCIDRs:\n  - fd00::/64\nmode: ipvs\n",
		},
		"the last item, on a line without an end, goes": {
			document: "excludeCIDRs:\n  - 10.9.0.0/16\n  - 10.8.0.0/16", want: []string{"10.9.0.0/16"},
			edited: "excludeCIDRs:\n  - 10.9.0.0/16\n",
		},
		"an item follows a line without an end": {
			document: "excludeCIDRs:\n  - 10.9.0.0/16", want: []string{"10.9.0.0/16", "10.8.0.0/16"},
			edited: "excludeCIDRs:\n  - 10.9.0.0/16\n  - 10.8.0.0/16",
		},
		"none is left": {
			document: "excludeCIDRs: # of keepalived\n  - 10.9.0.0/16\n  - 10.8.0.0/16\nmode: ipvs\n", want: nil,
			edited: "excludeCIDRs: [] # of keepalived\nmode: ipvs\n",
		},
		"another order is the same list": {
			document: "excludeCIDRs:\n  - 10.9.0.0/16\n  - 10.8.0.0/16\n", want: []string{"10.8.0.0/16", "10.9.0.0/16"},
			edited: "excludeCIDRs:\n  - 10.9.0.0/16\n  - 10.8.0.0/16\n",
		},
		"brackets stay": {
			document: "excludeCIDRs: [10.9.0.0/16] # of keepalived\n", want: []string{"10.9.0.0/16", "fd00::/64"},
			edited: "excludeCIDRs: [10.9.0.0/16, \"fd00::/64\"] # of keepalived\n",
		},
		"quotes stay": {
			document: "excludeCIDRs: ['10.9.0.0/16']\n", want: []string{"10.8.0.0/16"}, edited: "excludeCIDRs: ['10.8.0.0/16']\n",
		},
		"brackets with nothing in them are filled": {
			document: "excludeCIDRs: [ ]\n", want: []string{"10.8.0.0/16"}, edited: "excludeCIDRs: [10.8.0.0/16]\n",
		},
		"no value is filled": {
			document: "excludeCIDRs:\nmode: ipvs\n", want: []string{"10.8.0.0/16"}, edited: "excludeCIDRs: [10.8.0.0/16]\nmode: ipvs\n",
		},
		"null is replaced": {
			document: "excludeCIDRs: null # none\n", want: []string{"10.8.0.0/16"}, edited: "excludeCIDRs: [10.8.0.0/16] # none\n",
		},
		"none where there is none changes nothing": {document: "excludeCIDRs: ~\n", want: nil, edited: "excludeCIDRs: ~\n"},
	} {
		for _, section := range []string{"", "ipvs:\n"} {
			t.Run(fmt.Sprintf("%s, below %q", name, section), func(t *testing.T) {
				path, wrap := PathExcludeCIDRs, func(s string) string {
					return "kind: KubeProxyConfiguration\nipvs:\n    " + strings.TrimSuffix(strings.ReplaceAll(s, "\n", "\n    "), "    ")
				}
				if section == "" {
					path, wrap = PathNodePortAddresses, func(s string) string {
						return strings.ReplaceAll("kind: KubeProxyConfiguration\n"+s, "excludeCIDRs", "nodePortAddresses")
					}
				}
				edited, _, err := Edit(wrap(tc.document), Fields{{path, slices.Clone(tc.want)}})
				if diff := cmp.Diff([]any{wrap(tc.edited), nil}, []any{edited, err}); diff != "" {
					t.Errorf("edited document and error (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestEditSections sets fields in a section, in each way in which it can be written.
func TestEditSections(t *testing.T) {
	for name, tc := range map[string]struct{ document, edited string }{
		"one that is not there": {"", "ipvs:\n  excludeCIDRs: [10.9.0.0/16]\n  strictARP: true\n  scheduler: lc\n"},
		"empty braces":          {"ipvs: {} # none\n", "ipvs: {excludeCIDRs: [10.9.0.0/16], strictARP: true, scheduler: lc} # none\n"},
		"braces with a field":   {"ipvs: { strictARP: false }\n", "ipvs: { excludeCIDRs: [10.9.0.0/16], scheduler: lc, strictARP: true }\n"},
		"braces as JSON": {`ipvs: {"strictARP":false,"scheduler":"rr"}`,
			`ipvs: {excludeCIDRs: [10.9.0.0/16], "strictARP":true,"scheduler":"lc"}`},
		"braces over several lines": {"ipvs: {\n  scheduler: rr,\n}\n",
			"ipvs: {\n  excludeCIDRs: [10.9.0.0/16], strictARP: true, scheduler: lc,\n}\n"},
		"null":    {"ipvs: ~\n", "ipvs: {excludeCIDRs: [10.9.0.0/16], strictARP: true, scheduler: lc}\n"},
		"nothing": {"ipvs: # none\n", "ipvs: {excludeCIDRs: [10.9.0.0/16], strictARP: true, scheduler: lc} # none\n"},
		"other fields only": {"ipvs:\n    syncPeriod: 30s\n",
			"ipvs:\n    excludeCIDRs: [10.9.0.0/16]\n    strictARP: true\n    scheduler: lc\n    syncPeriod: 30s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			want := Fields{{PathScheduler, "lc"}, {PathStrictARP, true}, {PathExcludeCIDRs, []string{"10.9.0.0/16"}}}
			edited, _, err := Edit(tc.document+"\nkind: KubeProxyConfiguration\n", want)
			expected := tc.edited + "\nkind: KubeProxyConfiguration\n"
			if tc.document == "" { // before the first field, which is below an empty line
				expected = "\n" + tc.edited + "kind: KubeProxyConfiguration\n"
			}
			if diff := cmp.Diff([]any{expected, nil}, []any{edited, err}); diff != "" {
				t.Errorf("edited document and error (-want +got):\n%s", diff)
			}
		})
	}
}
