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

// comes counts one who asks, and says whether with them it has become a crowd. Of one that is there already no more is counted: some of it passes a
// filter that tells few ranges apart.
func (c *crowd) comes(now time.Time) bool {
	if now.Sub(c.since) >= crowdEvery {
		*c = crowd{since: now}
	}
	c.asking++
	return c.asking == crowdAtMost
}

// passes says when the others' questions are heard again: until then, there is a crowd.
func (c *crowd) passes(now time.Time) (until time.Time, crowded bool) {
	until = c.since.Add(crowdEvery)
	return until, c.asking >= crowdAtMost && now.Before(until)
}
