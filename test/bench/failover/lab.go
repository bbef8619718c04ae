package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// lab turns the lab's knobs: cables, power, programs on nodes.
type lab struct{ program, name, root string }

// verb runs a verb of the lab, and returns what it printed.
func (l lab) verb(ctx context.Context, args ...string) (string, error) {
	return l.command(ctx, "", l.program, append([]string{"--name", l.name}, args...)...)
}

// on runs a command on a node.
func (l lab) on(ctx context.Context, host string, args ...string) (string, error) {
	return l.verb(ctx, append([]string{"exec", host, "--"}, args...)...)
}

// onLAN runs a command where the LAN's switch is.
func (l lab) onLAN(ctx context.Context, args ...string) (string, error) {
	return l.command(ctx, "", "ip", append([]string{"netns", "exec", l.lan()}, args...)...)
}

// lan is the network namespace with the LAN's bridge.
func (l lab) lan() string { return l.name + ".lan" }

// read returns a file of the project.
func (l lab) read(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(l.root, name))
	return string(text), err
}

// kubectl does what a person types.
func (l lab) kubectl(ctx context.Context, args ...string) (string, error) {
	return l.command(ctx, "", "kubectl", args...)
}

// apply applies manifests.
func (l lab) apply(ctx context.Context, manifests string) error {
	_, err := l.command(ctx, manifests, "kubectl", "apply", "--server-side", "--force-conflicts", "-f", "-")
	return err
}

// commandLimit bounds every command: the slowest waits for the pods of a node that is gone.
const commandLimit = 3 * time.Minute

func (l lab) command(ctx context.Context, input, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = l.root
	if input != "" {
		cmd.Stdin = strings.NewReader(input)
	}
	printed, err := cmd.CombinedOutput()
	if err != nil {
		return string(printed), fmt.Errorf("running %s %s: %w: %s", name, strings.Join(args, " "), err, printed)
	}
	return string(printed), nil
}

// await asks until the answer is yes, every 100 ms, or the time is over. The error says what was waited for, and why the last answer was no.
func await(ctx context.Context, what string, limit time.Duration, ask func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(limited)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w, while %w", what, context.Cause(ctx), err)
		case <-limited.Done():
			return fmt.Errorf("waiting %s for %s: %w", limit, what, err)
		case <-tick.C:
		}
	}
}
