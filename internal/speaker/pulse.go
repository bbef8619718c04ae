package speaker

import (
	"sync"
	"time"
)

// A speaker that makes no good pass within readyWithin is not ready, and one whose loop does not come round within hangsAfter hangs. A pass
// is made at least every lookAgain, and takes no more than some milliseconds.
const (
	readyWithin = 3 * lookAgain
	hangsAfter  = 6 * lookAgain
)

// pulse is what the probes look at. It says nothing of the API server: without it passes are made from what the caches hold, and starting
// the speaker anew would take off the air what it announces.
type pulse struct {
	mu sync.Mutex
	// beaten is when the loop came round last; zero before it begins, which waits for the API server for as long as that takes.
	beaten time.Time
	// passed is when a pass succeeded last.
	passed time.Time
}

// beat notes that the loop came round.
func (p *pulse) beat(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beaten = now
}

// pass notes that a pass succeeded.
func (p *pulse) pass(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passed = now
}

// alive says whether the loop comes round, or has not begun.
func (p *pulse) alive(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.beaten.IsZero() || now.Sub(p.beaten) < hangsAfter
}

// ready says whether a pass succeeded lately.
func (p *pulse) ready(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.passed.IsZero() && now.Sub(p.passed) < readyWithin
}
