package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCopyDown plays a version 1 hierarchy in a plain folder: every group on the way gets the root's CPUs, or the kernel would let no
// process into the last one.
func TestCopyDown(t *testing.T) {
	root := t.TempDir()
	group := lab{name: "test"}.cgroup("k8s-cp-01")
	if err := makeFolders(filepath.Join(root, group)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "cpuset.cpus"), []byte("0-1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // the second is missing, as in all hierarchies but cpuset's
		if err := copyDown(root, group, file); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		got[path[len(root)+1:]] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"cpuset.cpus":                            "0-1\n",
		"lanyard-lab/cpuset.cpus":                "0-1\n",
		"lanyard-lab/test/cpuset.cpus":           "0-1\n",
		"lanyard-lab/test/k8s-cp-01/cpuset.cpus": "0-1\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
