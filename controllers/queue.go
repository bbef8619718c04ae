package controllers

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// queue remembers since when Services wait for an address. The zero queue lets nobody wait.
type queue struct {
	verification Verification
	since        map[types.UID]time.Time
}

// line gives each request that lacks an address its patience: for a while it waits until the LAN was asked. It returns when the first of them
// loses it; 0 when none has any. Reported says that speakers can ask.
func (q *queue) line(d demand, reported bool, now time.Time) (again time.Duration) {
	wait := q.verification.Unasked
	if reported {
		wait = q.verification.Asked
	}
	before := q.since
	q.since = map[types.UID]time.Time{}
	for i := range d.requests {
		r := &d.requests[i]
		if len(r.Holds) >= len(r.Families) || r.Standing != ipam.Current {
			continue
		}
		uid := d.services[r.Service].UID
		since, waits := before[uid]
		if !waits {
			since = now
		}
		q.since[uid] = since
		if left := wait - now.Sub(since); left > 0 {
			r.Patience = ipam.Patient
			if again == 0 || left < again {
				again = left
			}
		}
	}
	return again
}
