package responder

import "time"

// Every speaker hears every question that is sent to all, of which each one answers few. Who asks for others' addresses is worth knowing, as such a
// one is told when the address moves here; but a crowd of them would take each speaker as much time as the one that answers. So many are heard in
// each such time; then, until it is over, only those that ask for what this host answers for, or is about to.
const (
	crowdEvery  = time.Second
	crowdAtMost = 100
)

// crowd counts those who ask for others' addresses.
type crowd struct {
	// since is when the count began.
	since  time.Time
	asking int
}

// count counts one who asks.
func (c *crowd) count(now time.Time) {
	if now.Sub(c.since) >= crowdEvery {
		*c = crowd{since: now}
	}
	c.asking++
}

// passes says when no more need be heard of the others' addresses: until then, there is a crowd.
func (c *crowd) passes(now time.Time) (until time.Time, crowded bool) {
	until = c.since.Add(crowdEvery)
	return until, c.asking >= crowdAtMost && now.Before(until)
}
