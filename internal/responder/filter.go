package responder

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/net/bpf"
)

// packetType is what the kernel says of a frame's destination (packet(7)). A frame of a VLAN that this host does not have arrives without
// its tag, and only as type 3, to another host; 4 is what this host sends.
type packetType uint32

const (
	packetTypeBroadcast packetType = 1 // after 0, to this host
	packetTypeMulticast packetType = 2
)

// instructionLimit is how many instructions the kernel takes (BPF_MAXINSNS). Where the ranges need more, the filter lets every packet of
// the protocol through, and the program tells them apart.
const instructionLimit = 4096

// accept and drop are the filter's verdicts: how many bytes of the frame the socket gets.
const (
	accept = 0xffff
	drop   = 0
)

// Range is an interval of addresses, both ends included.
type Range struct{ First, Last netip.Addr }

// selection is which packets of a protocol pass the filter, however the frame came in.
type selection struct {
	// protocol goes on with the protocol's packets, and drops all others.
	protocol []bpf.Instruction
	// addresses are the offsets of the addresses of which one has to lie in a range.
	addresses []uint32
	// highest is the highest packet type that can be for us.
	highest packetType
}

// filter is the program (classic BPF) that lets only packets about addresses in the ranges through to the socket: a storm of others costs
// nothing.
func (s selection) filter(ifindex int, ranges []Range) ([]bpf.RawInstruction, error) {
	here := forThisHost(ifindex, s.highest)
	program, err := bpf.Assemble(append(here, s.about(ranges, instructionLimit-len(here))...))
	if err != nil {
		return nil, fmt.Errorf("assembling the packet filter: %w", err)
	}
	return program, nil
}

// forThisHost goes on only with frames that came in on the interface itself and were sent to this host, to all, or to a group. A socket on
// a bridge port or below a VLAN sees those of the upper interface too.
func forThisHost(ifindex int, highest packetType) []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtInterfaceIndex},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(ifindex), SkipTrue: 1}, //nolint:gosec // the kernel numbers interfaces from 1
		bpf.RetConstant{Val: drop},
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: uint32(highest), SkipFalse: 1},
		bpf.RetConstant{Val: drop},
	}
}

// about accepts the protocol's packets with an address in one of the ranges, or all of them if that took more instructions than the limit.
func (s selection) about(ranges []Range, limit int) []bpf.Instruction {
	program := slices.Clone(s.protocol)
	for _, offset := range s.addresses {
		for _, r := range ranges {
			program = append(program, within(offset, r)...)
		}
	}
	if len(program) >= limit {
		return append(slices.Clone(s.protocol), bpf.RetConstant{Val: accept})
	}
	return append(program, bpf.RetConstant{Val: drop})
}

// place is where a step goes on.
type place int

const (
	following place = iota // the step after it
	upper                  // the comparison with the last address
	match                  // the packet is accepted
	miss                   // the next range is looked at
)

// step is an instruction of within: it loads a word, or compares the one loaded and goes on at one of two places.
type step struct {
	load      *bpf.LoadAbsolute
	condition bpf.JumpTest
	value     uint32
	yes, no   place
}

// within accepts a packet whose address at an offset lies in the range, and goes on after it with any other. The address is compared in
// words of 32 bits, the most significant first: the words in which all addresses of the range are the same, the rest with the first
// address, the rest with the last one.
func within(offset uint32, r Range) []bpf.Instruction {
	first, last := words(r.First), words(r.Last)
	load := func(word int) step { return step{load: &bpf.LoadAbsolute{Off: offset + 4*uint32(word), Size: 4}} } //nolint:gosec // at most 3
	var steps []step
	shared := 0
	for ; shared < len(first) && first[shared] == last[shared]; shared++ {
		steps = append(steps, load(shared), step{condition: bpf.JumpEqual, value: first[shared], no: miss})
	}
	end := len(first) - 1
	for w := shared; w < end; w++ {
		steps = append(steps, load(w), step{condition: bpf.JumpGreaterThan, value: first[w], yes: upper},
			step{condition: bpf.JumpEqual, value: first[w], no: miss})
	}
	if shared <= end {
		steps = append(steps, load(end), step{condition: bpf.JumpGreaterOrEqual, value: first[end], no: miss})
	}
	second := len(steps)
	for w := shared; w < end; w++ {
		steps = append(steps, load(w), step{condition: bpf.JumpLessThan, value: last[w], yes: match},
			step{condition: bpf.JumpEqual, value: last[w], no: miss})
	}
	if shared < end { // or the word is still the one loaded
		steps = append(steps, load(end))
	}
	if shared <= end {
		steps = append(steps, step{condition: bpf.JumpGreaterThan, value: last[end], yes: miss})
	}
	return append(assemble(steps, second), bpf.RetConstant{Val: accept})
}

// assemble turns places into the numbers of instructions that are skipped. A match follows the last step, a miss is one further.
func assemble(steps []step, second int) []bpf.Instruction {
	program := make([]bpf.Instruction, 0, len(steps)+1)
	for i, s := range steps {
		if s.load != nil {
			program = append(program, *s.load)
			continue
		}
		at := [...]int{following: i + 1, upper: second, match: len(steps), miss: len(steps) + 1}
		skip := func(p place) uint8 { return uint8(at[p] - i - 1) } //nolint:gosec // within has at most 25 steps, and never goes back
		program = append(program, bpf.JumpIf{Cond: s.condition, Val: s.value, SkipTrue: skip(s.yes), SkipFalse: skip(s.no)})
	}
	return program
}

// words is an address as the filter compares it: one word of IPv4, four of IPv6.
func words(a netip.Addr) []uint32 {
	var split []uint32
	for b := range slices.Chunk(a.AsSlice(), 4) {
		split = append(split, binary.BigEndian.Uint32(b))
	}
	return split
}

// merge returns the ranges of a family in order, those that touch or overlap as one.
func merge(ranges []Range, family func(netip.Addr) bool) []Range {
	sorted := slices.DeleteFunc(slices.Clone(ranges), func(r Range) bool { return !family(r.First) || !family(r.Last) })
	slices.SortFunc(sorted, func(a, b Range) int { return a.First.Compare(b.First) })
	var merged []Range
	for _, r := range sorted {
		n := len(merged)
		if n == 0 || merged[n-1].Last.Less(r.First) && merged[n-1].Last.Next() != r.First {
			merged = append(merged, r)
		} else if merged[n-1].Last.Less(r.Last) {
			merged[n-1].Last = r.Last
		}
	}
	return merged
}

// contains says whether an address lies in one of the ranges, which are merged.
func contains(merged []Range, a netip.Addr) bool {
	_, found := slices.BinarySearchFunc(merged, a, func(r Range, a netip.Addr) int {
		switch {
		case r.Last.Less(a):
			return -1
		case a.Less(r.First):
			return 1
		default:
			return 0
		}
	})
	return found
}
