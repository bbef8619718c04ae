package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lanyard-dev/lanyard/test/namespace"
)

// A kernel of its own cannot be entered from this machine, so such a node has a console: a process that runs commands for the lab. It
// listens on a link of its own, not on the LAN, so that it works on a node whose cable is cut. The lab sends an order as JSON; the console
// answers with frames, the last of which tells how the command ended. The end of the connection ends the command. There is no input.

// consolePort is the console's TCP port.
const consolePort = 1

// order is a command with its environment.
type order struct {
	Command []string `json:"command"`
	Env     []string `json:"env"`
}

// stream is what a frame carries.
type stream byte

const (
	streamOut  stream = 1
	streamErr  stream = 2
	streamExit stream = 3 // the exit status, one byte
)

// maxFrame is the longest payload of a frame, in bytes.
const maxFrame = 32 << 10

// Exit statuses as a shell has them.
const (
	statusNotRun = 127
	statusSignal = 128 // plus the signal's number
)

// exitStatus is how a command ended that ran and failed: the lab ends in the same way, and says nothing.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// frame is the header of a frame: what it carries, and the payload's length in network byte order.
func frame(s stream, length int) []byte {
	return binary.BigEndian.AppendUint32([]byte{byte(s)}, uint32(length))
}

// readFrame reads a frame, whose payload is valid until buffer, of maxFrame bytes, is used again.
func readFrame(r io.Reader, buffer []byte) (stream, []byte, error) {
	var header [5]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	s, length := stream(header[0]), binary.BigEndian.Uint32(header[1:])
	if s < streamOut || s > streamExit || length > maxFrame || s == streamExit && length != 1 {
		return 0, nil, fmt.Errorf("a frame of kind %d with %d bytes is none of a console's", s, length)
	}
	if _, err := io.ReadFull(r, buffer[:length]); err != nil {
		return 0, nil, fmt.Errorf("reading a frame: %w", err)
	}
	return s, buffer[:length], nil
}

// frames writes frames of several streams to one connection.
type frames struct {
	mu sync.Mutex
	w  io.Writer
}

func (f *frames) write(s stream, payload []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.w.Write(append(frame(s, len(payload)), payload...))
	return err
}

// console runs commands for the lab until its context ends.
func (l lab) console(ctx context.Context, node string) error {
	h, err := l.find(node)
	if err != nil {
		return err
	}
	_, far := consoleLink(h)
	var listener net.Listener
	err = namespace.Do(cableNetwork, func() (err error) {
		listener, err = new(net.ListenConfig).Listen(ctx, "tcp", netip.AddrPortFrom(far, consolePort).String())
		return err
	})
	if err != nil {
		return fmt.Errorf("opening the console: %w", err)
	}
	return serveConsole(ctx, listener)
}

// serveConsole takes orders, each on a connection.
func serveConsole(ctx context.Context, listener net.Listener) error {
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("waiting for orders: %w", err)
		}
		go func() {
			defer conn.Close() //nolint:errcheck // the other side has what it needs
			if err := obey(ctx, conn); err != nil {
				fmt.Fprintln(os.Stderr, "lab:", err)
			}
		}()
	}
}

// obey reads an order and runs its command.
func obey(ctx context.Context, conn net.Conn) error {
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return fmt.Errorf("reading an order: %w", err)
	}
	var o order
	if err := json.NewDecoder(conn).Decode(&o); err != nil {
		return fmt.Errorf("reading an order: %w", err)
	}
	if len(o.Command) == 0 {
		return errors.New("reading an order: it has no command")
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("reading an order: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go func() { // ends with the connection
		_, _ = io.Copy(io.Discard, conn)
		cancel()
	}()
	out := &frames{w: conn}
	status := runOrder(ctx, o, out)
	if ctx.Err() != nil {
		return nil // nobody wants to know any more
	}
	if err := out.write(streamExit, []byte{status}); err != nil {
		return fmt.Errorf("telling how %q ended: %w", o.Command[0], err)
	}
	return nil
}

