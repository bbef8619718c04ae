// Command echo is the backend of the failover benchmark: it answers each probe with itself and the name of its node, and serves a page.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/lanyard-dev/lanyard/test/bench/failover/wire"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := serve(ctx, os.Getenv("NODE_NAME")); err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		stop()
		os.Exit(1) //nolint:gocritic // the deferred stop has been called
	}
}

// serve answers datagrams and connections until the context ends.
func serve(ctx context.Context, node string) error {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{Port: wire.Port})
	if err != nil {
		return fmt.Errorf("opening the port for probes: %w", err)
	}
	page := &http.Server{Addr: ":" + strconv.Itoa(wire.Port), ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, node) })}
	defer context.AfterFunc(ctx, func() {
		_ = conn.Close() // which ends the answering
		_ = page.Close() // and the page
	})()
	failed := make(chan error, 1)
	go func() {
		failed <- page.ListenAndServe()
		_ = conn.Close() // without a page no answers
	}()
	err = answer(conn, node)
	if ctx.Err() != nil {
		return nil
	}
	_ = page.Close() // without answers no page
	return errors.Join(err, <-failed)
}

// answer answers probes until the socket is closed.
func answer(conn *net.UDPConn, node string) error {
	datagram := make([]byte, 64) // a probe is shorter
	for {
		n, from, err := conn.ReadFromUDPAddrPort(datagram)
		if err != nil {
			return fmt.Errorf("reading a probe: %w", err)
		}
		if reply, ok := wire.Echo(datagram[:n], node); ok {
			// Who gets no answer has lost a probe, which is what is measured.
			_, _ = conn.WriteToUDPAddrPort(reply, from)
		}
	}
}
