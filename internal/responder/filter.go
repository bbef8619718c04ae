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

// How many ranges of addresses a filter tells apart; of more, those that lie closest together count as one, and the program tells them apart. The
// kernel charges a filter to the socket after it has translated it (Linux, sk_filter_charge), 8 bytes for each of its instructions, and the one that
// it replaces is charged until then: together at most net.core.optmem_max, which is 20,480 bytes before Linux 6.9. A range of IPv4 becomes 7
// instructions at most, one of IPv6 fewer than 50.
const (
	claimedAtMost = 24
	askedAtMost   = 128
)

// accept and drop are the filter's verdicts: how many bytes of the frame the socket gets.
const (
	accept = 0xffff
	drop   = 0
)

// selection is which packets of a protocol pass the filter, however the frame came in.
type selection struct {
	// protocol goes on with the protocol's packets, and drops all others.
	protocol []bpf.Instruction
	// claimed is the offset of the address that a packet may claim, asked of the one that it may ask for.
	claimed, asked uint32
	// highest is the highest packet type that can be for us.
	highest packetType
}

// filter is the program (classic BPF) that lets only packets of interest through to the socket: a storm of others costs nothing.
func (s selection) filter(ifindex int, in interest) ([]bpf.RawInstruction, error) {
	program, err := bpf.Assemble(append(forThisHost(ifindex, s.highest), s.about(in)...))
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

// about accepts the protocol's packets that claim or ask for an address of interest, and drops all others.
func (s selection) about(in interest) []bpf.Instruction {
	program := slices.Concat(s.protocol, among(s.claimed, coarsen(in.claimed, claimedAtMost)))
	if s.asked != s.claimed {
		program = append(program, among(s.asked, coarsen(in.asked, askedAtMost))...)
	}
	return append(program, bpf.RetConstant{Val: drop})
}

// among accepts a packet whose address at an offset lies in one of the ranges, which are merged, and goes on after it with any other.
func among(offset uint32, ranges []Range) []bpf.Instruction {
	var program []bpf.Instruction
	if len(ranges) > 0 && ranges[0].First.Is4() {
		var bounds []uint32
		for _, r := range ranges {
			bounds = append(bounds, words(r.First)[0])
			if after := r.Last.Next(); after.IsValid() {
				bounds = append(bounds, words(after)[0])
			}
		}
		return append([]bpf.Instruction{bpf.LoadAbsolute{Off: offset, Size: 4}}, search(bounds, false, 0)...)
	}
	for _, r := range ranges {
		program = append(program, within(offset, r)...)
	}
	return program
}

// jumpAtMost is how far a conditional jump goes.
const jumpAtMost = 255

// search looks by halves for where the word that is loaded lies between bounds. It is in a range from the first bound on, out of it from the second
// on, and so forth; in says whether it is in one below the first. Within a range the packet is accepted; a miss goes on so many instructions after
// the end.
//
//	        ≥ bounds[half]?
//	       no ╱        ╲ yes
//	bounds[:half]   bounds[half+1:]
func search(bounds []uint32, in bool, after int) []bpf.Instruction {
	if len(bounds) == 0 {
		if in {
			return []bpf.Instruction{bpf.RetConstant{Val: accept}}
		}
		return []bpf.Instruction{bpf.Jump{Skip: uint32(after)}} //nolint:gosec // not negative
	}
	half := len(bounds) / 2
	right := search(bounds[half+1:], in == (half%2 == 1), after)
	left := search(bounds[:half], in, after+len(right))
	if len(left) > jumpAtMost {
		return slices.Concat([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: bounds[half], SkipFalse: 1},
			bpf.Jump{Skip: uint32(len(left))}}, left, right) //nolint:gosec // not negative
	}
	node := bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: bounds[half], SkipTrue: uint8(len(left))} //nolint:gosec // not more than jumpAtMost
	return slices.Concat([]bpf.Instruction{node}, left, right)
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
