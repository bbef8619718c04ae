package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// netnsFolder is where iproute2 keeps handles of named network namespaces.
const netnsFolder = "/run/netns"

// wire makes the LAN, and plugs in the workstation and the nodes that run. What is there is kept; a cable that was cut is mended.
func (l lab) wire(ctx context.Context) error {
	if err := l.namespace(ctx, l.lan()); err != nil {
		return err
	}
	if _, err := run(ctx, "ip", "-n", l.lan(), "link", "show", "br0"); err != nil {
		if err := ipAll(ctx, l.lan(), "link add br0 type bridge"); err != nil {
			return fmt.Errorf("making the LAN's bridge: %w", err)
		}
	}
	if err := ipAll(ctx, l.lan(), "link set br0 up"); err != nil {
		return err
	}
	if err := l.plug(ctx, workstationOps); err != nil {
		return err
	}
	for _, h := range l.nodes() {
		if !l.isOn(h.name) {
			continue
		}
		if err := l.plug(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

// namespace makes a named network namespace. A handle that leads nowhere, as after a restart of the machine, is made anew.
func (l lab) namespace(ctx context.Context, name string) error {
	handle := filepath.Join(netnsFolder, name)
	if _, err := os.Stat(handle); err == nil {
		if _, err := run(ctx, "ip", "-n", name, "link", "show", "lo"); err == nil {
			return nil
		}
		if _, err := run(ctx, "ip", "netns", "delete", name); err != nil {
			return fmt.Errorf("removing the dead namespace %s: %w", name, err)
		}
	}
	if _, err := run(ctx, "ip", "netns", "add", name); err != nil {
		return err
	}
	_, err := run(ctx, "ip", "-n", name, "link", "set", "lo", "up")
	return err
}

// plug gives a host its namespace, its cable, its address and its routes.
func (l lab) plug(ctx context.Context, h host) error {
	if err := l.namespace(ctx, l.netns(h)); err != nil {
		return err
	}
	if h.kernel == ownKernel {
		return l.plugKernel(ctx, h)
	}
	if _, err := run(ctx, "ip", "-n", l.netns(h), "link", "show", "eth0"); err != nil {
		if err := ipAll(ctx, l.lan(), fmt.Sprintf("link add %s type veth peer name eth0 address %s netns %s", cable(h), mac(h), l.netns(h))); err != nil {
			return fmt.Errorf("making the cable of %s: %w", h.name, err)
		}
	}
	if err := ipAll(ctx, l.lan(), "link set "+cable(h)+" master br0 up"); err != nil {
		return fmt.Errorf("plugging %s into the LAN: %w", h.name, err)
	}
	if err := ipAll(ctx, l.netns(h), addressing(h, l.nodes(), l.wanted().stack)...); err != nil {
		return fmt.Errorf("setting up the network of %s: %w", h.name, err)
	}
	return nil
}

// addressing gives a host its address on the LAN and its routes.
func addressing(h host, nodes []host, s stack) []string {
	commands := []string{fmt.Sprintf("addr replace %s/%d dev eth0", h.addr, lanPrefix.Bits()), "link set eth0 up"}
	if s == dualStack { // the addresses are the lab's own: nobody else can have them
		commands = append(commands, fmt.Sprintf("addr replace %s/%d dev eth0 nodad", h.addr6(), lanBits6))
	}
	return append(commands, routes(h, nodes, s)...)
}

// routes lead the other nodes' pod ranges to them, as a CNI plugin without an overlay would, and all else to a router that the LAN has
// only on paper: without a way out, the kernel refuses a connection to a ClusterIP before kube-proxy's rules can translate it.
func routes(h host, nodes []host, s stack) []string {
	commands := []string{"route replace default via " + router.String()}
	if s == dualStack {
		commands = append(commands, "-6 route replace default via "+router6.String())
	}
	for _, other := range nodes {
		if h.role == workstation || other.name == h.name {
			continue
		}
		commands = append(commands, fmt.Sprintf("route replace %s via %s", other.pods, other.addr))
		if s == dualStack {
			commands = append(commands, fmt.Sprintf("-6 route replace %s via %s", other.pods6(), other.addr6()))
		}
	}
	return commands
}

// unplug removes a host's network with all that its kernel knew: addresses, rules, connections. The cable goes first: whatever still
// holds the namespace, the host is silent.
func (l lab) unplug(ctx context.Context, h host) error {
	ports := []string{cable(h)}
	if h.kernel == ownKernel {
		ports = append(ports, consoleCable(h))
	}
	for _, port := range ports {
		if _, err := run(ctx, "ip", "-n", l.lan(), "link", "show", port); err != nil {
			continue
		}
		if err := ipAll(ctx, l.lan(), "link delete "+port); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(netnsFolder, l.netns(h))); err != nil {
		return nil
	}
	_, err := run(ctx, "ip", "netns", "delete", l.netns(h))
	return err
}

// ipAll runs `ip` commands in a namespace, one after the other.
func ipAll(ctx context.Context, netns string, commands ...string) error {
	for _, c := range commands {
		if _, err := run(ctx, "ip", append([]string{"-n", netns}, strings.Fields(c)...)...); err != nil {
			return err
		}
	}
	return nil
}

// unwire removes every network namespace of the lab; the cables go with them.
func (l lab) unwire(ctx context.Context) error {
	names, err := l.namespaces()
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := run(ctx, "ip", "netns", "delete", name); err != nil {
			return fmt.Errorf("removing namespace %s: %w", name, err)
		}
	}
	return nil
}

// namespaces are the lab's network namespaces that exist.
func (l lab) namespaces() ([]string, error) {
	entries, err := os.ReadDir(netnsFolder)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing network namespaces: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), l.name+".") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
