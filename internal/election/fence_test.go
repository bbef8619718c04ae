package election

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestQuestion asks the wire, and lets somebody answer at a time.
func TestQuestion(t *testing.T) {
	ms := func(n int) time.Time { return time.Unix(0, 0).Add(time.Duration(n) * time.Millisecond) }
	speaker, contender, stranger := Occupant{"2", Speaker}, Occupant{"9", Contender}, Occupant{"99", Stranger}
	type answer struct {
		Fence Fence
		Next  time.Time
	}
	for name, tc := range map[string]struct {
		offered int              // until this millisecond
		heard   map[int]Occupant // by the millisecond
		want    map[int]answer
		found   Occupant // at the end
		asked   int
	}{
		"nobody answers three questions": {
			want: map[int]answer{0: {Asking, ms(20)}, 30: {Asking, ms(40)}, 59: {Asking, ms(60)}, 60: {Clear, ms(60)}}, asked: 3,
		},
		"a stranger answers: it is asked again a second later": {
			heard: map[int]Occupant{15: stranger},
			want:  map[int]answer{20: {Occupied, ms(1015)}, 900: {Occupied, ms(1015)}, 1016: {Asking, ms(1035)}}, asked: 2,
		},
		"who offers it may answer": {
			offered: 100, heard: map[int]Occupant{15: speaker},
			want: map[int]answer{20: {Asking, ms(40)}, 60: {Clear, ms(60)}}, asked: 3,
		},
		"who offers it may answer, and end": {
			offered: 45, heard: map[int]Occupant{1: speaker, 21: speaker, 41: speaker},
			want: map[int]answer{45: {Asking, ms(60)}, 60: {Clear, ms(60)}}, asked: 3,
		},
		"who offers it no longer may not": {
			offered: 30, heard: map[int]Occupant{1: speaker, 41: speaker},
			want: map[int]answer{40: {Asking, ms(60)}, 42: {Occupied, ms(1041)}}, found: speaker, asked: 3,
		},
		"a stranger may not answer for what is offered": {
			offered: 100, heard: map[int]Occupant{15: stranger}, want: map[int]answer{20: {Occupied, ms(1015)}}, found: stranger, asked: 1,
		},
		"a contender goes first": {
			heard: map[int]Occupant{15: contender}, want: map[int]answer{20: {Occupied, ms(1015)}}, found: contender, asked: 1,
		},
		"of several the stranger is named, before": {
			heard: map[int]Occupant{15: stranger, 16: contender, 17: speaker}, want: map[int]answer{20: {Occupied, ms(1015)}}, found: stranger, asked: 1,
		},
		"and after": {
			offered: 100, heard: map[int]Occupant{14: speaker, 15: stranger}, want: map[int]answer{20: {Occupied, ms(1015)}}, found: stranger, asked: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var q Question
			asked, got := 0, map[int]answer{}
			last := 0
			for at := range tc.want {
				last = max(last, at)
			}
			for at := range last + 1 {
				if o, heard := tc.heard[at]; heard {
					q.Heard(o)
				}
				offered := at < tc.offered
				fence, next := q.Answer(ms(at), offered)
				if fence == Asking && q.Due(ms(at), offered) {
					asked++
					_, next = q.Answer(ms(at), offered)
				}
				if _, wanted := tc.want[at]; wanted {
					got[at] = answer{fence, next}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if asked != tc.asked {
				t.Errorf("the wire was asked %d times, want %d", asked, tc.asked)
			}
			if q.Occupant() != tc.found {
				t.Errorf("found %v, want %v", q.Occupant(), tc.found)
			}
		})
	}
}

// TestPeersThatAnswerWithoutAClaimAreFoundTwice: a kernel that answers for an address does not keep it off the air for ever.
func TestPeersThatAnswerWithoutAClaimAreFoundTwice(t *testing.T) {
	var q Question
	now, found := time.Unix(0, 0), 0
	for range 500 {
		now = now.Add(10 * time.Millisecond)
		if q.Due(now, false) {
			q.Heard(Occupant{As: Speaker})
		}
		fence, next := q.Answer(now, false)
		if fence == Clear {
			break
		}
		if fence == Occupied {
			found, now = found+1, next
		}
	}
	if elapsed := now.Sub(time.Unix(0, 0)); found != 2 || elapsed > 2500*time.Millisecond {
		t.Errorf("found %d times, free after %v, want twice and after little more than two seconds", found, elapsed)
	}
}
