package laststate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// files returns the folder's files with their modes.
func files(t *testing.T, folder string) map[string]fs.FileMode {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]fs.FileMode{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		modes[e.Name()] = info.Mode()
	}
	return modes
}

func TestFileKeepsTheLastStateThatWasWritten(t *testing.T) {
	folder := t.TempDir()
	file := File(filepath.Join(folder, "state"))
	if _, err := file.Read(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before anything was written the error is %v, want %v", err, os.ErrNotExist)
	}
	for _, node := range []string{"w1", "w2"} {
		if err := file.Write(State{Origin: Origin{Node: node}}); err != nil {
			t.Fatal(err)
		}
		got, err := file.Read()
		if err != nil || got.Node != node {
			t.Errorf("what is read is node %q's (error %v), want %q's", got.Node, err, node)
		}
		if diff := cmp.Diff(map[string]fs.FileMode{"state": 0o600}, files(t, folder)); diff != "" {
			t.Errorf("the folder (-want +got):\n%s", diff)
		}
	}
}

// TestAWriteThatWasCutOffHarmsNothing: what it left beside the file is overwritten by the next.
func TestAWriteThatWasCutOffHarmsNothing(t *testing.T) {
	folder := t.TempDir()
	file := File(filepath.Join(folder, "state"))
	if err := errors.Join(file.Write(State{Origin: Origin{Node: "w1"}}), os.WriteFile(string(file)+".new", []byte("lany"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got, err := file.Read(); err != nil || got.Node != "w1" {
		t.Errorf("what is read is node %q's (error %v), want w1's", got.Node, err)
	}
	if err := file.Write(State{Origin: Origin{Node: "w2"}}); err != nil {
		t.Fatal(err)
	}
	if got, err := file.Read(); err != nil || got.Node != "w2" {
		t.Errorf("what is read is node %q's (error %v), want w2's", got.Node, err)
	}
}

// TestAWriteThatFailsLeavesTheStateBefore, as where the disk is full; here something stands where the new file would be written.
func TestAWriteThatFailsLeavesTheStateBefore(t *testing.T) {
	file := File(filepath.Join(t.TempDir(), "state"))
	if err := errors.Join(file.Write(State{Origin: Origin{Node: "w1"}}), os.Mkdir(string(file)+".new", 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := file.Write(State{Origin: Origin{Node: "w2"}}); err == nil {
		t.Error("it says that it has written")
	}
	if got, err := file.Read(); err != nil || got.Node != "w1" {
		t.Errorf("what is read is node %q's (error %v), want w1's", got.Node, err)
	}
}
