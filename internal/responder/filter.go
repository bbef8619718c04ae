package responder

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/net/bpf"
)

// The offsets of an ARP packet's fields (RFC 826), from the start of the Ethernet header.
const (
	offsetEtherType      = 12
	offsetTargetProtocol = 38
	etherTypeARP         = 0x0806
)

// packetTypeBroadcast is the highest packet type (packet(7)) that is for us: 0 is to this host, 1 is a broadcast. A frame of a VLAN that
// this host does not have arrives without its tag, and only as type 3, to another host.
const packetTypeBroadcast = 1

// rangeLimit is how many ranges the filter tells apart. Each takes three of the 4096 instructions that the kernel allows; beyond it the
// filter lets every ARP packet through, and the program tells them apart.
const rangeLimit = 1300

// accept and drop are the filter's verdicts: how many bytes of the frame the socket gets.
const (
	accept = 0xffff
	drop   = 0
)

// Range is an interval of addresses, both ends included.
type Range struct{ First, Last netip.Addr }

// filter is the program (classic BPF) that lets only ARP packets about addresses in the ranges through to the socket: a storm of others
// costs nothing.
func filter(ifindex int, ranges []Range) ([]bpf.RawInstruction, error) {
	program, err := bpf.Assemble(append(forThisHost(ifindex), about(ranges)...))
	if err != nil {
		return nil, fmt.Errorf("assembling the packet filter: %w", err)
	}
	return program, nil
}

// forThisHost goes on only with frames that came in on the interface itself and were sent to this host or to all. A socket on a bridge
// port or below a VLAN sees those of the upper interface too.
func forThisHost(ifindex int) []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtInterfaceIndex},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(ifindex), SkipTrue: 1}, //nolint:gosec // the kernel numbers interfaces from 1
		bpf.RetConstant{Val: drop},
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: packetTypeBroadcast, SkipFalse: 1},
		bpf.RetConstant{Val: drop},
	}
}

// about accepts ARP packets whose target protocol address lies in one of the ranges.
func about(ranges []Range) []bpf.Instruction {
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetEtherType, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: etherTypeARP, SkipTrue: 1},
		bpf.RetConstant{Val: drop},
	}
	merged := merge(ranges)
	if len(merged) > rangeLimit {
		return append(program, bpf.RetConstant{Val: accept})
	}
	program = append(program, bpf.LoadAbsolute{Off: offsetTargetProtocol, Size: 4})
	for _, r := range merged {
		program = append(program,
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: number(r.First), SkipFalse: 2},
			bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: number(r.Last), SkipTrue: 1},
			bpf.RetConstant{Val: accept},
		)
	}
	return append(program, bpf.RetConstant{Val: drop})
}

// merge returns the IPv4 ranges in order, those that touch or overlap as one.
func merge(ranges []Range) []Range {
	sorted := slices.DeleteFunc(slices.Clone(ranges), func(r Range) bool { return !r.First.Is4() || !r.Last.Is4() })
	slices.SortFunc(sorted, func(a, b Range) int { return a.First.Compare(b.First) })
	var merged []Range
	for _, r := range sorted {
		if n := len(merged); n > 0 && uint64(number(r.First)) <= uint64(number(merged[n-1].Last))+1 {
			if merged[n-1].Last.Less(r.Last) {
				merged[n-1].Last = r.Last
			}
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// number is an IPv4 address as the filter compares it.
func number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}
