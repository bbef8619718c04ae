package speaker

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// ipvsLink is the interface on which kube-proxy's mode ipvs has every address of every Service.
const ipvsLink = "kube-ipvs0"

// oneWay are the kernel settings that kube-proxy turns on and never off: arp_ignore and arp_announce with strictARP, route_localnet in mode
// iptables.
var oneWay = []string{"arp_announce", "arp_ignore", "route_localnet"}

// kernel is what the speaker sees of kube-proxy's work in the node's kernel, without any right but to read.
type kernel struct {
	// linkAddresses is how many addresses kube-ipvs0 has; -1 when there is no such link.
	linkAddresses int
	// virtual are the addresses of the IPVS table's services, with repetitions.
	virtual []netip.Addr
	// sysctls are those of oneWay that are not 0, by their full names.
	sysctls map[string]string
	// answering are the interfaces on which the kernel answers ARP for addresses of other interfaces, in order.
	answering []string
}

// lookAtKernel reads /proc, and kube-ipvs0 by how many addresses it has. interfaces are those that a LAN may be on.
func lookAtKernel(proc fs.FS, linkAddresses func() (int, error), interfaces []string) (kernel, error) {
	k := kernel{sysctls: map[string]string{}}
	var err error
	if k.linkAddresses, err = linkAddresses(); err != nil {
		return kernel{}, fmt.Errorf("reading the addresses of %s: %w", ipvsLink, err)
	}
	table, err := proc.Open("net/ip_vs")
	if err == nil {
		k.virtual, err = virtualServices(table)
		err = errors.Join(err, table.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it is not there while ip_vs is not loaded
		return kernel{}, fmt.Errorf("reading the IPVS table: %w", err)
	}
	for _, name := range oneWay {
		value, err := ipv4Setting(proc, "all", name)
		if err != nil {
			return kernel{}, err
		}
		if value != "0" {
			k.sysctls["net.ipv4.conf.all."+name] = value
		}
	}
	if k.sysctls["net.ipv4.conf.all.arp_ignore"] != "" {
		return k, nil // the greater of all's and the interface's own counts (Linux, ip-sysctl)
	}
	for _, name := range slices.Sorted(slices.Values(interfaces)) {
		value, err := ipv4Setting(proc, name, "arp_ignore")
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has just gone
		case err != nil:
			return kernel{}, err
		case value == "0":
			k.answering = append(k.answering, name)
		}
	}
	return k, nil
}

// ipv4Setting reads a setting of an interface.
func ipv4Setting(proc fs.FS, iface, name string) (string, error) {
	value, err := fs.ReadFile(proc, path.Join("sys/net/ipv4/conf", iface, name))
	if err != nil {
		return "", fmt.Errorf("reading net.ipv4.conf.%s.%s: %w", iface, name, err)
	}
	return strings.TrimSpace(string(value)), nil
}

// ipvsLinkAddresses is how many addresses kube-ipvs0 has; -1 when there is no such link.
func ipvsLinkAddresses() (int, error) {
	links, err := net.Interfaces()
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(links, func(link net.Interface) bool { return link.Name == ipvsLink })
	if i < 0 {
		return -1, nil
	}
	addresses, err := links[i].Addrs()
	if err != nil {
		return 0, err
	}
	return len(addresses), nil
}

// virtualServices reads the addresses of the IPVS table's services from /proc/net/ip_vs, where they are written in hexadecimal digits.
func virtualServices(table io.Reader) ([]netip.Addr, error) {
	var all []netip.Addr
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || !slices.Contains([]string{"TCP", "UDP", "SCTP"}, fields[0]) {
			continue
		}
		if addr, ok := virtualAddress(fields[1]); ok {
			all = append(all, addr)
		}
	}
	return all, lines.Err()
}

// virtualAddress reads "0A600001:01BB" or "[fd00:0000:…:0001]:01BB".
func virtualAddress(text string) (netip.Addr, bool) {
	if inside, isIPv6 := strings.CutPrefix(text, "["); isIPv6 {
		inside, _, _ = strings.Cut(inside, "]")
		addr, err := netip.ParseAddr(inside)
		return addr, err == nil
	}
	digits, _, _ := strings.Cut(text, ":")
	bytes, err := hex.DecodeString(digits)
	if err != nil {
		return netip.Addr{}, false
	}
	return netip.AddrFromSlice(bytes)
}

// loose are the interfaces on which the node answers ARP for every address on kube-ipvs0, in the mode that runs.
func (k kernel) loose(mode string) []string {
	if v1alpha1.ProxyMode(mode) != v1alpha1.ProxyModeIPVS {
		return nil
	}
	return k.answering
}

// residue says what another mode than the one that runs has left in the kernel. services holds the cluster's ClusterIPs: of the IPVS table
// only those are kube-proxy's; keepalived, for example, has its own. It says nothing while it is not known which mode runs.
func (k kernel) residue(mode string, services map[netip.Addr]bool) []string {
	switch v1alpha1.ProxyMode(mode) {
	case v1alpha1.ProxyModeIPTables, v1alpha1.ProxyModeNFTables:
	default:
		return nil
	}
	var left []string
	if k.linkAddresses >= 0 {
		left = append(left, fmt.Sprintf("mode ipvs left the link %s with %d addresses, for which this node takes every packet itself: "+
			"run `ip link delete %s` on it, or reboot it", ipvsLink, k.linkAddresses, ipvsLink))
	}
	ours := 0
	for _, addr := range k.virtual {
		if services[addr] {
			ours++
		}
	}
	if ours > 0 {
		left = append(left, fmt.Sprintf("mode ipvs left %d virtual services for ClusterIPs in the kernel's IPVS table: run `kube-proxy --cleanup` "+
			"on the node and restart its kube-proxy, whose rules go with it, or reboot the node", ours))
	}
	return left
}
