package main

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
)

// The versions of what a lab is made of. The cache is keyed by them.
const (
	kubernetesVersion = "v1.36.3"
	etcdVersion       = "v3.7.3"
	containerdVersion = "v2.4.2"
	// The tags that kubeadm of this version asks for.
	pauseTag = "3.10.2"
	etcdTag  = "3.6.8-0"
)

// role is what a host is for.
type role int

const (
	controlPlane role = iota
	worker
	workstation
)

// kernel is whose kernel a host runs on.
type kernel int

const (
	// sharedKernel is this machine's, which the host shares with all others.
	sharedKernel kernel = iota
	// ownKernel is one of the host's own: user-mode Linux, which is a program on this machine.
	ownKernel
)

// host is one machine on the lab's LAN: a network namespace, and for nodes a process tree and a disk of its own.
//
//	             192.168.1.0/24, bridge br0 in namespace NAME.lan
//	────┬──────────────────┬──────────────────┬──────────────────┬────
//	k8s-ops .122     k8s-cp-01 .125     k8s-wl-01 .128     k8s-wl-02 .129
//	                 pods 10.244.1.0/24 pods 10.244.2.0/24 pods 10.244.3.0/24
//
// Nodes with a kernel of their own follow from k8s-uml-01 .191, pods 10.244.61.0/24.
type host struct {
	name   string
	role   role
	kernel kernel
	addr   netip.Addr
	// pods is the node's pod range; not valid for the workstation.
	pods netip.Prefix
}

var (
	lanPrefix      = netip.MustParsePrefix("192.168.1.0/24")
	router         = netip.MustParseAddr("192.168.1.1")
	podRange       = netip.MustParsePrefix("10.244.0.0/16")
	workstationOps = host{name: "k8s-ops", role: workstation, addr: netip.MustParseAddr("192.168.1.122")}
)

// maxNodes and maxOwnKernels keep node addresses below the tutorial's pool, which starts at .200.
const (
	maxNodes      = 60
	maxOwnKernels = 3
)

// stack is which IP families a lab has.
type stack int

const (
	singleStack stack = iota // IPv4
	dualStack                // IPv4 and IPv6, in this order
)

// The IPv6 side of a dual-stack lab: unique local addresses (RFC 4193) that end as the IPv4 ones do.
var (
	router6       = netip.MustParseAddr("fd00:192:168:1::1")
	podRange6     = netip.MustParsePrefix("fd00:10:244::/48")
	serviceRange6 = netip.MustParsePrefix("fd00:10:96::/112")
)

const lanBits6 = 64

// addr6 is the host's IPv6 address: fd00:192:168:1::125 for 192.168.1.125.
func (h host) addr6() netip.Addr {
	a := h.addr.As4()
	return netip.MustParseAddr(fmt.Sprintf("fd00:%d:%d:%d::%d", a[0], a[1], a[2], a[3]))
}

// pods6 is the node's range for pods with IPv6: fd00:10:244:1::/64 for 10.244.1.0/24.
func (h host) pods6() netip.Prefix {
	a := h.pods.Addr().As4()
	return netip.PrefixFrom(netip.MustParseAddr(fmt.Sprintf("fd00:%d:%d:%d::", a[0], a[1], a[2])), 64)
}

// size is how many nodes a lab has, and of which kind.
type size struct {
	// nodes counts those on this machine's kernel, the control plane included.
	nodes int
	// ownKernels counts those with a kernel of their own, which are all workers.
	ownKernels int
	stack      stack
}

// nodesOf returns the nodes of a lab, named and numbered as in the tutorial: the control plane first. Those with a kernel of their own come
// last, with addresses that stay the same when other nodes are added.
func nodesOf(s size) ([]host, error) {
	if s.nodes < 1 || s.nodes > maxNodes {
		return nil, fmt.Errorf("--nodes is %d: a lab has 1 to %d nodes", s.nodes, maxNodes)
	}
	if s.ownKernels < 0 || s.ownKernels > maxOwnKernels {
		return nil, fmt.Errorf("--uml-nodes is %d: a lab has at most %d nodes with a kernel of their own", s.ownKernels, maxOwnKernels)
	}
	if s.ownKernels > 0 && s.stack == dualStack {
		return nil, errors.New("--dual-stack and --uml-nodes: nodes with a kernel of their own have IPv4 only")
	}
	nodes := []host{{name: "k8s-cp-01", role: controlPlane, addr: netip.MustParseAddr("192.168.1.125"), pods: podsOf(1)}}
	for i := 1; i < s.nodes; i++ {
		nodes = append(nodes, host{
			name: fmt.Sprintf("k8s-wl-%02d", i),
			role: worker,
			addr: netip.AddrFrom4([4]byte{192, 168, 1, byte(127 + i)}),
			pods: podsOf(i + 1),
		})
	}
	for i := 1; i <= s.ownKernels; i++ {
		nodes = append(nodes, host{
			name:   fmt.Sprintf("k8s-uml-%02d", i),
			role:   worker,
			kernel: ownKernel,
			addr:   netip.AddrFrom4([4]byte{192, 168, 1, byte(190 + i)}),
			pods:   podsOf(maxNodes + i),
		})
	}
	return nodes, nil
}

// podsOf returns the pod range of the i-th node: 10.244.i.0/24.
func podsOf(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(i), 0}), 24)
}

// lab is one lab on this machine. Several with different names can run side by side: each has a LAN of its own.
type lab struct {
	name string
	// state is the folder with everything that the lab keeps on disk while it is up.
	state string
	// cache is the folder with what is built once for all labs.
	cache string
}

// lan is the network namespace with the bridge.
func (l lab) lan() string { return l.name + ".lan" }

// netns is the network namespace of a host.
func (l lab) netns(h host) string { return l.name + "." + h.name }

// commonCgroup holds the cgroups of all labs.
const commonCgroup = "lanyard-lab"

// cgroup is the node's cgroup below each hierarchy's root; of no node, the lab's.
func (l lab) cgroup(node string) string { return filepath.Join(commonCgroup, l.name, node) }

// podsCgroup is the cgroup that a node's pods are below.
func (l lab) podsCgroup(h host) string {
	if h.kernel == ownKernel {
		return "" // the root: there is no other node
	}
	return l.cgroup(h.name)
}

// disk is the folder with the node's own files.
func (l lab) disk(node string) string { return filepath.Join(l.state, "nodes", node) }

// binary is this program, where the nodes find it while they live.
func (l lab) binary() string { return filepath.Join(l.state, "lab") }

// adminKubeconfig is the cluster's admin kubeconfig, for use on the LAN.
func (l lab) adminKubeconfig() string { return filepath.Join(l.state, "admin.conf") }

// bin is the cache's folder of programs, which is also what envtest wants as KUBEBUILDER_ASSETS.
func (l lab) bin() string {
	return filepath.Join(l.cache, "bin", "kubernetes-"+kubernetesVersion+"-etcd-"+etcdVersion+"-containerd-"+containerdVersion)
}

// images is the cache's folder of images, each one tar file.
func (l lab) images() string { return filepath.Join(l.bin(), "images") }

// cable is the bridge port that a host is plugged into. Interface names have at most 15 characters.
func cable(h host) string { return "v-" + h.name }

// mac is the hardware address of a host's eth0: locally administered, and the same whenever the host is turned on.
func mac(h host) string {
	a := h.addr.As4()
	return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", a[0], a[1], a[2], a[3])
}

// names lists hosts for a message.
func names(hosts []host) string {
	var all []string
	for _, h := range hosts {
		all = append(all, h.name)
	}
	return strings.Join(all, ", ")
}
