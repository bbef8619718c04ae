package oci

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithLibraries(t *testing.T) {
	folder := t.TempDir()
	script := filepath.Join(folder, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	folders := []string{"/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/lib64"}
	loader := File{Path: "/lib64/ld-linux-x86-64.so.2", Source: "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", Mode: 0o755}
	libc := File{Path: "/usr/lib/x86_64-linux-gnu/libc.so.6", Source: "/usr/lib/x86_64-linux-gnu/libc.so.6", Mode: 0o755}
	for name, tc := range map[string]struct {
		program string
		folders []string
		want    []File
		err     string
	}{
		"a script needs none": {program: script, folders: folders},
		"a shell needs the C library and its loader, each once": {program: "/bin/sh", folders: folders, want: []File{libc, loader}},
		"a library that is in none of the folders": {program: "/bin/sh", folders: []string{folder},
			err: "finding what /bin/sh needs: libc.so.6 is in none of [" + folder + "]"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(libc.Source); err != nil && tc.program == "/bin/sh" {
				t.Skipf("this is no Debian on amd64: %v", err)
			}
			program := File{Path: "/program", Source: tc.program, Mode: 0o755}
			got, err := WithLibraries([]File{program}, tc.folders)
			if err != nil {
				if err.Error() != tc.err {
					t.Errorf("error is %v, want %s", err, tc.err)
				}
				return
			}
			if diff := cmp.Diff(slices.Concat([]File{program}, tc.want), got); diff != "" || tc.err != "" {
				t.Errorf("want error %q; files (-want +got):\n%s", tc.err, diff)
			}
		})
	}
}
