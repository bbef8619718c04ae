package gap

import (
	"testing"
	"time"
)

// tried makes an attempt every 10 ms, from and to included.
func tried(from, to int, good bool) []Attempt {
	var all []Attempt
	for ms := from; ms <= to; ms += 10 {
		all = append(all, Attempt{Begun: at(ms), Good: good})
	}
	return all
}

func TestLongestRefusal(t *testing.T) {
	attempts := func(parts ...[]Attempt) []Attempt {
		var all []Attempt
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	for name, tc := range map[string]struct {
		attempts []Attempt
		want     time.Duration
	}{
		"it goes from the last that was opened to the next": {
			attempts: attempts(tried(0, 100, true), tried(110, 890, false), tried(900, 2000, true)), want: 800 * time.Millisecond},
		"those that fail end later than those that were begun after them": {
			attempts: attempts(tried(0, 100, true), tried(900, 2000, true), tried(110, 890, false)), want: 800 * time.Millisecond},
		"where none failed there is none":             {attempts: tried(0, 2000, true)},
		"what failed before the fault does not count": {attempts: attempts(tried(0, 20, false), tried(30, 2000, true))},
		"one that does not end goes on to the end": {
			attempts: attempts(tried(0, 100, true), tried(110, 2000, false)), want: 1900 * time.Millisecond},
		"without any that was opened it begins with the fault": {attempts: tried(110, 2000, false), want: 1950 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			if got := LongestRefusal(tc.attempts, at(50), at(2000)); got != tc.want {
				t.Errorf("it is %s, want %s", got, tc.want)
			}
		})
	}
}
