package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// kubectl's output formats for parseReadiness.
const (
	nodesReady = `jsonpath={range .items[*]}{.metadata.name}{" "}{.status.conditions[?(@.type=="Ready")].status}{" "}` +
		`{.status.conditions[?(@.type=="Ready")].lastHeartbeatTime}{"\n"}{end}`
	podsReady = `jsonpath={range .items[*]}{.spec.nodeName}{" "}{.status.conditions[?(@.type=="Ready")].status}{" "}` +
		`{.status.containerStatuses[0].state.running.startedAt}{"\n"}{end}`
)

// readiness is what the API server says about a node, or a pod on it: a condition, and when it was last true to life.
type readiness struct {
	node, ready string
	seen        time.Time
}

// parseReadiness reads lines of node, condition and time. A line without all three is about something that has not begun yet.
func parseReadiness(listing string) []readiness {
	var all []readiness
	for line := range strings.Lines(listing) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		seen, err := time.Parse(time.RFC3339, fields[2])
		if err != nil {
			continue
		}
		all = append(all, readiness{node: fields[0], ready: fields[1], seen: seen})
	}
	return all
}

// notReady lists the nodes that are not said to be ready, or were last said so before they were turned on: what was true before a power
// cut stays in the API until somebody corrects it.
func notReady(turnedOn map[string]time.Time, said []readiness) []string {
	var missing []string
	for node, on := range turnedOn {
		on = on.Truncate(time.Second) // the API's times have no fractions
		if !slices.ContainsFunc(said, func(r readiness) bool { return r.node == node && r.ready == "True" && !r.seen.Before(on) }) {
			missing = append(missing, node)
		}
	}
	slices.Sort(missing)
	return missing
}

// awaitReady waits until every node is Ready and has a running kube-proxy.
func (l lab) awaitReady(ctx context.Context, nodes []host) error {
	turnedOn := map[string]time.Time{}
	for _, h := range nodes {
		noted, err := os.Stat(l.pidFile(h.name))
		if err != nil {
			return fmt.Errorf("finding out when %s was turned on: %w", h.name, err)
		}
		turnedOn[h.name] = noted.ModTime()
	}
	return waitFor(ctx, "nodes to be Ready and kube-proxy to run on each", 5*time.Minute, func(ctx context.Context) (bool, error) {
		out, err := l.kubectl(ctx, "get", "nodes", "-o", nodesReady)
		if err != nil {
			return false, err
		}
		if missing := notReady(turnedOn, parseReadiness(out)); len(missing) > 0 {
			return false, fmt.Errorf("not Ready: %s", strings.Join(missing, ", "))
		}
		out, err = l.kubectl(ctx, "-n", "kube-system", "get", "pods", "-l", "k8s-app=kube-proxy", "-o", podsReady)
		if err != nil {
			return false, err
		}
		if missing := notReady(turnedOn, parseReadiness(out)); len(missing) > 0 {
			return false, fmt.Errorf("kube-proxy is not ready on %s", strings.Join(missing, ", "))
		}
		return true, nil
	})
}
