package gap

import (
	"slices"
	"time"
)

// Answer is a good reply to a probe.
type Answer struct {
	// Sent is when the probe was sent, At when the reply came.
	Sent, At time.Time
	// Via is the node that answers for the address, Backend the node that the reply was made on.
	Via, Backend string
}

// Rule says what an outage is.
type Rule struct {
	// Silence is how long nothing must come until it counts as an outage.
	Silence time.Duration
	// GoesOn is how long answers must go on until an outage is over: one answer between two silences is not service.
	GoesOn time.Duration
}

// The rules for an address that is probed each millisecond, and for one that is probed each 100 ms. The silence is twenty probes, more than a
// busy machine makes one wait, and three.
var (
	Dense  = Rule{Silence: 20 * time.Millisecond, GoesOn: 200 * time.Millisecond}
	Sparse = Rule{Silence: 300 * time.Millisecond, GoesOn: time.Second}
)

// Late is how long a reply may take. What was sent later than that before the end is not counted as lost.
const Late = 500 * time.Millisecond

// Outage is a time without service, from the last good reply before it to the first one after it that goes on.
type Outage struct {
	From, To time.Time
	// Open means that it was not over when the watch ended, at To.
	Open bool
}

// Length is how long it was.
func (o Outage) Length() time.Duration { return o.To.Sub(o.From) }

// Longest returns the longest outage among answers, in the order in which they came, from the last one before the fault to the end of the
// watch. Where nothing was silent for long enough to be one, it is the longest time between two answers. Without an answer before the fault
// it begins with the fault.
func (r Rule) Longest(answers []Answer, fault, end time.Time) Outage {
	last := fault
	var outages []Outage
	var rest Outage
	for _, a := range answers {
		if a.At.After(end) {
			break
		}
		if a.At.After(fault) {
			step := Outage{From: last, To: a.At}
			if step.Length() > rest.Length() {
				rest = step
			}
			outages = r.extend(outages, step)
		}
		last = a.At
	}
	open := Outage{From: last, To: end, Open: true}
	if open.Length() > r.Silence {
		n := len(outages)
		if outages = r.extend(outages, open); len(outages) == n {
			outages[n-1].Open = true
		}
	}
	if len(outages) == 0 {
		return rest
	}
	return slices.MaxFunc(outages, func(a, b Outage) int { return int(a.Length() - b.Length()) })
}

// extend adds a step from one answer to the next, if it is a silence: to the outage before it, if that was not over yet.
func (r Rule) extend(outages []Outage, step Outage) []Outage {
	if step.Length() <= r.Silence {
		return outages
	}
	if n := len(outages); n > 0 && step.From.Sub(outages[n-1].To) < r.GoesOn {
		outages[n-1].To = step.To
		return outages
	}
	return append(outages, step)
}

// Losses are probes without a good reply.
type Losses struct {
	// During counts those of the outage, Otherwise those before and after it: after it, mostly those that fell to a backend that was dead.
	During, Otherwise int
}

// Lost counts the probes without a reply among those that were sent, in order, from the fault on, and a moment before the end at the latest.
func Lost(sent []time.Time, answers []Answer, outage Outage, fault, end time.Time) Losses {
	answered := make(map[int64]bool, len(answers))
	for _, a := range answers {
		answered[a.Sent.UnixNano()] = true
	}
	var l Losses
	for _, s := range sent {
		switch {
		case s.Before(fault.Add(-Dense.Silence)), s.After(end.Add(-Late)), answered[s.UnixNano()]:
		case s.After(outage.From.Add(-Dense.Silence)) && s.Before(outage.To):
			l.During++
		default:
			l.Otherwise++
		}
	}
	return l
}

// FirstNotVia returns the first answer after a time that came through another node than the one named.
func FirstNotVia(answers []Answer, after time.Time, node string) (Answer, bool) {
	i := slices.IndexFunc(answers, func(a Answer) bool { return a.At.After(after) && a.Via != node })
	if i < 0 {
		return Answer{}, false
	}
	return answers[i], true
}

// Settled says whether answers have gone on without an outage, until now, for so long.
func Settled(answers []Answer, now time.Time, span time.Duration) bool {
	last := now
	for _, a := range slices.Backward(answers) {
		if last.Sub(a.At) > Dense.GoesOn { // a moment's silence of the machine itself is no outage
			return false
		}
		if last = a.At; now.Sub(last) >= span {
			return true
		}
	}
	return false
}

// Through returns which nodes the answers since a time came through, and which backends gave them, each sorted.
func Through(answers []Answer, since time.Time) (via, backends []string) {
	for _, a := range slices.Backward(answers) {
		if a.At.Before(since) {
			break
		}
		if !slices.Contains(via, a.Via) {
			via = append(via, a.Via)
		}
		if !slices.Contains(backends, a.Backend) {
			backends = append(backends, a.Backend)
		}
	}
	slices.Sort(via)
	slices.Sort(backends)
	return via, backends
}

// Tick returns which beat of a clock is due, counted from its start, and how late it is. Beats that were missed are left out, so that a
// client that was held up does not make up for them in a burst.
func Tick(start, now time.Time, every time.Duration) (beat int64, late time.Duration) {
	since := now.Sub(start)
	return int64(since / every), since % every
}
