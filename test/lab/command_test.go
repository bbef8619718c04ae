package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// eventually polls until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if err := waitFor(t.Context(), what, 30*time.Second, func(context.Context) (bool, error) { return holds(), nil }); err != nil {
		t.Fatal(err)
	}
}

func TestAFailedCommandSaysWhatItWasAndWhatItSaidLast(t *testing.T) {
	out, err := run(t.Context(), "sh", "-c", "seq 20; exit 3")
	want := `running "sh -c seq 20; exit 3": exit status 3: 9` + "\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n20"
	if message(err) != want {
		t.Errorf("error is %q, want %q", message(err), want)
	}
	if !strings.HasPrefix(out, "1\n2\n") {
		t.Errorf("the output has lost its beginning: %q", out)
	}
}

// TestACommandThatIsCutOffEndsWithItsChildren: nsenter and `go build` do their work in children.
func TestACommandThatIsCutOffEndsWithItsChildren(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	file := filepath.Join(t.TempDir(), "pid")
	outcome := make(chan error)
	go func() {
		_, err := run(ctx, "sh", "-c", "sleep 600 & echo $! > "+file+".partial; mv "+file+".partial "+file+"; wait")
		outcome <- err
	}()
	var child identity
	eventually(t, "the child to run", func() bool {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		var pid int
		if _, err := fmt.Sscan(string(text), &pid); err != nil {
			t.Fatal(err)
		}
		child, _, err = identify(pid)
		return err == nil
	})
	cancel()
	if err := <-outcome; !errors.Is(err, context.Canceled) && !strings.Contains(message(err), "signal: killed") {
		t.Errorf("error is %v, want that it was cut off", err)
	}
	eventually(t, "the end of the child", func() bool { return child.life() == ended })
}

func TestWaitFor(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx context.Context
		ask func(context.Context) (bool, error)
		err string
	}{
		"it comes":         {ctx: t.Context(), ask: func(context.Context) (bool, error) { return true, nil }},
		"it does not come": {ctx: t.Context(), ask: func(context.Context) (bool, error) { return false, nil }, err: "waiting for tea: it did not come in 1ms"},
		"it does not come, and the reason is known": {ctx: t.Context(), ask: func(context.Context) (bool, error) { return false, errors.New("no water") },
			err: "waiting 1ms for tea: no water"},
		"somebody pressed Ctrl-C": {ctx: interrupted, ask: func(context.Context) (bool, error) { return false, nil }, err: "waiting for tea: context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := waitFor(tc.ctx, "tea", time.Millisecond, tc.ask); message(err) != tc.err {
				t.Errorf("error is %q, want %q", message(err), tc.err)
			}
		})
	}
}

func TestWithoutKey(t *testing.T) {
	got := withoutKey([]string{"PATH=/bin", "PATHS=/bin", "HOME=/root", "KUBECONFIG=x=y"}, "PATH", "KUBECONFIG")
	if diff := cmp.Diff([]string{"PATHS=/bin", "HOME=/root"}, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

// TestLockedOut holds that a second program waits for the first one, and says so.
func TestLockedOut(t *testing.T) {
	l := labWith(t, "1")
	unlock, err := l.lock(t.Context(), progress{&strings.Builder{}})
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	got := make(chan error)
	go func() {
		second, err := l.lock(t.Context(), progress{sayTo(said)})
		if err == nil {
			second()
		}
		got <- err
	}()
	if diff := cmp.Diff("waiting for another lab program, which holds "+filepath.Join(l.cache, "locks", "test")+"\n", <-said); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

type sayTo chan<- string

func (c sayTo) Write(text []byte) (int, error) {
	c <- string(text)
	return len(text), nil
}
