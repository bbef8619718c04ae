package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// run runs a command to its end. The error holds what was run and the last lines that it printed.
func run(ctx context.Context, name string, args ...string) (string, error) {
	return runCommand(exec.CommandContext(ctx, name, args...))
}

// runCommand runs a command in a process group of its own, so that what it started ends with it when it is cut off.
func runCommand(cmd *exec.Cmd) (string, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("running %q: %w: %s", strings.Join(cmd.Args, " "), err, lastLines(out.String(), 12))
	}
	return out.String(), nil
}

// lastLines returns the end of a text.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// lastLinesOf returns the end of a log file, for an error message.
func lastLinesOf(file string, n int) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return lastLines(string(text), n)
}

// progress tells the person at the terminal what takes long.
type progress struct{ w io.Writer }

// step says what begins, runs it, and says how long it took.
func (p progress) step(what string, do func() error) error {
	begin := time.Now()
	fmt.Fprintf(p.w, "%s …\n", what)
	if err := do(); err != nil {
		return err
	}
	fmt.Fprintf(p.w, "%s: done in %s\n", what, time.Since(begin).Round(100*time.Millisecond))
	return nil
}

func (p progress) say(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }

// waitFor asks until the answer is yes, every 200 ms, or the time is over. The error says what was waited for, and what the last answer
// was.
func waitFor(ctx context.Context, what string, limit time.Duration, ask func(context.Context) (bool, error)) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		yes, err := ask(limited)
		if yes && err == nil {
			return nil
		}
		if err != nil && limited.Err() == nil {
			last = err
		}
		select {
		case <-limited.Done():
			switch {
			case ctx.Err() != nil:
				return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
			case last != nil:
				return fmt.Errorf("waiting %s for %s: %w", limit, what, last)
			default:
				return fmt.Errorf("waiting for %s: it did not come in %s", what, limit)
			}
		case <-tick.C:
		}
	}
}
