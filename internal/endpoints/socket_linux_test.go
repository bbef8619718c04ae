package endpoints

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestTheKernelLooksAfterConnections: a host that loses its power closes nothing. The kernel's own probes tell, in seconds.
func TestTheKernelLooksAfterConnections(t *testing.T) {
	cluster := newAuthority(t)
	s := newAPIServer(t, "good", cluster.sign(t, inClusterName))
	port := netip.MustParseAddrPort(s.endpoint())
	d := &dialer{timing: defaultTiming}
	conn, err := d.connect(context.Background(), Endpoint{Host: port.Addr().String(), Port: port.Port()},
		&tls.Config{InsecureSkipVerify: true}) // it is about the socket
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*tls.Conn).NetConn().(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	err = raw.Control(func(fd uintptr) {
		for name, option := range map[string]int{"idle": unix.TCP_KEEPIDLE, "interval": unix.TCP_KEEPINTVL, "unacknowledged": unix.TCP_USER_TIMEOUT} {
			if got[name], err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"idle": 1, "interval": 1, "unacknowledged": int(3 * time.Second / time.Millisecond)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the socket's options, in seconds and milliseconds (-want +got):\n%s", diff)
	}
}
