package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// nodeInit is a node's first process: it lays out the node's file system, then keeps containerd and kubelet running and reaps
// orphans, until the power is cut. For a node with a kernel of its own, that kernel is all that it runs.
func (l lab) nodeInit(node string) error {
	h, err := l.find(node)
	if err != nil {
		return err
	}
	if h.kernel == ownKernel {
		return l.runKernel(h)
	}
	if err := l.layOut(node); err != nil {
		return fmt.Errorf("laying out the file system: %w", err)
	}
	return l.supervise(node, 250*time.Millisecond)
}

// supervise names the node and keeps its services running, and more besides. It looks at their configuration after each pause.
func (l lab) supervise(node string, pause time.Duration, more ...*service) error {
	if err := unix.Sethostname([]byte(node)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("turning forwarding on: %w", err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0o644); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("turning forwarding of IPv6 on: %w", err)
	}
	if err := os.MkdirAll("/run/containerd", 0o711); err != nil {
		return fmt.Errorf("making the runtime's folder: %w", err)
	}
	s := supervisor{disk: l.disk(node), env: l.serviceEnv(), pause: pause}
	s.services = []*service{
		{name: "containerd", command: func() []string {
			return []string{filepath.Join(l.bin(), "containerd"), "--config", filepath.Join(l.disk(node), "containerd.toml")}
		}},
		{name: "kubelet", command: func() []string { return kubeletCommand(l.bin()) }, version: kubeletConfiguration},
	}
	s.services = append(s.services, more...)
	return s.run()
}

// serviceEnv is the environment of a node's services, and of this program among them.
func (l lab) serviceEnv() []string {
	return []string{"PATH=" + l.path(), "HOME=/root", "XDG_CACHE_HOME=" + filepath.Dir(l.cache)}
}

// mountPoint is one mount of a node's layout.
type mountPoint struct {
	source, target, kind string
	flags                uintptr
	options              string
}

// layOut gives the node its own view of the machine's files: /etc, /opt and /var are written to the node's disk, so that nothing of the
// machine is touched, and what needs a real file system below it is bound from there.
func (l lab) layOut(node string) error {
	disk := l.disk(node)
	cgroups := filepath.Join(disk, "cgroup")
	mounts := []mountPoint{
		{source: cgroupRoot, target: cgroups, flags: unix.MS_BIND | unix.MS_REC},
		{source: "proc", target: "/proc", kind: "proc"},
		{source: "sysfs", target: "/sys", kind: "sysfs"},
		{source: cgroups, target: cgroupRoot, flags: unix.MS_BIND | unix.MS_REC},
		{source: "tmpfs", target: "/run", kind: "tmpfs"},
	}
	overlays, err := overlaysOf(disk, "etc", "opt", "var")
	if err != nil {
		return err
	}
	mounts = append(mounts, overlays...)
	binds, err := boundFolders(disk)
	if err != nil {
		return err
	}
	mounts = append(mounts, binds...)
	mounts = append(mounts, mountPoint{source: filepath.Join(l.bin(), "cni"), target: "/opt/cni/bin", flags: unix.MS_BIND},
		mountPoint{target: "/", flags: unix.MS_SHARED | unix.MS_REC})
	if err := makeFolders(cgroups); err != nil {
		return err
	}
	if err := dropHandles(); err != nil {
		return err
	}
	if err := mountAll(mounts); err != nil {
		return err
	}
	return writeNodeFiles(disk)
}

// overlaysOf makes folders of the machine the node's own: what is written there goes to the node's disk.
func overlaysOf(disk string, folders ...string) ([]mountPoint, error) {
	var mounts []mountPoint
	for _, folder := range folders {
		upper, work := filepath.Join(disk, folder), filepath.Join(disk, "work-"+folder)
		if err := makeFolders(upper, work); err != nil {
			return nil, err
		}
		mounts = append(mounts, mountPoint{source: "overlay", target: "/" + folder, kind: "overlay",
			options: fmt.Sprintf("lowerdir=/%s,upperdir=%s,workdir=%s", folder, upper, work)})
	}
	return mounts, nil
}

// boundFolders are the folders that need a real file system below them.
func boundFolders(disk string) ([]mountPoint, error) {
	var mounts []mountPoint
	for _, folder := range []string{"var/lib/kubelet", "var/lib/containerd", "var/lib/etcd", "var/lib/cni", "var/log"} {
		source := filepath.Join(disk, "bound", filepath.Base(folder))
		if err := makeFolders(source); err != nil {
			return nil, err
		}
		mounts = append(mounts, mountPoint{source: source, target: "/" + folder, flags: unix.MS_BIND})
	}
	return mounts, nil
}

func mountAll(mounts []mountPoint) error {
	for _, m := range mounts {
		if err := m.mount(); err != nil {
			return err
		}
	}
	return nil
}

// dropHandles lets go of the handles of network namespaces, this and other labs', that the node has got as copies of the machine's
// mounts. They would keep a namespace alive, and its cable with it, after it was deleted.
func dropHandles() error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	for { // there may be several mounts, one on another
		err := unix.Unmount(netnsFolder, unix.MNT_DETACH)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unmounting %s: %w", netnsFolder, err)
		}
	}
}

