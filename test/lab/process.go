package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// identity tells a process from a later one with the same number: its number, and when it started, in clock ticks since boot
// (proc(5), stat field 22).
type identity struct {
	pid   int
	start uint64
}

func (id identity) String() string { return fmt.Sprintf("%d %d", id.pid, id.start) }

// parseIdentity reads what String wrote.
func parseIdentity(text string) (identity, error) {
	var id identity
	if _, err := fmt.Sscanf(text, "%d %d", &id.pid, &id.start); err != nil {
		return identity{}, fmt.Errorf("reading the process identity %q: %w", text, err)
	}
	return id, nil
}

// startOf returns when a process started, from its stat line. The command name, in parentheses, may hold anything.
func startOf(stat string) (uint64, error) {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, fmt.Errorf("%q is no stat line", stat)
	}
	fields := strings.Fields(stat[end+1:])
	const startTime = 22 - 3 // the first field behind the name is the third
	if len(fields) <= startTime {
		return 0, fmt.Errorf("%q is too short for a stat line", stat)
	}
	return strconv.ParseUint(fields[startTime], 10, 64)
}

// identify returns the identity of a living process.
func identify(pid int) (identity, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return identity{}, err
	}
	start, err := startOf(string(stat))
	if err != nil {
		return identity{}, err
	}
	return identity{pid: pid, start: start}, nil
}

// alive says whether this very process still runs.
func (id identity) alive() bool {
	now, err := identify(id.pid)
	return err == nil && now == id
}

// pidFile is where the identity of a node's first process is kept.
func (l lab) pidFile(node string) string { return filepath.Join(l.disk(node), "pid") }

// process returns the node's first process, and whether it runs.
func (l lab) process(node string) (identity, bool) {
	text, err := os.ReadFile(l.pidFile(node))
	if err != nil {
		return identity{}, false
	}
	id, err := parseIdentity(string(text))
	return id, err == nil && id.alive()
}

// killNode cuts a node's power: with its first process, every process of its PID namespace dies.
func (l lab) killNode(ctx context.Context, node string) error {
	id, running := l.process(node)
	if running {
		if err := syscall.Kill(id.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("killing %s: %w", node, err)
		}
	}
	return waitFor(ctx, "the end of "+node, 20*time.Second, func(context.Context) (bool, error) { return !id.alive(), nil })
}

// strays are processes that run in the lab's network namespaces or from its state folder, its nodes' first processes included. They
// are what a lab that was killed may leave.
func (l lab) strays() ([]int, error) {
	inodes := map[string]bool{}
	names, err := l.namespaces()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		var st syscall.Stat_t
		if err := syscall.Stat(filepath.Join(netnsFolder, name), &st); err == nil {
			inodes[fmt.Sprintf("net:[%d]", st.Ino)] = true
		}
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || pid == os.Getppid() {
			continue
		}
		netns, _ := os.Readlink(filepath.Join("/proc", e.Name(), "ns/net")) // a process that ended meanwhile is no stray
		exe, _ := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		if inodes[netns] || strings.HasPrefix(exe, l.state+"/") {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
