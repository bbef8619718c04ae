package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// down removes everything that the lab made but the cache, whatever state it is in.
func (l lab) down(ctx context.Context, p progress) error {
	unlock, err := l.lock(ctx, p)
	if err != nil {
		return err
	}
	defer unlock()
	if err := thaw(l.cgroup("")); err != nil {
		return err
	}
	if err := endAll(ctx, "the lab's processes", l.strays); err != nil {
		return err
	}
	if err := l.unwire(ctx); err != nil {
		return err
	}
	if err := l.unmount(); err != nil {
		return err
	}
	if err := removeCgroups(ctx, l.cgroup("")); err != nil {
		return err
	}
	if err := removeCommonCgroups(); err != nil {
		return err
	}
	if err := os.RemoveAll(l.state); err != nil {
		return fmt.Errorf("removing the lab's state: %w", err)
	}
	p.say("the lab %q is down", l.name)
	return nil
}

// mounts are mount points of this mount namespace below the lab's state. A lab has none unless something went wrong: nodes mount in
// namespaces of their own.
func (l lab) mounts() ([]string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading mounts: %w", err)
	}
	return mountsBelow(string(text), l.state), nil
}

// mountsBelow reads mount points below a folder from mountinfo (proc(5)): the fifth field, the innermost last.
func mountsBelow(mountinfo, folder string) []string {
	var found []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) > 4 && strings.HasPrefix(fields[4], folder+"/") {
			found = append(found, fields[4])
		}
	}
	return found
}

func (l lab) unmount() error {
	mounts, err := l.mounts()
	if err != nil {
		return err
	}
	for i := len(mounts) - 1; i >= 0; i-- {
		if err := syscall.Unmount(mounts[i], syscall.MNT_DETACH); err != nil {
			return fmt.Errorf("unmounting %s: %w", mounts[i], err)
		}
	}
	return nil
}

// leftovers lists whatever the lab has on this machine, one line each; none when it is down.
func (l lab) leftovers() ([]string, error) {
	var found []string
	pids, err := l.strays()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		found = append(found, fmt.Sprintf("process %d", pid))
	}
	namespaces, err := l.namespaces()
	if err != nil {
		return nil, err
	}
	for _, name := range namespaces {
		found = append(found, "network namespace "+name)
	}
	mounts, err := l.mounts()
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		found = append(found, "mount "+m)
	}
	groups, err := cgroupsOf(l.cgroup(""))
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		found = append(found, "cgroup "+g)
	}
	if _, err := os.Stat(l.state); err == nil {
		found = append(found, "state folder "+l.state)
	}
	return found, nil
}
