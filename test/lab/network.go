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

// wire makes the LAN and plugs the hosts in. What is there and works is kept.
func (l lab) wire(ctx context.Context, hosts []host) error {
	if err := l.namespace(ctx, l.lan()); err != nil {
		return err
	}
	if _, err := run(ctx, "ip", "-n", l.lan(), "link", "show", "br0"); err != nil {
		if err := ipAll(ctx, l.lan(),
			"link add br0 type bridge",
			"link set br0 up",
		); err != nil {
			return fmt.Errorf("making the LAN's bridge: %w", err)
		}
	}
	for _, h := range hosts {
		if err := l.plug(ctx, h); err != nil {
			return fmt.Errorf("plugging %s into the LAN: %w", h.name, err)
		}
	}
	for _, h := range hosts {
		if err := l.route(ctx, h, hosts); err != nil {
			return fmt.Errorf("routing pod ranges on %s: %w", h.name, err)
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

// plug gives a host its namespace, its cable and its address.
func (l lab) plug(ctx context.Context, h host) error {
	if err := l.namespace(ctx, l.netns(h)); err != nil {
		return err
	}
	if _, err := run(ctx, "ip", "-n", l.netns(h), "link", "show", "eth0"); err == nil {
		return nil
	}
	if err := ipAll(ctx, l.lan(),
		"link add "+cable(h)+" type veth peer name eth0 netns "+l.netns(h),
		"link set "+cable(h)+" master br0 up",
	); err != nil {
		return err
	}
	return ipAll(ctx, l.netns(h),
		fmt.Sprintf("addr add %s/%d dev eth0", h.addr, lanPrefix.Bits()),
		"link set eth0 up",
	)
}

// route leads the other nodes' pod ranges to them, as a CNI plugin without an overlay would, and all else to a router that the LAN has
// only on paper: without a way out, the kernel refuses a connection to a ClusterIP before kube-proxy's rules can translate it.
func (l lab) route(ctx context.Context, h host, hosts []host) error {
	if err := ipAll(ctx, l.netns(h), "route replace default via "+router.String()); err != nil {
		return err
	}
	if h.role == workstation {
		return nil
	}
	for _, other := range hosts {
		if other.role == workstation || other.name == h.name {
			continue
		}
		if err := ipAll(ctx, l.netns(h), fmt.Sprintf("route replace %s via %s", other.pods, other.addr)); err != nil {
			return err
		}
	}
	return nil
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
