package election

import "time"

// The pace of asking the wire. Three questions in fenceTime outlast the loss of one and the pause of a speaker that is short of processor
// time; a node that found somebody asks again every askAgain.
const (
	fenceTime = 60 * time.Millisecond
	askEvery  = 20 * time.Millisecond
	askAgain  = time.Second
	// patience is how often a speaker that is heard may answer without a claim: by then its claim, if it had one, would be heard.
	patience = 2
)

// Question is what a node asks the wire about an address that it takes over: does anybody answer? The zero Question was not asked yet.
type Question struct {
	began time.Time
	asked int
	// stranger says that somebody answered whose speaker is not heard, peer that one did whose speaker is.
	stranger, peer bool
	// found counts how often in a row it was found that peers answer.
	found int
	// again is when it may be asked anew after somebody was found.
	again time.Time
}

// Due says whether the wire is to be asked now, and counts it as asked. The time of the first call is when it begins.
func (q *Question) Due(now time.Time) bool {
	if q.began.IsZero() {
		q.began = now
	}
	if q.asked > int(now.Sub(q.began)/askEvery) || now.Sub(q.began) >= fenceTime {
		return false
	}
	q.asked++
	return true
}

// Heard notes that somebody answered. Whose speaker is heard, and does not claim the address, may have a kernel that answers for it, as
// kube-proxy's mode ipvs makes it without strictARP; or its claim has not been heard yet.
func (q *Question) Heard(peer bool) {
	if peer {
		q.peer = true
	} else {
		q.stranger = true
	}
}

// Crossed notes that a stranger asks as well: of two that take the same address over without hearing each other one steps back (RFC 5227,
// section 2.1.1, lets both do so). Peers settle it by their claims.
func (q *Question) Crossed(stepBack bool) { q.stranger = q.stranger || stepBack }

// Answer says what the wire has said by now, and when to look again. If the address is offered, its owner answers until it hears that it has
// been taken over: that peers answer means nothing then.
func (q *Question) Answer(now time.Time, offered bool) (Fence, time.Time) {
	switch {
	case !q.again.IsZero() && now.Before(q.again):
		return Occupied, q.again
	case !q.again.IsZero(): // it may be asked again
		*q = Question{found: q.found}
		return Asking, now
	case q.stranger || q.peer && !offered && q.found < patience:
		if !q.stranger {
			q.found++
		}
		q.again = now.Add(askAgain)
		return Occupied, q.again
	case q.began.IsZero():
		return Asking, now
	case now.Sub(q.began) >= fenceTime:
		return Clear, now
	}
	return Asking, q.Next()
}

// Next says when the wire is to be asked or its answer is due next, once it was asked.
func (q *Question) Next() time.Time {
	next, end := q.began.Add(time.Duration(q.asked)*askEvery), q.began.Add(fenceTime)
	if end.Before(next) {
		return end
	}
	return next
}
