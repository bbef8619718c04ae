package main

import (
	"context"
	"fmt"
	"net/netip"
)

// The second LAN has nothing but addresses of its own: the cluster, and the speakers' gossip, stay on the first one.
//
//	         10.1.0.0/24, bridge br1 in namespace NAME.lan
//	────┬──────────────────┬──────────────────┬──────────────────┬────
//	eth1 .122          eth1 .125          eth1 .128          eth1 .129
//	k8s-ops            k8s-cp-01          k8s-wl-01          k8s-wl-02
const (
	secondBridge = "br1"
	secondBits   = 24
)

// secondAddr is a host's address on the second LAN: it ends as the one on the first does.
func secondAddr(h host) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, 0, h.addr.As4()[3]}) }

// secondCable is the port of the second bridge that a host is plugged into.
func secondCable(h host) string { return "w-" + h.name }

// secondLAN plugs the workstation and the nodes that run into a second LAN. What is there is kept; a cable that was cut is mended.
func (l lab) secondLAN(ctx context.Context) error {
	nodes := l.nodes()
	if len(nodes) == 0 {
		return l.isDown()
	}
	if _, err := run(ctx, "ip", "-n", l.lan(), "link", "show", secondBridge); err != nil {
		if err := ipAll(ctx, l.lan(), "link add "+secondBridge+" type bridge"); err != nil {
			return fmt.Errorf("making the second LAN's bridge: %w", err)
		}
	}
	if err := ipAll(ctx, l.lan(), "link set "+secondBridge+" up"); err != nil {
		return err
	}
	for _, h := range append([]host{workstationOps}, nodes...) {
		if h.role != workstation && !l.isOn(h.name) || h.kernel == ownKernel {
			continue
		}
		if err := l.plugSecond(ctx, h); err != nil {
			return fmt.Errorf("plugging %s into the second LAN: %w", h.name, err)
		}
	}
	return nil
}

func (l lab) plugSecond(ctx context.Context, h host) error {
	if _, err := run(ctx, "ip", "-n", l.netns(h), "link", "show", "eth1"); err != nil {
		a := secondAddr(h).As4()
		if err := ipAll(ctx, l.lan(), fmt.Sprintf("link add %s type veth peer name eth1 address 02:00:%02x:%02x:%02x:%02x netns %s",
			secondCable(h), a[0], a[1], a[2], a[3], l.netns(h))); err != nil {
			return err
		}
	}
	if err := ipAll(ctx, l.lan(), "link set "+secondCable(h)+" master "+secondBridge+" up"); err != nil {
		return err
	}
	return ipAll(ctx, l.netns(h), fmt.Sprintf("addr replace %s/%d dev eth1", secondAddr(h), secondBits), "link set eth1 up")
}

// removeSecondLAN takes the second LAN away again.
func (l lab) removeSecondLAN(ctx context.Context) error {
	for _, h := range append([]host{workstationOps}, l.nodes()...) {
		if _, err := run(ctx, "ip", "-n", l.lan(), "link", "show", secondCable(h)); err != nil {
			continue
		}
		if err := ipAll(ctx, l.lan(), "link delete "+secondCable(h)); err != nil {
			return err
		}
	}
	if _, err := run(ctx, "ip", "-n", l.lan(), "link", "show", secondBridge); err != nil {
		return nil
	}
	return ipAll(ctx, l.lan(), "link delete "+secondBridge)
}
