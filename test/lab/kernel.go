package main

import (
	"context"
	"crypto/sha256"
	_ "embed" // for the kernel's configuration
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// kernelSuite is the part of Debian that the kernel's sources come from, wherever else this machine gets its packages: user-mode Linux runs
// its programs without ptrace, which makes them several times faster, from Linux 6.16 on.
const kernelSuite = "trixie-backports"

// kernelConfig says what the kernel has. Debian's own build of user-mode Linux will not do: its nf_tables knows neither IPv4 nor IPv6.
//
//go:embed kernel.config
var kernelConfig string

// kernelTools are what the build of a kernel needs, each with a file that tells whether it is there.
var kernelTools = map[string]string{
	"bc":                     "/usr/bin/bc",
	"bison":                  "/usr/bin/bison",
	"debian-archive-keyring": archiveKeyring,
	"flex":                   "/usr/bin/flex",
	"gcc":                    "/usr/bin/gcc",
	"libc6-dev":              "/usr/include/stdio.h",
	"make":                   "/usr/bin/make",
	"xz-utils":               "/usr/bin/xz",
}

// kernel is the program that is a node's own kernel. A kernel of another configuration is another program.
func (l lab) kernel() string {
	return filepath.Join(l.bin(), fmt.Sprintf("linux-uml-%.4x", sha256.Sum256([]byte(kernelConfig))))
}

// kernelModules is a folder like /lib/modules, which says of the kernel's release what is built in: kube-proxy asks modprobe for IPVS before it
// clears up what that has left.
func (l lab) kernelModules() string { return l.kernel() + "-modules" }

// buildKernel makes sure that the kernel is in the cache.
func (l lab) buildKernel(ctx context.Context, p progress) error {
	if err := makeFolders(l.bin()); err != nil {
		return err
	}
	unlock, err := lockFile(ctx, p, filepath.Join(l.bin(), "kernel-lock")) // not the programs' lock: labs without such nodes do not wait
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(l.kernel()); err == nil {
		return nil
	}
	if err := installPackages(ctx, p, kernelTools); err != nil {
		return err
	}
	return p.step("building a kernel for nodes with their own", func() error { return l.compileKernel(ctx) })
}

func (l lab) compileKernel(ctx context.Context) error {
	folder := filepath.Join(l.cache, "kernel")
	if err := os.RemoveAll(folder); err != nil { // of a build that was cut off
		return fmt.Errorf("clearing the kernel's sources: %w", err)
	}
	if err := makeFolders(folder); err != nil {
		return err
	}
	if err := unpackKernel(ctx, folder); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, ".config"), []byte(kernelConfig), 0o644); err != nil {
		return fmt.Errorf("configuring the kernel: %w", err)
	}
	for _, target := range []string{"olddefconfig", "linux"} {
		build := exec.CommandContext(ctx, "make", "ARCH=um", "--silent", "--jobs="+strconv.Itoa(runtime.NumCPU()), target)
		build.Dir = folder
		if _, err := runCommand(build); err != nil {
			return err
		}
	}
	if err := l.listModules(ctx, folder); err != nil {
		return err
	}
	if _, err := run(ctx, "strip", "-o", l.kernel()+".partial", filepath.Join(folder, "linux")); err != nil {
		return err
	}
	if err := os.Rename(l.kernel()+".partial", l.kernel()); err != nil {
		return fmt.Errorf("finishing the kernel: %w", err)
	}
	return os.RemoveAll(folder)
}

// listModules makes the kernel's folder of modules. It has none: depmod only indexes what is built in.
func (l lab) listModules(ctx context.Context, folder string) error {
	release, err := os.ReadFile(filepath.Join(folder, "include", "config", "kernel.release"))
	if err != nil {
		return fmt.Errorf("reading the kernel's release: %w", err)
	}
	staged := filepath.Join(folder, "staged")
	modules := filepath.Join(staged, "lib", "modules")
	of := filepath.Join(modules, strings.TrimSpace(string(release)))
	if err := makeFolders(of); err != nil {
		return err
	}
	for _, list := range []string{"modules.builtin", "modules.builtin.modinfo"} {
		if err := os.Rename(filepath.Join(folder, list), filepath.Join(of, list)); err != nil {
			return fmt.Errorf("keeping what is built into the kernel: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(of, "modules.order"), nil, 0o644); err != nil {
		return fmt.Errorf("writing that the kernel has no modules: %w", err)
	}
	if _, err := run(ctx, "depmod", "--basedir", staged, filepath.Base(of)); err != nil {
		return err
	}
	if err := os.RemoveAll(l.kernelModules()); err != nil {
		return fmt.Errorf("clearing an earlier kernel's modules: %w", err)
	}
	return os.Rename(modules, l.kernelModules())
}
