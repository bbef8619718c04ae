package gap

import (
	"cmp"
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

// Record is what became of the probes of one address, in order: when each was sent, and the answers as they came.
type Record struct {
	Sent    []time.Time
	Answers []Answer
}

// unanswered are the probes without an answer, by when they were sent.
func (r Record) unanswered() []time.Time {
	answered := make(map[int64]bool, len(r.Answers))
	for _, a := range r.Answers {
		answered[a.Sent.UnixNano()] = true
	}
	var lost []time.Time
	for _, s := range r.Sent {
		if !answered[s.UnixNano()] {
			lost = append(lost, s)
		}
	}
	return lost
}

// Rule says what an outage is.
type Rule struct {
	// Silence is how long nothing must come, and Lost how many probes sent in that time must stay without an answer, until it counts as an
	// outage. It must be most of them, too: a busy machine holds up the client, which then sends nothing, or the answers, which come later.
	Silence time.Duration
	Lost    int
	// GoesOn is how long answers must go on until an outage is over: one answer between two silences is not service.
	GoesOn time.Duration
}

// The rules for an address that is probed each millisecond, and for one that is probed each 100 ms.
var (
	Dense  = Rule{Silence: 20 * time.Millisecond, Lost: 5, GoesOn: 200 * time.Millisecond}
	Sparse = Rule{Silence: 150 * time.Millisecond, Lost: 1, GoesOn: time.Second}
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

// Longest returns the longest outage from the last answer before the fault to the end of the watch. Where nothing was silent for long enough to
// be one, it is the longest time between two answers in which a probe was lost, and none where none was. Without an answer before the fault it
// begins with the fault.
func (r Rule) Longest(record Record, fault, end time.Time) Outage {
	lost := record.unanswered()
	last := fault
	var outages []Outage
	var rest Outage
	for _, a := range record.Answers {
		if a.At.After(end) {
			break
		}
		if step := (Outage{From: last, To: a.At}); a.At.After(fault) {
			if step.Length() > rest.Length() && between(lost, step) > 0 {
				rest = step
			}
			outages = r.extend(outages, step, record.Sent, lost)
		}
		last = a.At
	}
	outages = r.extend(outages, Outage{From: last, To: end, Open: true}, record.Sent, lost)
	if len(outages) == 0 {
		return rest
	}
	return slices.MaxFunc(outages, func(a, b Outage) int { return cmp.Compare(a.Length(), b.Length()) })
}

// extend adds a step from one answer to the next, if it is a silence: to the outage before it, if that was not over yet.
func (r Rule) extend(outages []Outage, step Outage, sent, lost []time.Time) []Outage {
	without := between(lost, step)
	if step.Length() <= r.Silence || without < r.Lost || 2*without <= between(sent, step) {
		return outages
	}
	if n := len(outages); n > 0 && step.From.Sub(outages[n-1].To) < r.GoesOn {
		outages[n-1].To, outages[n-1].Open = step.To, step.Open
		return outages
	}
	return append(outages, step)
}

// between counts the times that lie in an outage.
func between(times []time.Time, o Outage) int {
	first, _ := slices.BinarySearchFunc(times, o.From, time.Time.Compare)
	after, _ := slices.BinarySearchFunc(times, o.To, time.Time.Compare)
	return after - first
}

// Losses are probes without a good reply.
type Losses struct {
	// During counts those of the outage, Otherwise those before and after it: after it, mostly those that fell to a backend that was dead.
	During, Otherwise int
}

// Lost counts the probes without a reply among those that were sent from the fault on, and a moment before the end at the latest.
func (r Record) Lost(outage Outage, fault, end time.Time) Losses {
	var l Losses
	for _, s := range r.unanswered() {
		switch {
		case s.Before(fault.Add(-Dense.Silence)), s.After(end.Add(-Late)):
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
func Settled(record Record, now time.Time, span time.Duration) bool {
	begin := now.Add(-span)
	n := len(record.Answers)
	return n > 0 && !record.Answers[0].At.After(begin) && now.Sub(record.Answers[n-1].At) < Late &&
		Dense.Longest(record, begin, now).Length() <= Dense.Silence
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
