package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// openConsole serves a console on this machine until the test ends.
func openConsole(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- serveConsole(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the console ended with %v", err)
		}
	})
	return listener.Addr().String()
}

// sendOrder connects to a console and gives it an order.
func sendOrder(t *testing.T, address string, o order) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(conn).Encode(o); err != nil {
		t.Fatal(err)
	}
	return conn
}

// seen is what somebody sees of a command.
type seen struct {
	Out, Err string
	Status   int
}

func TestConsole(t *testing.T) {
	address := openConsole(t)
	for name, tc := range map[string]struct {
		order order
		want  seen
	}{
		"output, errors and exit status are told apart": {
			order: order{Command: []string{"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}},
			want:  seen{Out: "out\n", Err: "err\n", Status: 3},
		},
		"a command that is content": {order: order{Command: []string{"/bin/true"}}},
		"the environment is the caller's, and nothing else": {
			order: order{Command: []string{"/usr/bin/env"}, Env: []string{"A=b"}},
			want:  seen{Out: "A=b\n"},
		},
		"arguments arrive as they are":          {order: order{Command: []string{"/bin/echo", "a b", "$c", ""}}, want: seen{Out: "a b $c \n"}},
		"there is no input":                     {order: order{Command: []string{"/bin/cat"}}},
		"a signal ends it, as a shell tells it": {order: order{Command: []string{"/bin/sh", "-c", "kill -TERM $$"}}, want: seen{Status: 143}},
		"a program that does not exist": {
			order: order{Command: []string{"/no/such"}},
			want:  seen{Err: "lab: fork/exec /no/such: no such file or directory\n", Status: 127},
		},
		"what it leaves running is not waited for": {
			order: order{Command: []string{"/bin/sh", "-c", "sleep 5 & echo started"}},
			want:  seen{Out: "started\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			status, err := receive(sendOrder(t, address, tc.order), &out, &errs)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, seen{Out: out.String(), Err: errs.String(), Status: status}); diff != "" {
				t.Errorf("seen (-want +got):\n%s", diff)
			}
		})
	}
}

// slow takes its time with everything that it is given.
type slow struct{ bytes.Buffer }

func (s *slow) Write(p []byte) (int, error) {
	time.Sleep(10 * time.Millisecond) // the slowness is what is tested
	return s.Buffer.Write(p)
}

// TestALongOutputArrivesWhole: the command is long over when a slow reader takes the last of it.
func TestALongOutputArrivesWhole(t *testing.T) {
	const size = 8 << 20
	conn := sendOrder(t, openConsole(t), order{Command: []string{"/usr/bin/head", "-c", strconv.Itoa(size), "/dev/zero"}})
	var out slow
	status, err := receive(conn, &out, io.Discard)
	if err != nil || status != 0 || out.Len() != size {
		t.Errorf("%d bytes, status %d, error %v; want %d bytes", out.Len(), status, err, size)
	}
}

// TestTheEndOfTheConnectionEndsTheCommand: `lab exec` that is interrupted leaves nothing running, children included.
func TestTheEndOfTheConnectionEndsTheCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	conn := sendOrder(t, openConsole(t), order{Command: []string{"/bin/sh", "-c", fmt.Sprintf("sleep 600 & echo $! >%s; wait", file)}})
	var pid int
	eventually(t, "the command to run", func() bool {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the command's child to end", func() bool {
		_, _, err := identify(pid) // an orphan that nobody has reaped yet has ended too
		return errors.Is(err, errEnded) || errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH)
	})
}

// TestAConsoleThatFallsSilent: what came before is passed on, and the missing end is an error, not a success.
func TestAConsoleThatFallsSilent(t *testing.T) {
	var sent, out bytes.Buffer
	if err := (&frames{w: &sent}).write(streamOut, []byte("half")); err != nil {
		t.Fatal(err)
	}
	_, err := receive(&sent, &out, io.Discard)
	if !errors.Is(err, io.EOF) || out.String() != "half" {
		t.Errorf("output %q, error %v; want %q, %v", out.String(), err, "half", io.EOF)
	}
}

// FuzzReadFrame holds that whatever arrives, nothing beyond the longest payload is read into memory, and what was written is read again.
func FuzzReadFrame(f *testing.F) {
	f.Add(byte(streamOut), []byte("out"), []byte{})
	f.Add(byte(streamExit), []byte{3}, []byte{1, 0xff, 0xff, 0xff, 0xff})
	f.Add(byte(9), []byte{}, []byte{3, 0, 0, 0, 2, 0, 0})
	f.Fuzz(func(t *testing.T, kind byte, payload, junk []byte) {
		buffer := make([]byte, maxFrame)
		if _, got, err := readFrame(bytes.NewReader(junk), buffer); err == nil && len(got)+5 > len(junk) {
			t.Errorf("%d bytes were read from a frame of %d", len(got), len(junk))
		}
		valid := len(payload) <= maxFrame && (kind == 1 || kind == 2 || kind == 3 && len(payload) == 1)
		s, got, err := readFrame(bytes.NewReader(append(frame(stream(kind), len(payload)), payload...)), buffer)
		if valid != (err == nil) || valid && (s != stream(kind) || !bytes.Equal(got, payload)) {
			t.Errorf("a frame of kind %d with %q was read as %d, %q, error %v", kind, payload, s, got, err)
		}
	})
}
