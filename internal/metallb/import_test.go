package metallb

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestImport reads each file of testdata, and compares what is printed with the file beside it.
func TestImport(t *testing.T) {
	files, err := filepath.Glob("testdata/*.metallb.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("there are %d files: %v", len(files), err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			objects, err := ReadYAML(text)
			if err != nil {
				t.Fatal(err)
			}
			spec, remarks, err := Import(objects)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Write(spec, remarks)
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.Replace(name, ".metallb.yaml", ".lanyard.yaml", 1)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

func TestWhatCannotBeReadIsNamed(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"no YAML": {"a: [", "reading document 1: "},
		"a pool of another shape": {
			"apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: lan}\nspec: {addresses: 5}\n", "reading IPAddressPool lan: "},
		"an advertisement of another shape": {
			"apiVersion: metallb.io/v1beta1\nkind: L2Advertisement\nmetadata: {name: lan}\nspec: {interfaces: 5}\n", "reading L2Advertisement lan: "},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := ReadYAML([]byte(tc.text))
			if err == nil {
				_, _, err = Import(objects)
			}
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
}

// FuzzReadYAML: whatever is in a file, what is read can be printed.
func FuzzReadYAML(f *testing.F) {
	files, err := filepath.Glob("testdata/*.metallb.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		objects, err := ReadYAML(text)
		if err != nil {
			return
		}
		spec, remarks, err := Import(objects)
		if err != nil {
			return
		}
		if _, err := Write(spec, remarks); err != nil {
			t.Error(err)
		}
	})
}
