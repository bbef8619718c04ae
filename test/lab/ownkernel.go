package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A node with a kernel of its own is user-mode Linux: a Linux kernel that runs as a program on this machine.
//
//	namespace NAME.lan                    the node's kernel
//	br0 ── v-NODE (tap) ───────────────── vec0 ─ port │ eth0   all that the node sees
//	       c-NODE (tap) 169.254.N.1 ───── vec1 .2     │        the console, which runs the lab's commands
//	                                      namespace cable
const (
	// kernelMemory is what the node sees. The machine gives it only what the node has touched.
	kernelMemory = "2G"
	// kernelNice is the kernel's nice value: the scheduler sees one process where another node has dozens, and this makes up for it.
	kernelNice = "-10"
	// diskImageSize is in bytes. The file is sparse.
	diskImageSize = 8 << 30
	// clockVariable tells the node's first process the machine's clock, in MHz.
	clockVariable = "LAB_CPU_MHZ"
)

// consoleCable is the tap device that the lab reaches the node's console through.
func consoleCable(h host) string { return "c-" + h.name }

// consoleLink returns the addresses of the link to a node's console: the LAN namespace's end and the node's.
func consoleLink(h host) (near, far netip.Addr) {
	last := h.addr.As4()[3]
	return netip.AddrFrom4([4]byte{169, 254, last, 1}), netip.AddrFrom4([4]byte{169, 254, last, 2})
}

// consoleBits is the length of the console link's prefix.
const consoleBits = 30

// diskImage holds the folders of a node that need a real file system.
func (l lab) diskImage(node string) string { return filepath.Join(l.disk(node), "disk.img") }

// addressingFile holds the commands for iproute2 that give the node its address and routes.
func (l lab) addressingFile(node string) string { return filepath.Join(l.disk(node), "addressing") }

// makeDiskImage makes an empty file system, unless the node has one.
func (l lab) makeDiskImage(ctx context.Context, h host) error {
	image := l.diskImage(h.name)
	if _, err := os.Stat(image); err == nil {
		return nil
	}
	partial := image + ".partial"
	if err := os.WriteFile(partial, nil, 0o600); err != nil {
		return fmt.Errorf("making the disk image of %s: %w", h.name, err)
	}
	if err := os.Truncate(partial, diskImageSize); err != nil {
		return fmt.Errorf("making the disk image of %s: %w", h.name, err)
	}
	if _, err := run(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", partial); err != nil {
		return fmt.Errorf("making the file system of %s: %w", h.name, err)
	}
	return os.Rename(partial, image)
}

// plugKernel gives a node with a kernel of its own its cable and the link to its console. The node's end is in its kernel, which reads
// addresses and routes when it boots, or is told when it runs.
func (l lab) plugKernel(ctx context.Context, h host) error {
	for _, tap := range []string{cable(h), consoleCable(h)} {
		if _, err := run(ctx, "ip", "-n", l.lan(), "link", "show", tap); err == nil {
			continue
		}
		if err := ipAll(ctx, l.lan(), "tuntap add "+tap+" mode tap"); err != nil {
			return fmt.Errorf("making the cable %s: %w", tap, err)
		}
	}
	near, _ := consoleLink(h)
	err := ipAll(ctx, l.lan(), "link set "+cable(h)+" master br0 up",
		fmt.Sprintf("addr replace %s/%d dev %s", near, consoleBits, consoleCable(h)), "link set "+consoleCable(h)+" up")
	if err != nil {
		return fmt.Errorf("plugging %s into the LAN: %w", h.name, err)
	}
	if err := makeFolders(l.disk(h.name)); err != nil {
		return err
	}
	commands := strings.Join(addressing(h, l.nodes(), singleStack), "\n") + "\n"
	if err := os.WriteFile(l.addressingFile(h.name), []byte(commands), 0o644); err != nil {
		return fmt.Errorf("writing the routes of %s: %w", h.name, err)
	}
	if !l.isOn(h.name) {
		return nil
	}
	if err := l.mendKernel(ctx, h); err != nil {
		return err
	}
	if _, err := l.in(ctx, h.name, "ip", "-batch", l.addressingFile(h.name)); err != nil {
		return fmt.Errorf("setting up the network of %s: %w", h.name, err)
	}
	return nil
}

// cutKernel pulls the cable. A tap device that is down does not tell user-mode Linux, so the node's carrier is taken on its own side. The
// tap itself stays up: the driver gives up on one that is not.
func (l lab) cutKernel(ctx context.Context, h host) error {
	if err := ipAll(ctx, l.lan(), "link set "+cable(h)+" nomaster"); err != nil {
		return err
	}
	_, err := l.in(ctx, h.name, "ip", "-n", cableNetwork, "link", "set", cablePort, "down")
	return err
}

// mendKernel gives the node its carrier back.
func (l lab) mendKernel(ctx context.Context, h host) error {
	_, err := l.in(ctx, h.name, "ip", "-n", cableNetwork, "link", "set", cablePort, "up")
	return err
}

