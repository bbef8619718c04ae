package responder

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/net/bpf"
)

// The offsets of an ARP frame (RFC 826), from the start of the Ethernet header.
const (
	offsetEtherType      = 12
	offsetTargetProtocol = 38
	etherTypeARP         = 0x0806
)

// packetTypeBroadcast is the highest packet type (packet(7)) that is for us: 0 is to this host, 1 is a broadcast. A frame of a VLAN that
// this host does not have arrives without its tag, and only as type 3, to another host.
const packetTypeBroadcast = 1

// filterLimit is how many prefixes the filter tells apart. Each takes four of the 4096 instructions that the kernel allows; beyond it the
// filter lets every ARP frame through, and they are told apart in the program.
const filterLimit = 1000

// filter is the program (classic BPF) that lets only ARP packets about addresses in the prefixes through to the socket: a storm of others
// costs nothing.
func filter(ifindex int, prefixes []netip.Prefix) ([]bpf.RawInstruction, error) {
	const accept = 0xffff
	program := []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtInterfaceIndex},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(ifindex), SkipTrue: 1}, //nolint:gosec // the kernel numbers interfaces from 1
		bpf.RetConstant{Val: 0},
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: packetTypeBroadcast, SkipFalse: 1},
		bpf.RetConstant{Val: 0},
		bpf.LoadAbsolute{Off: offsetEtherType, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: etherTypeARP, SkipTrue: 1},
		bpf.RetConstant{Val: 0},
	}
	if len(prefixes) > filterLimit {
		return assemble(append(program, bpf.RetConstant{Val: accept}))
	}
	for _, p := range prefixes {
		if !p.Addr().Is4() {
			continue
		}
		network := p.Masked().Addr().As4()
		mask := ^uint32(0) << (32 - p.Bits())
		program = append(program,
			bpf.LoadAbsolute{Off: offsetTargetProtocol, Size: 4},
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: binary.BigEndian.Uint32(network[:]), SkipFalse: 1},
			bpf.RetConstant{Val: accept},
		)
	}
	return assemble(append(program, bpf.RetConstant{Val: 0}))
}

func assemble(program []bpf.Instruction) ([]bpf.RawInstruction, error) {
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("assembling the packet filter: %w", err)
	}
	return raw, nil
}
