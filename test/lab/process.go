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

// errEnded is said of a process that has ended and that its parent has not asked about yet: it still has a number, and does nothing.
var errEnded = errors.New("the process has ended")

// startOf returns when a process started, from its stat line. The command name, in parentheses, may hold anything.
func startOf(stat string) (uint64, error) {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, fmt.Errorf("%q is no stat line", stat)
	}
	// proc_pid_stat(5) counts from 1, and the name is its second: the state, its third, comes first here, and the start time, its 22nd, 19 later.
	fields := strings.Fields(stat[end+1:])
	const state, startTime = 0, 19
	if len(fields) <= startTime {
		return 0, fmt.Errorf("%q is too short for a stat line", stat)
	}
	if fields[state] == "Z" || fields[state] == "X" {
		return 0, errEnded
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

// strays are the lab's processes: those on its networks, those that run from its state folder, and its nodes' first processes, which
// have left both while they wait for the last of their node to die.
func (l lab) strays() ([]int, error) {
	networks, err := l.namespaces()
	if err != nil {
		return nil, err
	}
	on := membersOf(networks...)
	first := map[int]bool{}
	for _, h := range l.nodes() {
		if id, running := l.process(h.name); running {
			first[id.pid] = true
		}
	}
	return processesWhere(func(pid int) bool {
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)) // a process that ended meanwhile is no stray
		return first[pid] || on(pid) || strings.HasPrefix(exe, l.state+"/")
	})
}

// processesOf are a node's first process and all on its network, among them a first process that an interrupted start did not note.
func (l lab) processesOf(h host) ([]int, error) {
	id, running := l.process(h.name)
	on := membersOf(l.netns(h))
	return processesWhere(func(pid int) bool { return on(pid) || running && pid == id.pid })
}

// membersOf returns a function that says whether a process is in one of the named network namespaces.
func membersOf(names ...string) func(pid int) bool {
	links := map[string]bool{}
	for _, name := range names {
		var st syscall.Stat_t
		if err := syscall.Stat(filepath.Join(netnsFolder, name), &st); err == nil {
			links[fmt.Sprintf("net:[%d]", st.Ino)] = true
		}
	}
	return func(pid int) bool {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
		return err == nil && links[link]
	}
}

// processesWhere lists the processes of which something holds. This one and its parent, which may be a shell on the workstation, are
// not asked about.
func processesWhere(holds func(pid int) bool) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err == nil && pid != os.Getpid() && pid != os.Getppid() && holds(pid) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// endAll kills processes until the list is empty. With the first process of a PID namespace, every process in it dies.
func endAll(ctx context.Context, whose string, list func() ([]int, error)) error {
	return waitFor(ctx, "the end of "+whose, 30*time.Second, func(context.Context) (bool, error) {
		pids, err := list()
		if err != nil {
			return false, err
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return false, fmt.Errorf("killing process %d: %w", pid, err)
			}
		}
		return len(pids) == 0, nil
	})
}
