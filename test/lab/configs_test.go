package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestConfigsGolden compares each configuration that a node gets with a file in testdata, where they can be read as a user would.
func TestConfigsGolden(t *testing.T) {
	const token = "abcdef.0123456789abcdef"
	cp, wl := control(), node("k8s-wl-01", "192.168.1.128", "10.244.2.0/24")
	for file, got := range map[string]string{
		"containerd.toml":                 containerdConfig(),
		"cni.conflist":                    cniConfig(wl, singleStack),
		"cni-dual.conflist":               cniConfig(wl, dualStack),
		"kubeadm-init.yaml":               kubeadmInit(cp, token, singleStack),
		"kubeadm-init-dual.yaml":          kubeadmInit(cp, token, dualStack),
		"kubeadm-join.yaml":               kubeadmJoin(wl, cp, token, singleStack),
		"kubeadm-join-dual.yaml":          kubeadmJoin(wl, cp, token, dualStack),
		"kubeletconfiguration+merge.json": kubeletPatch(lab{name: "test"}.cgroup(wl.name)),
	} {
		t.Run(file, func(t *testing.T) {
			compareGolden(t, file, got)
		})
	}
}

// compareGolden compares a text with a file in testdata, or writes it there with -update.
func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	golden := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v; make it with: go test ./test/lab -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}
