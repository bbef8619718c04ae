package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// find returns a host of the lab by name.
func (l lab) find(name string) (host, error) {
	hosts := append([]host{workstationOps}, l.nodes()...)
	var names []string
	for _, h := range hosts {
		if h.name == name {
			return h, nil
		}
		names = append(names, h.name)
	}
	return host{}, fmt.Errorf("lab %q has no host %q: it has %s", l.name, name, strings.Join(names, ", "))
}

// cut pulls a host's cable out of the switch. Silently, the host keeps its carrier, as behind a switch port that died.
func (l lab) cut(ctx context.Context, name string, silently bool) error {
	h, err := l.find(name)
	if err != nil {
		return err
	}
	if silently {
		return ipAll(ctx, l.lan(), "link set "+cable(h)+" nomaster")
	}
	return ipAll(ctx, l.lan(), "link set "+cable(h)+" down")
}

// mend plugs the cable in again.
func (l lab) mend(ctx context.Context, name string) error {
	h, err := l.find(name)
	if err != nil {
		return err
	}
	return ipAll(ctx, l.lan(), "link set "+cable(h)+" master br0 up")
}

// start turns a node on again that was killed.
func (l lab) start(ctx context.Context, name string) error {
	h, err := l.find(name)
	if err != nil {
		return err
	}
	if _, running := l.process(name); running {
		return nil
	}
	return l.boot(ctx, h)
}

// status writes one line for each host.
func (l lab) status(ctx context.Context, w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 4, 3, ' ', 0)
	fmt.Fprintln(table, "HOST\tADDRESS\tPODS\tPOWER\tCABLE\tREADY")
	for _, h := range append([]host{workstationOps}, l.nodes()...) {
		power, pods, ready := "-", "-", "-"
		if h.role != workstation {
			power, pods = "off", h.pods.String()
			if id, running := l.process(h.name); running {
				power = fmt.Sprintf("on (process %d)", id.pid)
			}
			out, err := l.kubectl(ctx, "get", "node", h.name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
			ready = out
			if err != nil {
				ready = "the API server does not answer"
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", h.name, h.addr, pods, power, l.cableState(ctx, h), ready)
	}
	return table.Flush()
}

func (l lab) cableState(ctx context.Context, h host) string {
	out, err := run(ctx, "ip", "-n", l.lan(), "-oneline", "link", "show", cable(h))
	switch {
	case err != nil:
		return "missing"
	case !strings.Contains(out, "master br0"), !strings.Contains(out, "state UP"):
		return "cut"
	default:
		return "in"
	}
}
