package membership

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// datagramSize is room for the longest datagram of UDP.
const datagramSize = 65535

// readAgain is when a port that fails is read again.
const readAgain = 100 * time.Millisecond

// transport carries the gossip over UDP and TCP, on one port. memberlist's own takes 64 KiB of new memory for each datagram, of which a hundred
// bytes are used: in an idle group that makes the greater part of all the memory that a speaker asks for, and that has to be collected again.
type transport struct {
	at      netip.AddrPort
	udp     *net.UDPConn
	tcp     *net.TCPListener
	packets chan *memberlist.Packet
	streams chan net.Conn
	closed  chan struct{}
	closing sync.Once
	tasks   sync.WaitGroup
	log     interface{ Printf(format string, v ...any) }
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

// listen opens the port; 0 is one that is free.
func listen(at netip.AddrPort, log interface{ Printf(format string, v ...any) }) (*transport, error) {
	tcp, udp, err := open(at)
	for range freeTries {
		if at.Port() != 0 || err == nil {
			break
		}
		tcp, udp, err = open(at)
	}
	if err != nil {
		return nil, err
	}
	t := &transport{at: tcp.Addr().(*net.TCPAddr).AddrPort(), udp: udp, tcp: tcp, packets: make(chan *memberlist.Packet),
		streams: make(chan net.Conn), closed: make(chan struct{}), log: log}
	t.tasks.Go(t.receive)
	t.tasks.Go(t.accept)
	return t, nil
}

// freeTries is how many ports that TCP has free are tried with UDP too.
const freeTries = 10

// open opens a port for both protocols.
func open(at netip.AddrPort) (*net.TCPListener, *net.UDPConn, error) {
	tcp, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return nil, nil, err
	}
	udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(tcp.Addr().(*net.TCPAddr).AddrPort()))
	if err != nil {
		_ = tcp.Close()
		return nil, nil, err
	}
	return tcp, udp, nil
}

// receive hands datagrams on, each in memory of its own: memberlist keeps them.
func (t *transport) receive() {
	buffer := make([]byte, datagramSize)
	for {
		n, from, err := t.udp.ReadFromUDP(buffer)
		switch {
		case err != nil && t.wait(err):
			continue
		case err != nil:
			return
		case n == 0:
			continue
		}
		select {
		case t.packets <- &memberlist.Packet{Buf: bytes.Clone(buffer[:n]), From: from, Timestamp: time.Now()}:
		case <-t.closed:
			return
		}
	}
}

// accept hands connections on.
func (t *transport) accept() {
	for {
		c, err := t.tcp.Accept()
		switch {
		case err != nil && t.wait(err):
			continue
		case err != nil:
			return
		}
		select {
		case t.streams <- c:
		case <-t.closed:
			_ = c.Close()
			return
		}
	}
}

// wait lets a moment pass after an error, and says whether the port is still to be used.
func (t *transport) wait(err error) bool {
	select {
	case <-t.closed:
		return false
	default:
	}
	t.log.Printf("[ERR] membership: reading port %d: %v", t.at.Port(), err)
	select {
	case <-t.closed:
		return false
	case <-time.After(readAgain):
		return true
	}
}

// FinalAdvertiseAddr is where the others reach this member: at what it was told.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.at.Addr().AsSlice(), int(t.at.Port()), nil
}

// WriteTo sends a datagram, and says when.
func (t *transport) WriteTo(b []byte, to string) (time.Time, error) {
	at, err := netip.ParseAddrPort(to)
	if err != nil {
		return time.Time{}, fmt.Errorf("sending to a member: %w", err)
	}
	_, err = t.udp.WriteToUDPAddrPort(b, at)
	return time.Now(), err
}

// WriteToAddress is WriteTo, whatever the name.
func (t *transport) WriteToAddress(b []byte, to memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, to.Addr)
}

// DialTimeout connects to a member.
func (t *transport) DialTimeout(to string, timeout time.Duration) (net.Conn, error) {
	return (&net.Dialer{Timeout: timeout}).Dial("tcp", to)
}

// DialAddressTimeout is DialTimeout, whatever the name.
func (t *transport) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.DialTimeout(to.Addr, timeout)
}

// PacketCh is where datagrams come.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh is where connections come.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown closes the port. To close it again does nothing.
func (t *transport) Shutdown() (err error) {
	t.closing.Do(func() {
		close(t.closed)
		err = errors.Join(t.udp.Close(), t.tcp.Close())
		t.tasks.Wait()
	})
	return err
}
