package claims

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/lanyard-dev/lanyard/test/bench/failover/wire"
)

// Claim is an ARP packet whose sender gave an address as its own.
type Claim struct {
	At   time.Time
	Addr netip.Addr
	MAC  wire.MAC
}

// Pause is how long a host that has an address may be silent about it. One that is asked each 20 ms answers far sooner; one that is only
// heard when it announces repeats itself within 300 ms.
const Pause = 500 * time.Millisecond

// tenure is a time in which one host claimed an address, without a longer pause.
type tenure struct {
	mac      wire.MAC
	from, to time.Time
}

// Duplicate is a time in which two hosts claimed one address.
type Duplicate struct {
	Addr netip.Addr
	// MACs are theirs, the one that had it longer first.
	MACs     [2]wire.MAC
	From, To time.Time
}

// Length is how long it was.
func (d Duplicate) Length() time.Duration { return d.To.Sub(d.From) }

// Duplicates returns each time in which two hosts claimed one address: from the second one's first claim to the last claim of whoever stopped
// first, in the order of their beginnings. Claims are in the order of time. A host that takes over from one that has stopped is no duplicate,
// nor is one that takes back, with a pause between, what it once had.
func Duplicates(all []Claim) []Duplicate {
	var duplicates []Duplicate
	for addr, tenures := range tenuresOf(all) {
		for i, a := range tenures {
			for _, b := range tenures[i+1:] {
				d := Duplicate{Addr: addr, MACs: [2]wire.MAC{a.mac, b.mac}, From: later(a.from, b.from), To: earlier(a.to, b.to)}
				if a.mac != b.mac && d.Length() > 0 {
					duplicates = append(duplicates, d)
				}
			}
		}
	}
	slices.SortFunc(duplicates, func(a, b Duplicate) int { return cmp.Or(a.From.Compare(b.From), a.Addr.Compare(b.Addr)) })
	return duplicates
}

// LongestDuplicate returns the longest of the duplicates, the first address's of equal ones.
func LongestDuplicate(all []Claim) (longest Duplicate, found bool) {
	for _, d := range Duplicates(all) {
		longer := d.Length() > longest.Length() || d.Length() == longest.Length() && d.Addr.Less(longest.Addr)
		if !found || longer {
			longest, found = d, true
		}
	}
	return longest, found
}

// Window is a time in which two hosts may claim one address.
type Window struct {
	From, To time.Time
	// AtMost is for how long they may; 0 is for all of it.
	AtMost time.Duration
}

// Unexcused is how much of a duplicate lies in no window, or is longer than its window allows.
func (d Duplicate) Unexcused(windows []Window) time.Duration {
	left := d.Length()
	for _, w := range windows {
		within := earlier(d.To, w.To).Sub(later(d.From, w.From))
		if w.AtMost > 0 {
			within = min(within, w.AtMost)
		}
		left -= max(0, within)
	}
	return max(0, left)
}

// tenuresOf returns each address's tenures, in the order in which they began.
func tenuresOf(all []Claim) map[netip.Addr][]tenure {
	tenures := map[netip.Addr][]tenure{}
	for _, c := range all {
		of := tenures[c.Addr]
		last := -1
		for i, t := range of {
			if t.mac == c.MAC {
				last = i
			}
		}
		if last >= 0 && c.At.Sub(of[last].to) <= Pause {
			of[last].to = c.At
			continue
		}
		tenures[c.Addr] = append(of, tenure{mac: c.MAC, from: c.At, to: c.At})
	}
	return tenures
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Owners returns who has claimed each address since a time, in the order of their first claims.
func Owners(all []Claim, since time.Time) map[netip.Addr][]wire.MAC {
	owners := map[netip.Addr][]wire.MAC{}
	for _, c := range all {
		if !c.At.Before(since) && !slices.Contains(owners[c.Addr], c.MAC) {
			owners[c.Addr] = append(owners[c.Addr], c.MAC)
		}
	}
	return owners
}

// Takeovers returns when each of the addresses was first claimed by another host than the one that had it, after a time.
func Takeovers(all []Claim, addrs []netip.Addr, after time.Time, had wire.MAC) map[netip.Addr]time.Time {
	wanted := make(map[netip.Addr]bool, len(addrs))
	for _, a := range addrs {
		wanted[a] = true
	}
	taken := map[netip.Addr]time.Time{}
	for _, c := range all {
		if _, known := taken[c.Addr]; !known && wanted[c.Addr] && c.At.After(after) && c.MAC != had {
			taken[c.Addr] = c.At
		}
	}
	return taken
}
