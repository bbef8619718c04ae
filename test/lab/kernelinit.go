package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lanyard-dev/lanyard/test/namespace"
)

const (
	// cableNetwork is the namespace, inside the node's kernel, with what the node does not see: the cable's other end and the console.
	cableNetwork = "cable"
	// cablePort is the other end of eth0. While it is down, eth0 has no carrier.
	cablePort = "port"
)

// kernelInit is the first process on a node's own kernel: it sets the kernel up as a distribution would, and then does what the first
// process of every node does.
func (l lab) kernelInit(ctx context.Context, node string) error {
	h, err := l.find(node)
	if err != nil {
		return err
	}
	if err := l.layOutKernel(node); err != nil {
		return fmt.Errorf("laying out the file system: %w", err)
	}
	if err := writeClock(os.Getenv(clockVariable)); err != nil {
		return err
	}
	if err := configureKernel(); err != nil {
		return err
	}
	if err := l.connect(ctx, h); err != nil {
		return fmt.Errorf("connecting the network: %w", err)
	}
	console := &service{name: "console", command: func() []string { return []string{l.binary(), "--name", l.name, "console", node} }}
	return l.supervise(node, time.Second, console) // more often would cost a fifth of the processor
}

// layOutKernel mounts what a kernel has to itself, and the disk. All else is as layOutMachine has prepared it.
func (l lab) layOutKernel(node string) error {
	bound := filepath.Join(l.disk(node), "bound")
	mounts := []mountPoint{
		{source: "proc", target: "/proc", kind: "proc"},
		{source: "sysfs", target: "/sys", kind: "sysfs"},
		{source: "cgroup2", target: cgroupRoot, kind: "cgroup2"},
		{source: "tmpfs", target: "/run", kind: "tmpfs"},
		{source: "devpts", target: "/dev/pts", kind: "devpts", options: "mode=620,ptmxmode=666"},
		{source: "tmpfs", target: "/dev/shm", kind: "tmpfs"},
		// The image outlives the kernel in the machine's memory: there is nothing that a barrier would protect it from.
		{source: "/dev/ubda", target: bound, kind: "ext4", flags: unix.MS_NOATIME, options: "barrier=0"},
	}
	if err := mountAll(mounts); err != nil {
		return err
	}
	binds, err := boundFolders(l.disk(node))
	if err != nil {
		return err
	}
	return mountAll(append(binds, mountPoint{target: "/", flags: unix.MS_SHARED | unix.MS_REC}))
}

// writeClock completes cpuinfo: kubelet does not start on a processor without a clock, and ps and top on one without a blank line at its end.
func writeClock(clock string) error {
	const shown, own = "/proc/cpuinfo", "/run/cpuinfo"
	cpuinfo, err := os.ReadFile(shown)
	if err != nil {
		return fmt.Errorf("reading %s: %w", shown, err)
	}
	if err := os.WriteFile(own, []byte(withClock(string(cpuinfo), clock)), 0o444); err != nil {
		return fmt.Errorf("writing %s: %w", own, err)
	}
	if err := unix.Mount(own, shown, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s on %s: %w", own, shown, err)
	}
	return nil
}

// withClock puts a clock, in MHz, behind the processor's model, and a blank line at the end.
func withClock(cpuinfo, clock string) string {
	var b strings.Builder
	for line := range strings.Lines(cpuinfo) {
		b.WriteString(line)
		if strings.HasPrefix(line, "model name") {
			fmt.Fprintf(&b, "cpu MHz\t\t: %s\n", clock)
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n\n"
}

// configureKernel bounds what a power cut takes: what was written to the disk and to logs is there after a second or two.
func configureKernel() error {
	for _, file := range []string{"/proc/sys/vm/dirty_expire_centisecs", "/proc/sys/vm/dirty_writeback_centisecs"} {
		if err := os.WriteFile(file, []byte("100"), 0o644); err != nil {
			return fmt.Errorf("having changes written sooner: %w", err)
		}
	}
	return nil
}

// connect makes eth0, and passes each frame between it and the kernel's cable to the LAN. eth0 is not that cable itself, since user-mode
// Linux always has a carrier, and a pulled cable is to be noticed.
func (l lab) connect(ctx context.Context, h host) error {
	if _, err := run(ctx, "ip", "netns", "add", cableNetwork); err != nil {
		return err
	}
	if err := namespace.Do(cableNetwork, silenceIPv6); err != nil {
		return err
	}
	_, far := consoleLink(h)
	commands := [][]string{
		words("ip link set lo up"),
		words("ip link set vec0 netns " + cableNetwork),
		words("ip link set vec1 netns " + cableNetwork),
		words("ip link add eth0 address " + mac(h) + " type veth peer name " + cablePort + " netns " + cableNetwork),
		words(fmt.Sprintf("ip -n %s addr add %s/%d dev vec1", cableNetwork, far, consoleBits)),
	}
	for _, device := range []string{"vec0", "vec1", cablePort} {
		commands = append(commands, words("ip -n "+cableNetwork+" link set "+device+" up"))
	}
	for from, to := range map[string]string{"vec0": cablePort, cablePort: "vec0"} {
		commands = append(commands, words("tc -n "+cableNetwork+" qdisc add dev "+from+" ingress"),
			words("tc -n "+cableNetwork+" filter add dev "+from+" ingress matchall action mirred egress redirect dev "+to))
	}
	commands = append(commands, []string{"ip", "-batch", l.addressingFile(h.name)})
	for _, c := range commands {
		if _, err := run(ctx, c[0], c[1:]...); err != nil {
			return err
		}
	}
	return nil
}

func words(command string) []string { return strings.Fields(command) }

// silenceIPv6 keeps the devices of this thread's network from speaking on the LAN in their own names.
func silenceIPv6() error {
	for _, which := range []string{"all", "default"} {
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+which+"/disable_ipv6", []byte("1"), 0o644); err != nil {
			return fmt.Errorf("turning IPv6 off in the cable: %w", err)
		}
	}
	return nil
}