func (m mountPoint) mount() error {
	if err := makeFolders(m.target); err != nil {
		return err
	}
	if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.options); err != nil {
		return fmt.Errorf("mounting %q on %s: %w", m.source, m.target, err)
	}
	return nil
}

func makeFolders(folders ...string) error {
	for _, folder := range folders {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("making a folder: %w", err)
		}
	}
	return nil
}

// writeNodeFiles puts the node's own files below its /etc.
func writeNodeFiles(disk string) error {
	cni, err := os.ReadFile(filepath.Join(disk, "cni.conflist"))
	if err != nil {
		return fmt.Errorf("reading the pod network's configuration: %w", err)
	}
	if err := makeFolders("/etc/cni/net.d", "/etc/kubernetes"); err != nil {
		return err
	}
	// There is no name server on the LAN; kubelet wants the file.
	for file, content := range map[string][]byte{"/etc/cni/net.d/10-lab.conflist": cni, "/etc/resolv.conf": []byte("nameserver 192.168.1.1\n")} {
		_ = os.Remove(file) // it may be a link to a file that the node does not have
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return fmt.Errorf("writing a node's file: %w", err)
		}
	}
	return nil
}

// kubeletCommand is the kubelet's command line, as kubeadm's systemd unit has it; nil until kubeadm has written its configuration.
func kubeletCommand(bin string) []string {
	if kubeletConfiguration() == "" {
		return nil
	}
	command := []string{filepath.Join(bin, "kubelet"), "--config=/var/lib/kubelet/config.yaml", "--kubeconfig=/etc/kubernetes/kubelet.conf",
		"--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf"}
	flags, err := os.ReadFile("/var/lib/kubelet/kubeadm-flags.env")
	if err != nil {
		return command // kubeadm writes none when there is nothing to say
	}
	_, value, _ := strings.Cut(strings.TrimSpace(string(flags)), "=")
	return append(command, strings.Fields(strings.Trim(value, `"`))...)
}

// kubeletConfiguration identifies what kubelet would be started with; empty while something is missing. When it changes, as when kubeadm
// writes another kubeconfig, kubelet has to be started anew.
func kubeletConfiguration() string {
	config, err := os.ReadFile("/var/lib/kubelet/config.yaml")
	if err != nil {
		return ""
	}
	kubeconfig, err := os.ReadFile("/etc/kubernetes/kubelet.conf")
	if err != nil {
		if _, err := os.Stat("/etc/kubernetes/bootstrap-kubelet.conf"); err != nil {
			return ""
		}
		// kubelet itself replaces the bootstrap configuration by its own: no reason to start it anew.
		return fmt.Sprintf("bootstrap %x", sha256.Sum256(config))
	}
	return fmt.Sprintf("%x", sha256.Sum256(append(config, kubeconfig...)))
}

// service is a program that is kept running.
type service struct {
	name string
	// command returns what to run; nil while it cannot run yet.
	command func() []string
	// version, when set, identifies the configuration: the service is started anew when it changes.
	version func() string

	pid     int
	running string
	next    time.Time
}

// supervisor keeps services running and reaps every process of the node that nobody waits for.
type supervisor struct {
	disk     string
	env      []string
	services []*service
	// pause is the time between two looks at the services' configuration.
	pause time.Duration
}

// restartPause is the time between two starts of a service, as systemd's RestartSec.
const restartPause = time.Second

func (s supervisor) run() error {
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	tick := time.NewTicker(s.pause)
	defer tick.Stop()
	for {
		for _, svc := range s.services {
			if err := s.keep(svc, time.Now()); err != nil {
				return err
			}
		}
		select {
		case <-children:
			s.reap()
		case <-tick.C:
		}
	}
}

// keep starts a service that should run and does not, and stops one whose configuration has changed.
func (s supervisor) keep(svc *service, now time.Time) error {
	if svc.pid != 0 {
		if svc.version != nil && outdated(svc.running, svc.version()) {
			svc.running = svc.version()
			return unix.Kill(svc.pid, unix.SIGTERM)
		}
		return nil
	}
	command := svc.command()
	if command == nil || now.Before(svc.next) {
		return nil
	}
	log, err := os.OpenFile(filepath.Join(s.disk, svc.name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", svc.name, err)
	}
	defer log.Close() //nolint:errcheck // the child has its own handle
	process, err := os.StartProcess(command[0], command, &os.ProcAttr{
		Env: s.env, Files: []*os.File{nil, log, log},
	})
	if err != nil {
		return fmt.Errorf("starting %s: %w", svc.name, err)
	}
	svc.pid, svc.next = process.Pid, now.Add(restartPause)
	if svc.version != nil {
		svc.running = svc.version()
	}
	return nil
}

// outdated says whether a service that was started with one configuration has to be started anew for another. kubelet itself turns the
// bootstrap configuration into a final one.
func outdated(running, current string) bool {
	return current != "" && current != running && !strings.HasPrefix(running, "bootstrap ")
}

// reap collects every process that has ended, services and orphans alike.
func (s supervisor) reap() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if pid <= 0 || err != nil {
			return
		}
		for _, svc := range s.services {
			if svc.pid == pid {
				svc.pid = 0
			}
		}
	}
}
