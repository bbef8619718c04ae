package election

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestQuestion asks the wire, and lets somebody answer at a time.
func TestQuestion(t *testing.T) {
	ms := func(n int) time.Time { return time.Unix(0, 0).Add(time.Duration(n) * time.Millisecond) }
	type answer struct {
		Fence Fence
		Next  time.Time
	}
	for name, tc := range map[string]struct {
		offered bool
		heard   func(q *Question) // after 15 ms
		want    map[int]answer    // by the millisecond
		asked   int
	}{
		"nobody answers three questions": {
			want: map[int]answer{0: {Asking, ms(20)}, 30: {Asking, ms(40)}, 59: {Asking, ms(60)}, 60: {Clear, ms(60)}}, asked: 3,
		},
		"a stranger answers: it is asked again a second later": {
			heard: func(q *Question) { q.Heard(false) },
			want:  map[int]answer{20: {Occupied, ms(1015)}, 900: {Occupied, ms(1015)}, 1016: {Asking, ms(1035)}}, asked: 2,
		},
		"who offers it may answer": {
			offered: true, heard: func(q *Question) { q.Heard(true) },
			want: map[int]answer{20: {Asking, ms(40)}, 60: {Clear, ms(60)}}, asked: 3,
		},
		"a stranger that asks as well goes first": {
			heard: func(q *Question) { q.Crossed(true) },
			want:  map[int]answer{20: {Occupied, ms(1015)}}, asked: 1,
		},
		"a stranger that asks as well steps back": {
			heard: func(q *Question) { q.Crossed(false) },
			want:  map[int]answer{60: {Clear, ms(60)}}, asked: 3,
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
				if at == 15 && tc.heard != nil {
					tc.heard(&q)
				}
				fence, next := q.Answer(ms(at), tc.offered)
				if fence == Asking && q.Due(ms(at)) {
					asked++
					_, next = q.Answer(ms(at), tc.offered)
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
		})
	}
}

// TestPeersThatAnswerWithoutAClaimAreFoundTwice: a kernel that answers for an address does not keep it off the air for ever.
func TestPeersThatAnswerWithoutAClaimAreFoundTwice(t *testing.T) {
	var q Question
	now, found := time.Unix(0, 0), 0
	for range 500 {
		now = now.Add(10 * time.Millisecond)
		if q.Due(now) {
			q.Heard(true)
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
