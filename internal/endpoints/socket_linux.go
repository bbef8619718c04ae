package endpoints

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// giveUpAfter lets the kernel end a connection whose peer acknowledges nothing for that long (RFC 5482). Without it, retransmission goes on
// for a quarter of an hour, and holds keep-alive probes back as long.
func giveUpAfter(limit time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var refused error
		err := c.Control(func(fd uintptr) {
			refused = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
		})
		if err != nil {
			return err
		}
		return refused
	}
}
