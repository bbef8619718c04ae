package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/lanyard-dev/lanyard/test/bench/failover/wire"
)

// sniffer receives whole frames of one interface, each with the time at which the kernel got it: how late this program reads them does not
// matter.
type sniffer struct {
	fd    int
	iface *net.Interface
}

// readPause is how long a read waits for a frame until it looks whether it should end.
const readPause = 100 * time.Millisecond

// receiveBuffer is room for seconds of frames, in bytes: the kernel's own limit is a fifth of one, for which a busy machine may hold up the program.
const receiveBuffer = 8 << 20

// sniff opens the socket, for frames of one protocol that a filter lets pass. A bridge's interface, listening to all, gets a copy of every
// frame that passes the bridge.
func sniff(name string, protocol uint16, filter []bpf.Instruction) (*sniffer, error) {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", name, err)
	}
	// Protocol 0: nothing comes in until the filter is set and the socket bound.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket: %w", err)
	}
	s := &sniffer{fd: fd, iface: iface}
	if err := s.set(protocol, filter); err != nil {
		return nil, errors.Join(fmt.Errorf("setting up the packet socket on %s: %w", name, err), unix.Close(fd))
	}
	return s, nil
}

func (s *sniffer) set(protocol uint16, filter []bpf.Instruction) error {
	program, err := bpf.Assemble(filter)
	if err != nil {
		return err
	}
	raw := make([]unix.SockFilter, len(program))
	for i, p := range program {
		raw[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	pause := unix.NsecToTimeval(readPause.Nanoseconds())
	return errors.Join(
		unix.SetsockoptSockFprog(s.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(raw)), Filter: &raw[0]}),
		unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer),
		unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &pause),
		unix.SetsockoptPacketMreq(s.fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &unix.PacketMreq{Ifindex: int32(s.iface.Index), Type: unix.PACKET_MR_PROMISC}),
		unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: bigEndian(protocol), Ifindex: s.iface.Index}),
	)
}

// bigEndian has a number's bytes in the network's order.
func bigEndian(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}

// frameSize is room for an ARP packet and for a reply to a probe.
const frameSize = 256

// run hands each frame that others sent to take, until the context ends, and closes the socket. The frame is valid until take returns.
func (s *sniffer) run(ctx context.Context, take func(at time.Time, frame []byte)) error {
	frame, control := make([]byte, frameSize), make([]byte, 128)
	for ctx.Err() == nil {
		n, oob, _, from, err := unix.Recvmsg(s.fd, frame, control, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENETDOWN) {
			continue
		}
		if err != nil {
			return errors.Join(fmt.Errorf("reading frames of %s: %w", s.iface.Name, err), unix.Close(s.fd))
		}
		if link, ok := from.(*unix.SockaddrLinklayer); ok && link.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		at, err := arrival(control[:oob])
		if err != nil {
			return errors.Join(err, unix.Close(s.fd))
		}
		take(at, frame[:n])
	}
	return unix.Close(s.fd)
}

// arrival reads the kernel's time out of a frame's control messages.
func arrival(control []byte) (time.Time, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading when a frame came: %w", err)
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
			seconds, nanoseconds := binary.NativeEndian.Uint64(m.Data), binary.NativeEndian.Uint64(m.Data[8:])
			return time.Unix(int64(seconds), int64(nanoseconds)), nil
		}
	}
	return time.Time{}, errors.New("the kernel does not say when a frame came")
}

// close closes the socket of a sniffer that does not run.
func (s *sniffer) close() error { return unix.Close(s.fd) }

// dropped is how many frames the kernel had no room for since the last time it was asked.
func (s *sniffer) dropped() int {
	stats, err := unix.GetsockoptTpacketStats(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0 // it is closed: nothing is lost any more
	}
	return int(stats.Drops)
}

// send puts a frame on the interface. One that its queue has no room for is left out.
func (s *sniffer) send(frame []byte) error {
	if _, err := unix.Write(s.fd, frame); !errors.Is(err, unix.ENOBUFS) {
		return err
	}
	return nil
}

// everyFrame is the filter that lets all pass.
var everyFrame = []bpf.Instruction{bpf.RetConstant{Val: frameSize}}

// onlyReplies is the filter for datagrams from the echo servers' port (RFC 791, RFC 768): those of connections would only be thrown away.
var onlyReplies = []bpf.Instruction{
	bpf.LoadAbsolute{Off: 23, Size: 1}, // the protocol
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_UDP, SkipTrue: 4},
	bpf.LoadMemShift{Off: 14},          // the length of the IPv4 header
	bpf.LoadIndirect{Off: 14, Size: 2}, // the source port behind it
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: wire.Port, SkipTrue: 1},
	bpf.RetConstant{Val: frameSize},
	bpf.RetConstant{Val: 0},
}
