package gap

import (
	"slices"
	"time"
)

// Attempt is a connection that a user tried to open.
type Attempt struct {
	Begun time.Time
	Good  bool
}

// LongestRefusal is the longest time in which every connection that was begun failed, after the fault: from the last one that was opened to the
// next one. Attempts may be in any order: those that fail end last.
func LongestRefusal(attempts []Attempt, fault, end time.Time) time.Duration {
	sorted := slices.SortedFunc(slices.Values(attempts), func(a, b Attempt) int { return a.Begun.Compare(b.Begun) })
	longest, good, failed := time.Duration(0), fault, false
	for _, a := range sorted {
		if a.Good && failed && a.Begun.After(fault) {
			longest = max(longest, a.Begun.Sub(good))
		}
		if a.Good {
			good, failed = a.Begun, false
		} else {
			failed = true
		}
	}
	if failed {
		longest = max(longest, end.Sub(good))
	}
	return longest
}