// runOrder runs a command in a session of its own and returns how it ended. What it leaves running stays, as on a terminal, but is not
// listened to any more.
func runOrder(ctx context.Context, o order, out *frames) byte {
	cmd := exec.CommandContext(ctx, o.Command[0], o.Command[1:]...)
	cmd.Env, cmd.Dir = o.Env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	stdout, err := newTap(streamOut, out)
	if err != nil {
		return notRun(out, err)
	}
	stderr, err := newTap(streamErr, out)
	if err != nil {
		stdout.drain()
		return notRun(out, err)
	}
	cmd.Stdout, cmd.Stderr = stdout.w, stderr.w
	err = cmd.Start()
	if err == nil {
		err = cmd.Wait()
	}
	stdout.drain()
	stderr.drain()
	var failed *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &failed):
		return notRun(out, err)
	case failed.Sys().(syscall.WaitStatus).Signaled():
		return statusSignal + byte(failed.Sys().(syscall.WaitStatus).Signal())
	default:
		return byte(failed.ExitCode())
	}
}

func notRun(out *frames, err error) byte {
	_ = out.write(streamErr, []byte("lab: "+err.Error()+"\n")) // if it fails, the status will too
	return statusNotRun
}

// tap passes on what a command writes to a pipe.
type tap struct {
	r, w  *os.File
	ended atomic.Bool
	done  chan struct{}
}

// grace is how long a pipe is listened to that is open after its command has ended, because a process that it left has it.
const grace = 200 * time.Millisecond

func newTap(s stream, out *frames) (*tap, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	t := &tap{r: r, w: w, done: make(chan struct{})}
	go func() { // ends with the pipe, or when drain sets a deadline
		defer close(t.done)
		buffer := make([]byte, maxFrame)
		for {
			if t.ended.Load() && r.SetReadDeadline(time.Now().Add(grace)) != nil {
				return
			}
			n, err := r.Read(buffer)
			if n > 0 && out.write(s, buffer[:n]) != nil {
				return
			}
			if err != nil && (!errors.Is(err, os.ErrDeadlineExceeded) || n == 0) {
				return
			}
		}
	}()
	return t, nil
}

// drain passes on what is left in the pipe of a command that has ended, however slowly it is taken, and closes it.
func (t *tap) drain() {
	_ = t.w.Close() // the command has its own handle
	t.ended.Store(true)
	_ = t.r.SetReadDeadline(time.Now().Add(grace)) // a pipe takes deadlines
	<-t.done
	_ = t.r.Close()
}

// consoleExec has a node's console run a command, with this process's environment and output.
func (l lab) consoleExec(ctx context.Context, node string, command []string) error {
	conn, err := l.dialConsole(ctx, node)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // all has been read
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go func() { // a node without power does not close its connections
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if !l.isOn(node) {
					_ = conn.Close()
				}
			}
		}
	}()
	if err := json.NewEncoder(conn).Encode(order{Command: command, Env: os.Environ()}); err != nil {
		return fmt.Errorf("sending the command to %s: %w", node, err)
	}
	status, err := receive(conn, os.Stdout, os.Stderr)
	if err != nil {
		return fmt.Errorf("%s did not finish the command, it may have lost its power: %w", node, err)
	}
	if status != 0 {
		return exitStatus(status)
	}
	return nil
}

// receive passes on what a console sends, and returns the command's exit status.
func receive(r io.Reader, stdout, stderr io.Writer) (int, error) {
	buffer := make([]byte, maxFrame)
	for {
		s, payload, err := readFrame(r, buffer)
		if err != nil {
			return 0, err
		}
		switch s {
		case streamExit:
			return int(payload[0]), nil
		case streamOut:
			_, err = stdout.Write(payload)
		case streamErr:
			_, err = stderr.Write(payload)
		}
		if err != nil {
			return 0, fmt.Errorf("passing its output on: %w", err)
		}
	}
}

// dialConsole connects to a node's console, which a node that boots does not have yet.
func (l lab) dialConsole(ctx context.Context, node string) (net.Conn, error) {
	h, err := l.find(node)
	if err != nil {
		return nil, err
	}
	_, far := consoleLink(h)
	dialer := net.Dialer{Timeout: 2 * time.Second}
	var conn net.Conn
	var off error
	err = waitFor(ctx, "the console of "+node, time.Minute, func(ctx context.Context) (bool, error) {
		if !l.isOn(node) {
			off = fmt.Errorf("%s is off: turn it on with `lab start %s`", node, node)
			return true, nil
		}
		err := namespace.Do(l.lan(), func() (err error) {
			conn, err = dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(far, consolePort).String())
			return err
		})
		return err == nil, err
	})
	return conn, errors.Join(err, off)
}