// runKernel is all that a node with a kernel of its own is on this machine: it runs the kernel until that ends.
func (l lab) runKernel(h host) error {
	cpuinfo, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return fmt.Errorf("reading the machine's clock: %w", err)
	}
	lan, err := os.Open(filepath.Join(netnsFolder, l.lan())) // before the handles are dropped
	if err != nil {
		return fmt.Errorf("opening the LAN: %w", err)
	}
	defer lan.Close() //nolint:errcheck // only a handle
	if err := l.layOutMachine(h.name); err != nil {
		return fmt.Errorf("laying out the file system: %w", err)
	}
	if err := prefer(); err != nil {
		return err
	}
	processor, err := processorFor(h)
	if err != nil {
		return err
	}
	// The network's handle is the first of ExtraFiles.
	arguments := []string{"-n", kernelNice, "taskset", "--cpu-list", processor, "nsenter", "--net=/proc/self/fd/3", l.kernel()}
	cmd := exec.Command("nice", append(arguments, l.kernelArguments(h, clockOf(string(cpuinfo)))...)...)
	cmd.ExtraFiles = []*os.File{lan}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(l.serviceEnv(), "TMPDIR=/dev/shm") // the node's memory is a file there
	cmd.Dir = "/"
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running the kernel: %w", err)
	}
	return nil
}

// prefer gives this session the kernel's priority where the scheduler shares out processor time by sessions, and the priorities of processes
// count within theirs only: sched(7), "The autogroup feature".
func prefer() error {
	err := os.WriteFile("/proc/self/autogroup", []byte(kernelNice), 0o644)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("setting the kernel's priority: %w", err)
	}
	return nil
}

// processorFor chooses the processor on which a node's kernel runs with all its programs. They are processes of this machine that take turns
// at each system call and page fault: to wake one on another processor takes longer than what two at a time would gain.
func processorFor(h host) (string, error) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return "", fmt.Errorf("reading which processors may be used: %w", err)
	}
	return strconv.Itoa(nth(allowed, int(h.addr.As4()[3])%allowed.Count())), nil
}

// nth is the number of the n-th processor of a set, counted from 0.
func nth(set unix.CPUSet, n int) int {
	for cpu := 0; ; cpu++ {
		if set.IsSet(cpu) {
			if n == 0 {
				return cpu
			}
			n--
		}
	}
}

// kernelArguments is the kernel's command line. Its root is the machine's files as layOutMachine leaves them. What it does not know itself
// becomes the environment of its first process. With seccomp the node's programs could reach into its kernel's memory: they are our own.
func (l lab) kernelArguments(h host, clock string) []string {
	arguments := []string{
		"mem=" + kernelMemory, "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw",
		"ubd0=" + l.diskImage(h.name),
		"vec0:transport=tap,ifname=" + cable(h) + ",depth=64,gro=1",
		"vec1:transport=tap,ifname=" + consoleCable(h) + ",depth=64,gro=1",
		"seccomp=on", "uml_dir=/run/uml", "con=null", "con0=null,fd:1", "quiet",
		"console=tty0", // else the kernel adds it at the end, to its first process's arguments
		clockVariable + "=" + clock,
	}
	arguments = append(arguments, l.serviceEnv()...)
	return append(arguments, "init="+l.binary(), "--", "kernel-init", "--name", l.name, h.name)
}

// layOutMachine makes what the kernel sees of this machine: all of it can be read, and only the node's disk be written, which /etc, /opt and
// /var lead to, as on every node. This holds whatever a privileged pod does inside.
func (l lab) layOutMachine(node string) error {
	disk := l.disk(node)
	if err := dropHandles(); err != nil {
		return err
	}
	if err := protectMachine(disk); err != nil {
		return err
	}
	overlays, err := overlaysOf(disk, "etc", "opt", "var")
	if err != nil {
		return err
	}
	mounts := append([]mountPoint{
		{source: "proc", target: "/proc", kind: "proc"},
		{source: "tmpfs", target: "/run", kind: "tmpfs"},
		{source: "tmpfs", target: "/dev/shm", kind: "tmpfs"},
	}, overlays...)
	mounts = append(mounts, mountPoint{source: filepath.Join(l.bin(), "cni"), target: "/opt/cni/bin", flags: unix.MS_BIND},
		mountPoint{source: l.kernelModules(), target: "/lib/modules", flags: unix.MS_BIND})
	if err := makeFolders(filepath.Join(disk, "bound")); err != nil {
		return err
	}
	if err := mountAll(mounts); err != nil {
		return err
	}
	return writeNodeFiles(disk)
}

// protectMachine makes every mount of this namespace read-only but the node's disk.
func protectMachine(disk string) error {
	if err := unix.Mount(disk, disk, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("binding the node's disk: %w", err)
	}
	readOnly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &readOnly); err != nil {
		return fmt.Errorf("making the machine's files read-only: %w", err)
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, disk, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("making the node's disk writable: %w", err)
	}
	return nil
}

// clockOf reads the clock of the first processor, in MHz, from cpuinfo (proc(5)). A virtual machine may hide it: any number will do, since
// kubelet only wants to see one.
func clockOf(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) == "cpu MHz" {
			return strings.TrimSpace(value)
		}
	}
	return "1000.000"
}
