package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// program is something that is built from Go modules.
type program struct {
	name string
	// module is the folder with the go.mod that pins it, below this package's.
	module string
	// pkg is its main package.
	pkg string
	// flags are further flags of `go build`.
	flags []string
}

// kubernetesFlags set the version that kubeadm and kubelet compare with each other's.
var kubernetesFlags = []string{"-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion=" + kubernetesVersion +
	" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"}

// apiPrograms are what an API server needs, for tests without nodes.
var apiPrograms = []program{
	{"etcd", "build/etcd", "go.etcd.io/etcd/server/v3", []string{"-ldflags", "-s -w"}},
	{"kube-apiserver", "build/kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", kubernetesFlags},
	{"kubectl", "build/kubernetes", "k8s.io/kubernetes/cmd/kubectl", kubernetesFlags},
}

// containerdFlags leave out the snapshotters that need C libraries.
var containerdFlags = []string{"-tags", "no_btrfs,no_devmapper,no_zfs", "-ldflags",
	"-s -w -X github.com/containerd/containerd/v2/version.Version=" + containerdVersion}

// nodePrograms are what a node needs besides.
var nodePrograms = []program{
	{"kubeadm", "build/kubernetes", "k8s.io/kubernetes/cmd/kubeadm", kubernetesFlags},
	{"kubelet", "build/kubernetes", "k8s.io/kubernetes/cmd/kubelet", kubernetesFlags},
	{"kube-proxy", "build/kubernetes", "k8s.io/kubernetes/cmd/kube-proxy", kubernetesFlags},
	{"kube-scheduler", "build/kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", kubernetesFlags},
	{"kube-controller-manager", "build/kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", kubernetesFlags},
	{"containerd", "build/containerd", "github.com/containerd/containerd/v2/cmd/containerd", containerdFlags},
	{"containerd-shim-runc-v2", "build/containerd", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2", containerdFlags},
	{"ctr", "build/containerd", "github.com/containerd/containerd/v2/cmd/ctr", containerdFlags},
	{"cni/ptp", "build/containerd", "github.com/containernetworking/plugins/plugins/main/ptp", nil},
	{"cni/loopback", "build/containerd", "github.com/containernetworking/plugins/plugins/main/loopback", nil},
	{"cni/host-local", "build/containerd", "github.com/containernetworking/plugins/plugins/ipam/host-local", nil},
	{"cni/portmap", "build/containerd", "github.com/containernetworking/plugins/plugins/meta/portmap", nil},
	{"pause", ".", "./pause", []string{"-ldflags", "-s -w"}},
}

// build makes sure that the programs are in the cache. One process builds at a time; a build that is cut off leaves nothing.
func (l lab) build(ctx context.Context, p progress, programs []program) error {
	if err := os.MkdirAll(filepath.Join(l.bin(), "cni"), 0o755); err != nil {
		return fmt.Errorf("making the cache: %w", err)
	}
	unlock, err := lockFile(ctx, p, filepath.Join(l.bin(), "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	for _, prog := range programs {
		target := filepath.Join(l.bin(), prog.name)
		if _, err := os.Stat(target); err == nil {
			continue
		}
		if err := p.step("building "+prog.name, func() error { return buildProgram(ctx, prog, target) }); err != nil {
			return err
		}
	}
	return nil
}

func buildProgram(ctx context.Context, prog program, target string) error {
	source, err := sourceFolder()
	if err != nil {
		return err
	}
	args := append([]string{"build", "-trimpath", "-o", target + ".partial"}, prog.flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, prog.pkg)...)
	cmd.Dir = filepath.Join(source, prog.module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if _, err := runCommand(cmd); err != nil {
		return err
	}
	if err := os.Rename(target+".partial", target); err != nil {
		return fmt.Errorf("finishing %s: %w", target, err)
	}
	return nil
}

// sourceFolder is this package's folder: what is built is pinned by the modules below it.
func sourceFolder() (string, error) {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/lanyard-dev/lanyard/test/lab").Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return "", fmt.Errorf("finding the lab's sources (run it within the checkout): %w: %s", err, failed.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("finding the lab's sources: %w", err)
	}
	return string(out[:len(out)-1]), nil
}

// lockFile waits for the lock on a file and takes it. The lock goes with the process.
func lockFile(ctx context.Context, p progress, file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	waits := false
	err = waitFor(ctx, "the lock "+file, time.Hour, func(context.Context) (bool, error) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != nil && !waits {
			waits = true
			p.say("waiting for another lab program, which holds %s", file)
		}
		return err == nil, err
	})
	if err != nil {
		_ = f.Close() // the lock failed, which is what matters
		return nil, err
	}
	return func() { _ = f.Close() }, nil // closing gives the lock back
}

// lock makes programs that change the same lab wait for each other.
func (l lab) lock(ctx context.Context, p progress) (unlock func(), err error) {
	folder := filepath.Join(l.cache, "locks")
	if err := makeFolders(folder); err != nil {
		return nil, err
	}
	return lockFile(ctx, p, filepath.Join(folder, l.name))
}
