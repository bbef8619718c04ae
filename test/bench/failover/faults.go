package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// fault is something that happens to the node that answers for an address.
type fault struct {
	name string
	// inflict does it, and heal undoes it; a fault that heals by itself has none.
	inflict, heal func(ctx context.Context, b *bench, victim string) error
	// settled says whether what was begun is over; nil when inflict does all.
	settled func(ctx context.Context, b *bench) error
	// atLeast is how long is watched: the others need a while to notice, and the fault does harm only when they act on it. atMost bounds it.
	atLeast, atMost time.Duration
}

// The faults that are counted differently.
const (
	silentCut = "cut-silent"
	control   = "control"
)

const (
	// atOnce is for faults whose harm begins with them.
	atOnce = 3 * time.Second
	// noticed is for faults whose harm begins when others notice: the slowest detector here takes seven seconds.
	noticed = 12 * time.Second
	most    = 60 * time.Second
	// mostRolled bounds a rollout, which restarts one speaker after the other.
	mostRolled = 3 * time.Minute
	// mostCold bounds the control: a client's neighbour entry is believed for 15 to 45 s, then asked for again for 8 s.
	mostCold = 90 * time.Second
)

var everyFault = []fault{
	{name: "cut", inflict: cut, heal: mend, atLeast: atOnce, atMost: most},
	{name: silentCut, inflict: cutSilently, heal: mend, atLeast: atOnce, atMost: most},
	{name: "kill-speaker", inflict: sendSignal("KILL"), settled: speakersReady, atLeast: noticed, atMost: most},
	{name: "stop-speaker", inflict: sendSignal("STOP"), heal: sendSignal("CONT"), atLeast: noticed, atMost: most},
	{name: "term-speaker", inflict: deletePod, settled: speakersReady, atLeast: noticed, atMost: most},
	{name: "kill-node", inflict: kill, heal: start, atLeast: atOnce, atMost: most},
	{name: "partition", inflict: partition, heal: join, atLeast: noticed, atMost: most},
	{name: "drain", inflict: exclude, heal: include, atLeast: noticed, atMost: most},
	{name: "rollout", inflict: restartAll, settled: speakersReady, atLeast: noticed, atMost: mostRolled},
	{name: control, inflict: cutUnannounced, heal: mendAnnounced, atLeast: atOnce, atMost: mostCold},
}

func cut(ctx context.Context, b *bench, victim string) error {
	_, err := b.lab.verb(ctx, "cut", victim)
	return err
}

func cutSilently(ctx context.Context, b *bench, victim string) error {
	_, err := b.lab.verb(ctx, "cut", "--silent", victim)
	return err
}

func mend(ctx context.Context, b *bench, victim string) error {
	_, err := b.lab.verb(ctx, "mend", victim)
	return err
}

func kill(ctx context.Context, b *bench, victim string) error {
	_, err := b.lab.verb(ctx, "kill", victim)
	return err
}

// turnOn turns a node on, and does not wait until the cluster knows it.
func turnOn(ctx context.Context, b *bench, victim string) error {
	if _, err := b.lab.verb(ctx, "start", victim); err != nil {
		return err
	}
	return b.widen(ctx, victim)
}

func start(ctx context.Context, b *bench, victim string) error {
	if err := turnOn(ctx, b, victim); err != nil {
		return err
	}
	_, err := b.lab.kubectl(ctx, "wait", "--for=condition=Ready", "--timeout=150s", "node/"+victim)
	return err
}

// sendSignal sends a signal to the speaker of a node. A node has processes of its own: no other speaker is among them.
func sendSignal(name string) func(context.Context, *bench, string) error {
	return func(ctx context.Context, b *bench, victim string) error {
		pids, err := b.lab.on(ctx, victim, "pgrep", "-x", "speaker")
		if err != nil {
			return fmt.Errorf("finding the speaker: %w", err)
		}
		_, err = b.lab.on(ctx, victim, append([]string{"kill", "-" + name}, strings.Fields(pids)...)...)
		return err
	}
}

// deletePod ends a speaker as an upgrade does: it is asked to, and a new one is started.
func deletePod(ctx context.Context, b *bench, victim string) error {
	_, err := b.lab.kubectl(ctx, "-n", b.product.namespace, "delete", "pod", "--wait=false", "--field-selector=spec.nodeName="+victim,
		"--selector="+b.product.selector)
	return err
}

func restartAll(ctx context.Context, b *bench, _ string) error {
	_, err := b.lab.kubectl(ctx, "-n", b.product.namespace, "rollout", "restart", "daemonset/"+b.product.daemonSet)
	return err
}

const excludeLabel = "node.kubernetes.io/exclude-from-external-load-balancers"

func exclude(ctx context.Context, b *bench, victim string) error {
	_, err := b.lab.kubectl(ctx, "label", "node", victim, "--overwrite", excludeLabel+"=")
	return err
}

func include(ctx context.Context, b *bench, victim string) error {
	_, err := b.lab.kubectl(ctx, "label", "node", victim, excludeLabel+"-")
	return err
}

// partition keeps the speaker of a node from hearing the others and from being heard by them. All else passes, ARP too.
func partition(ctx context.Context, b *bench, victim string) error {
	drop := fmt.Sprintf("meta l4proto { tcp, udp } th dport %d drop", b.product.port)
	_, err := b.lab.on(ctx, victim, "nft", "add table inet bench; "+
		"add chain inet bench in { type filter hook input priority 0; }; add rule inet bench in "+drop+"; "+
		"add chain inet bench out { type filter hook output priority 0; }; add rule inet bench out "+drop)
	return err
}

func join(ctx context.Context, b *bench, victim string) error {
	_, err := b.lab.on(ctx, victim, "nft", "add table inet bench; delete table inet bench") // it may not be there
	return err
}

// cutUnannounced cuts silently while the switch passes no announcement of the address on: neither one that asks for the sender's own address,
// nor a question from it. Answers pass. So the client finds the new owner only when it asks again by itself: if the gap does not show that, the
// measurement is wrong.
func cutUnannounced(ctx context.Context, b *bench, victim string) error {
	if _, err := b.lab.onLAN(ctx, "nft", fmt.Sprintf("add table bridge bench; add chain bridge bench pass { type filter hook forward priority 0; }; "+
		"add rule bridge bench pass arp saddr ip %[1]s arp daddr ip %[1]s drop; "+
		"add rule bridge bench pass arp saddr ip %[1]s arp operation request drop", b.vip)); err != nil {
		return fmt.Errorf("keeping announcements back: %w", err)
	}
	return cutSilently(ctx, b, victim)
}

func mendAnnounced(ctx context.Context, b *bench, victim string) error {
	if _, err := b.lab.onLAN(ctx, "nft", "add table bridge bench; delete table bridge bench"); err != nil {
		return fmt.Errorf("letting announcements pass again: %w", err)
	}
	return mend(ctx, b, victim)
}
