package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// find returns a host of the lab by name.
func (l lab) find(name string) (host, error) {
	nodes := l.nodes()
	if len(nodes) == 0 {
		return host{}, l.isDown()
	}
	hosts := append([]host{workstationOps}, nodes...)
	for _, h := range hosts {
		if h.name == name {
			return h, nil
		}
	}
	return host{}, fmt.Errorf("lab %q has no host %q: it has %s", l.name, name, names(hosts))
}

func (l lab) isDown() error { return fmt.Errorf("lab %q is down: start it with `lab up`", l.name) }

// findNode returns a node of the lab by name.
func (l lab) findNode(name string) (host, error) {
	h, err := l.find(name)
	if err == nil && h.role == workstation {
		err = fmt.Errorf("%s is the workstation: only nodes can be killed and started", name)
	}
	return h, err
}

// cut pulls a host's cable, that of the first LAN or of the second one, out of the switch. Silently, the host keeps its carrier, as behind a
// switch port that died.
func (l lab) cut(ctx context.Context, name string, silently, second bool) error {
	h, err := l.find(name)
	if err != nil {
		return err
	}
	switch {
	case second && silently:
		return ipAll(ctx, l.lan(), "link set "+secondCable(h)+" nomaster")
	case second:
		return ipAll(ctx, l.lan(), "link set "+secondCable(h)+" down")
	}
	if silently {
		return ipAll(ctx, l.lan(), "link set "+cable(h)+" nomaster")
	}
	if h.kernel == ownKernel {
		return l.cutKernel(ctx, h)
	}
	return ipAll(ctx, l.lan(), "link set "+cable(h)+" down")
}

// mend plugs the cable in again.
func (l lab) mend(ctx context.Context, name string, second bool) error {
	h, err := l.find(name)
	if err != nil {
		return err
	}
	if second {
		return ipAll(ctx, l.lan(), "link set "+secondCable(h)+" master "+secondBridge+" up")
	}
	if err := ipAll(ctx, l.lan(), "link set "+cable(h)+" master br0 up"); err != nil {
		return err
	}
	if h.kernel == ownKernel {
		return l.mendKernel(ctx, h)
	}
	return nil
}

// kill cuts a node's power.
func (l lab) kill(ctx context.Context, name string) error {
	h, err := l.findNode(name)
	if err != nil {
		return err
	}
	return l.powerOff(ctx, h)
}

// powerOff ends a node with all its processes, and with them all that its kernel knew. Without its network it answers no ping and forwards
// nothing, as a machine without power; and a kubelet that found the cgroups of dead pods would look for the pods, three seconds for each.
func (l lab) powerOff(ctx context.Context, h host) error {
	if err := thaw(l.cgroup(h.name)); err != nil {
		return err
	}
	if err := endAll(ctx, h.name, func() ([]int, error) { return l.processesOf(h) }); err != nil {
		return err
	}
	if err := l.unplug(ctx, h); err != nil {
		return fmt.Errorf("removing the network of %s: %w", h.name, err)
	}
	return removeCgroups(ctx, l.cgroup(h.name))
}

// start turns a node on again that was killed.
func (l lab) start(ctx context.Context, p progress, name string) error {
	h, err := l.findNode(name)
	if err != nil {
		return err
	}
	unlock, err := l.lock(ctx, p)
	if err != nil {
		return err
	}
	defer unlock()
	if l.isOn(name) {
		return nil
	}
	return l.boot(ctx, h)
}

// status writes one line for each host.
func (l lab) status(ctx context.Context, w io.Writer) error {
	nodes := l.nodes()
	if len(nodes) == 0 {
		return l.isDown()
	}
	conditions := map[string]string{}
	out, apiErr := l.kubectl(ctx, "get", "nodes", "--request-timeout=3s", "-o", nodesReady)
	for _, r := range parseReadiness(out) {
		conditions[r.node] = r.ready
	}
	table := tabwriter.NewWriter(w, 0, 4, 3, ' ', 0)
	fmt.Fprintln(table, "HOST\tADDRESS\tPODS\tPOWER\tCABLE\tREADY")
	for _, h := range append([]host{workstationOps}, nodes...) {
		power, pods, ready, plugged := "-", "-", "-", l.cableState(ctx, h)
		if h.role != workstation {
			pods, ready = h.pods.String(), cmp.Or(conditions[h.name], "not known")
			if apiErr != nil {
				ready = "the API server does not answer"
			}
			if id, so := l.process(h.name); so == running {
				power = fmt.Sprintf("on (process %d)", id.pid)
			} else {
				power, plugged = "off", "-"
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", h.name, h.addr, pods, power, plugged, ready)
	}
	return table.Flush()
}

func (l lab) cableState(ctx context.Context, h host) string {
	out, err := run(ctx, "ip", "-n", l.lan(), "-oneline", "link", "show", cable(h))
	switch {
	case err != nil:
		return "missing"
	case !strings.Contains(out, "master br0"), !strings.Contains(out, "LOWER_UP"):
		return "cut"
	default:
		return "in"
	}
}
