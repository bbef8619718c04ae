package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// defaultNodes is one control plane and two workers.
const defaultNodes = 3

// canRun says at once, not after half an hour of builds, that this machine or user cannot run a lab.
func canRun(system, architecture string, user int) error {
	if system != "linux" || architecture != "amd64" {
		return fmt.Errorf("this is %s on %s: a lab needs Linux on amd64, for Debian's packages", system, architecture)
	}
	if user != 0 {
		return fmt.Errorf("you are user %d: a lab needs root, for network namespaces and mounts of its own", user)
	}
	return nil
}

// up brings the lab to a size, all nodes Ready, from whatever state it is in: nothing, half made, killed, or up already. A count of 0 keeps
// the number that it has.
func (l lab) up(ctx context.Context, p progress, asked size) error {
	if err := canRun(runtime.GOOS, runtime.GOARCH, os.Geteuid()); err != nil {
		return err
	}
	unlock, err := l.lock(ctx, p)
	if err != nil {
		return err
	}
	defer unlock()
	s, nodes, err := l.plan(asked)
	if err != nil {
		return err
	}
	if err := l.prepare(ctx, p); err != nil {
		return err
	}
	if s.ownKernels > 0 {
		if err := installPackages(ctx, p, kernelPackages); err != nil {
			return err
		}
		if err := l.buildKernel(ctx, p); err != nil {
			return err
		}
	}
	if err := makeFolders(l.state); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(l.state, "nodes-wanted"), []byte(s.String()), 0o644); err != nil {
		return fmt.Errorf("noting the number of nodes: %w", err)
	}
	if err := l.installBinary(); err != nil {
		return err
	}
	if err := l.wire(ctx); err != nil {
		return err
	}
	if err := p.step("starting "+names(nodes), func() error { return l.bootAll(ctx, nodes) }); err != nil {
		return err
	}
	if err := l.startCluster(ctx, p, nodes); err != nil {
		return err
	}
	if err := p.step("waiting for the nodes to be Ready", func() error { return l.awaitReady(ctx, nodes) }); err != nil {
		return err
	}
	p.say("the lab %q is up: %s and the workstation k8s-ops. Try: lab exec k8s-ops -- kubectl get nodes -o wide", l.name, names(nodes))
	return nil
}

// plan returns the size and the nodes that the lab should have.
func (l lab) plan(asked size) (size, []host, error) {
	has, s := l.wanted(), asked
	if s.nodes == 0 {
		s.nodes = cmp.Or(has.nodes, defaultNodes)
	}
	if s.ownKernels == 0 {
		s.ownKernels = has.ownKernels
	}
	if s.stack == dualStack && has.nodes > 0 && has.stack == singleStack {
		return size{}, nil, fmt.Errorf("--dual-stack is set and lab %q has IPv4 only: a cluster's families stay; take it down first (lab down)", l.name)
	}
	s.stack = max(s.stack, has.stack)
	nodes, err := nodesOf(s)
	if err != nil {
		return size{}, nil, err
	}
	const stays = "%s is %d and lab %q has %d: a lab does not shrink; take it down first (lab down)"
	if s.nodes < has.nodes {
		return size{}, nil, fmt.Errorf(stays, "--nodes", s.nodes, l.name, has.nodes)
	}
	if s.ownKernels < has.ownKernels {
		return size{}, nil, fmt.Errorf(stays, "--uml-nodes", s.ownKernels, l.name, has.ownKernels)
	}
	return s, nodes, nil
}

// wanted is the size that the lab was last brought up with; zero when it is down.
func (l lab) wanted() size {
	text, err := os.ReadFile(filepath.Join(l.state, "nodes-wanted"))
	if err != nil {
		return size{}
	}
	return parseSize(string(text))
}

// String is how a size is kept in a file: the number of nodes, that of nodes with a kernel of their own where there are any, and a mark where
// there is IPv6.
func (s size) String() string {
	text := strconv.Itoa(s.nodes)
	if s.ownKernels > 0 {
		text += fmt.Sprintf(" %d", s.ownKernels)
	}
	if s.stack == dualStack {
		text += " " + dualStackMark
	}
	return text
}

const dualStackMark = "dual-stack"

// parseSize reads what String wrote. What it cannot read, as of a file that was cut off, is no lab.
func parseSize(text string) size {
	var (
		numbers []int
		has     stack
	)
	fields := strings.Fields(text)
	if last := len(fields) - 1; last > 0 && fields[last] == dualStackMark {
		fields, has = fields[:last], dualStack
	}
	for _, field := range fields {
		n, err := strconv.Atoi(field)
		if err != nil {
			return size{}
		}
		numbers = append(numbers, n)
	}
	switch len(numbers) {
	case 1:
		return size{nodes: numbers[0], stack: has}
	case 2:
		return size{nodes: numbers[0], ownKernels: numbers[1], stack: has}
	default:
		return size{}
	}
}

// nodes are the lab's nodes as it was last brought up.
func (l lab) nodes() []host {
	nodes, err := nodesOf(l.wanted())
	if err != nil {
		return nil
	}
	return nodes
}

// prepare makes everything that outlives a lab.
func (l lab) prepare(ctx context.Context, p progress) error {
	if err := installPackages(ctx, p, debianPackages); err != nil {
		return err
	}
	if err := l.build(ctx, p, apiPrograms); err != nil {
		return err
	}
	if err := l.build(ctx, p, nodePrograms); err != nil {
		return err
	}
	return l.buildImages(ctx, p)
}

// installBinary copies this program to where nodes run it from: it may itself be a temporary file of `go run`.
func (l lab) installBinary() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	from, err := os.Open(self)
	if err != nil {
		return fmt.Errorf("opening this program: %w", err)
	}
	defer from.Close() //nolint:errcheck // only read
	to, err := os.OpenFile(l.binary()+".partial", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return fmt.Errorf("copying this program: %w", err)
	}
	if _, err := io.Copy(to, from); err != nil {
		return fmt.Errorf("copying this program: %w", err)
	}
	if err := to.Close(); err != nil {
		return fmt.Errorf("copying this program: %w", err)
	}
	return os.Rename(l.binary()+".partial", l.binary())
}

// bootAll starts the nodes that are down and loads what images they lack, all at the same time.
func (l lab) bootAll(ctx context.Context, nodes []host) error {
	var group errgroup.Group
	for _, h := range nodes {
		group.Go(func() error {
			if !l.isOn(h.name) {
				if err := l.boot(ctx, h); err != nil {
					return err
				}
			}
			return l.loadImages(ctx, h)
		})
	}
	return group.Wait()
}
