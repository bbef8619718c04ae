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

// Occupant is whom a node that takes an address over found there.
type Occupant struct {
	// MAC is the hardware address from which it spoke.
	MAC string
	As  Role
}

// Role is what an occupant was seen to be. A higher one counts more when there are several.
type Role int

// The roles.
const (
	// Nobody was found.
	Nobody Role = iota
	// Speaker: it answers, and its speaker is heard and does not claim the address. Its kernel may answer, as kube-proxy's mode ipvs makes it
	// without strictARP; or its claim has not been heard yet.
	Speaker
	// Contender: it asks as well, its speaker is not heard, and this node is the one to step back. RFC 5227, section 2.1.1, lets both do so.
	Contender
	// Stranger: it answers, and is no speaker that is heard.
	Stranger
)

// Question is what a node asks the wire about an address that it takes over: does anybody answer? The zero Question was not asked yet.
type Question struct {
	began time.Time
	asked int
	// offered says that the address was offered when the answer was looked at last.
	offered  bool
	occupant Occupant
	// found counts how often in a row it was found that speakers answer that are heard.
	found int
	// again is when it may be asked anew after somebody was found.
	again time.Time
}

// Due says whether the wire is to be asked now, and counts it as asked. The time of the first call is when it begins; offered says whether the
// address is on offer then.
func (q *Question) Due(now time.Time, offered bool) bool {
	if q.began.IsZero() {
		q.began, q.offered = now, offered
	}
	if q.asked > int(now.Sub(q.began)/askEvery) || now.Sub(q.began) >= fenceTime {
		return false
	}
	q.asked++
	return true
}

// Heard notes whom the wire has shown. The owner of an address that is on offer answers until it hears that it has been taken over: that
// speakers answer which are heard means nothing then.
func (q *Question) Heard(o Occupant) {
	if o.As > q.occupant.As && (o.As != Speaker || !q.offered) {
		q.occupant = o
	}
}

// Answer says what the wire has said by now, and when to look again.
func (q *Question) Answer(now time.Time, offered bool) (Fence, time.Time) {
	q.offered = offered
	switch {
	case !q.again.IsZero() && now.Before(q.again):
		return Occupied, q.again
	case !q.again.IsZero(): // it may be asked again
		*q = Question{found: q.found, offered: offered}
		return Asking, now
	case q.occupant.As > Speaker || q.occupant.As == Speaker && q.found < patience:
		if q.occupant.As == Speaker {
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

// Occupant is who was found, if anybody was.
func (q *Question) Occupant() Occupant { return q.occupant }

// Next says when the wire is to be asked or its answer is due next, once it was asked.
func (q *Question) Next() time.Time {
	next, end := q.began.Add(time.Duration(q.asked)*askEvery), q.began.Add(fenceTime)
	if end.Before(next) {
		return end
	}
	return next
}
