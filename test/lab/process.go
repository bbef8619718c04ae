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

// life says how far a process has come.
type life int

const (
	ended life = iota
	// ending: it was killed and does nothing any more, but is still there. A node's first process stays so until the last process of
	// its node is dead: pid_namespaces(7).
	ending
	running
)

// exiting is the kernel's PF_EXITING, a bit of proc_pid_stat(5)'s flags.
const exiting = 0x4

// parseStat returns when a process started, and how far it has come, from its stat line. The command name, in parentheses, may hold anything.
func parseStat(stat string) (start uint64, so life, err error) {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, ended, fmt.Errorf("%q is no stat line", stat)
	}
	// proc_pid_stat(5) counts from 1, and the name is its second: the state, its third, comes first here, the flags, its 9th, 6 later, and the
	// start time, its 22nd, 19 later.
	fields := strings.Fields(stat[end+1:])
	const state, flags, startTime = 0, 6, 19
	if len(fields) <= startTime {
		return 0, ended, fmt.Errorf("%q is too short for a stat line", stat)
	}
	if fields[state] == "Z" || fields[state] == "X" {
		return 0, ended, errEnded
	}
	bits, err := strconv.ParseUint(fields[flags], 10, 64)
	if err != nil {
		return 0, ended, fmt.Errorf("reading the flags of the stat line %q: %w", stat, err)
	}
	so = running
	if bits&exiting != 0 {
		so = ending
	}
	start, err = strconv.ParseUint(fields[startTime], 10, 64)
	return start, so, err
}

// identify returns the identity of a process that has not ended, and whether it still runs.
func identify(pid int) (identity, life, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return identity{}, ended, err
	}
	start, so, err := parseStat(string(stat))
	if err != nil {
		return identity{}, ended, err
	}
	return identity{pid: pid, start: start}, so, nil
}

// life says how far this very process has come.
func (id identity) life() life {
	now, so, err := identify(id.pid)
	if err != nil || now != id {
		return ended
	}
	return so
}

// pidFile is where the identity of a node's first process is kept.
func (l lab) pidFile(node string) string { return filepath.Join(l.disk(node), "pid") }

// process returns the node's first process, and how far that has come. The node is on while it runs.
func (l lab) process(node string) (identity, life) {
	text, err := os.ReadFile(l.pidFile(node))
	if err != nil {
		return identity{}, ended
	}
	id, err := parseIdentity(string(text))
	if err != nil {
		return identity{}, ended
	}
	return id, id.life()
}

// isOn says whether a node has power.
func (l lab) isOn(node string) bool {
	_, so := l.process(node)
	return so == running
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
		if id, so := l.process(h.name); so != ended {
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
	id, so := l.process(h.name)
	on := membersOf(l.netns(h))
	return processesWhere(func(pid int) bool { return on(pid) || so != ended && pid == id.pid })
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
