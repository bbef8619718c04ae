package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/lanyard-dev/lanyard/test/namespace"
)

// boot starts a node: its first process, which is this program again, in namespaces of its own on the node's network. What is left of
// the node from before, as when its first process was killed, goes first.
func (l lab) boot(ctx context.Context, h host) error {
	if err := l.powerOff(ctx, h); err != nil {
		return err
	}
	if err := l.plug(ctx, h); err != nil {
		return err
	}
	if err := os.MkdirAll(l.disk(h.name), 0o755); err != nil {
		return fmt.Errorf("making the disk of %s: %w", h.name, err)
	}
	if err := l.furnish(ctx, h); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(l.disk(h.name), "containerd.toml"), []byte(containerdConfig()), 0o644); err != nil {
		return fmt.Errorf("configuring containerd of %s: %w", h.name, err)
	}
	if err := os.WriteFile(filepath.Join(l.disk(h.name), "cni.conflist"), []byte(cniConfig(h, l.wanted().stack)), 0o644); err != nil {
		return fmt.Errorf("configuring the pod network of %s: %w", h.name, err)
	}
	id, err := l.fork(h)
	if err != nil {
		return fmt.Errorf("starting %s: %w", h.name, err)
	}
	if err := os.WriteFile(l.pidFile(h.name), []byte(id.String()), 0o644); err != nil {
		return fmt.Errorf("noting the process of %s: %w", h.name, err)
	}
	return l.awaitContainerd(ctx, h)
}

// furnish gives a node what it keeps its processes and its files in: cgroups on the shared kernel, a disk for one of its own.
func (l lab) furnish(ctx context.Context, h host) error {
	if h.kernel == ownKernel {
		return l.makeDiskImage(ctx, h)
	}
	if err := makeCgroups(l.cgroup(h.name)); err != nil {
		return fmt.Errorf("making the cgroups of %s: %w", h.name, err)
	}
	return nil
}

// awaitContainerd waits until the node's container runtime answers. A kernel of its own has to boot first, slowly on a busy machine.
func (l lab) awaitContainerd(ctx context.Context, h host) error {
	limit := time.Minute
	if h.kernel == ownKernel {
		limit = 5 * time.Minute
	}
	log := filepath.Join(l.disk(h.name), "containerd.log")
	var off error
	err := waitFor(ctx, "containerd on "+h.name, limit, func(ctx context.Context) (bool, error) {
		if !l.isOn(h.name) {
			off = fmt.Errorf("%s has gone off again: %s", h.name, lastLinesOf(filepath.Join(l.disk(h.name), "node.log"), 5))
			return true, nil
		}
		_, err := l.in(ctx, h.name, "ctr", "version")
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("%w; the end of %s:\n%s", err, log, lastLinesOf(log, 10))
	}
	return off
}

// fork starts the first process.
func (l lab) fork(h host) (identity, error) {
	log, err := os.OpenFile(filepath.Join(l.disk(h.name), "node.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return identity{}, err
	}
	defer log.Close() //nolint:errcheck // the child has its own handle
	cmd := exec.Command(l.binary(), "node-init", "--name", l.name, h.name)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = l.serviceEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWPID,
	}
	if err := namespace.Do(l.netns(h), cmd.Start); err != nil {
		return identity{}, err
	}
	id, _, err := identify(cmd.Process.Pid)
	return id, err
}

// path is where programs are found on the lab's hosts.
func (l lab) path() string {
	return l.bin() + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

// in runs a command on a node to its end.
func (l lab) in(ctx context.Context, node string, command ...string) (string, error) {
	cmd, err := l.command(ctx, node, command)
	if err != nil {
		return "", err
	}
	return runCommand(cmd)
}

// command is a command on a host: inside all of a node's namespaces, on the console of a kernel of its own, or only on the workstation's
// network.
func (l lab) command(ctx context.Context, name string, command []string) (*exec.Cmd, error) {
	h, err := l.find(name)
	if err != nil {
		return nil, err
	}
	var enter []string
	if h.role == workstation {
		enter = []string{"nsenter", "--net=" + filepath.Join(netnsFolder, l.netns(h)), "--"}
	} else if id, so := l.process(name); so != running {
		return nil, fmt.Errorf("%s is off: turn it on with `lab start %s`", name, name)
	} else if h.kernel == ownKernel {
		enter = []string{l.binary(), "--name", l.name, "console-exec", name, "--"}
	} else {
		enter = []string{"nsenter", "--target", fmt.Sprint(id.pid), "--all", "--"}
	}
	enter = append(enter, command...)
	cmd := exec.CommandContext(ctx, enter[0], enter[1:]...)
	cmd.Env = append(withoutKey(os.Environ(), "PATH", "KUBECONFIG"), "PATH="+l.path(), "KUBECONFIG="+l.adminKubeconfig(),
		"CONTAINERD_ADDRESS=/run/containerd/containerd.sock", "LANYARD_LAB="+l.name)
	return cmd, nil
}

// withoutKey drops variables from an environment.
func withoutKey(env []string, keys ...string) []string {
	var kept []string
	for _, pair := range env {
		key, _, _ := strings.Cut(pair, "=")
		drop := false
		for _, k := range keys {
			drop = drop || k == key
		}
		if !drop {
			kept = append(kept, pair)
		}
	}
	return kept
}
