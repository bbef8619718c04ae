package speaker

import (
	"testing"
	"time"
)

func TestPulse(t *testing.T) {
	start := time.Now()
	at := start.Add
	for name, tc := range map[string]struct {
		happened     func(*pulse)
		after        time.Duration
		alive, ready bool
	}{
		"it waits for the API server, for however long": {
			happened: func(*pulse) {}, after: time.Hour, alive: true},
		"it makes passes": {
			happened: func(p *pulse) { p.beat(start); p.pass(at(lookAgain)); p.beat(at(lookAgain)) }, after: lookAgain + lookAgain, alive: true, ready: true},
		"its first pass failed": {
			happened: func(p *pulse) { p.beat(start) }, after: time.Second, alive: true},
		"its passes fail since a moment": {
			happened: func(p *pulse) { p.pass(start); p.beat(at(readyWithin - 1)) }, after: readyWithin - 1, alive: true, ready: true},
		"its passes keep failing: it is not ready, and starting it anew would not help": {
			happened: func(p *pulse) { p.pass(start); p.beat(at(time.Hour)) }, after: time.Hour, alive: true},
		"its passes work again": {
			happened: func(p *pulse) { p.pass(start); p.beat(at(time.Hour)); p.pass(at(time.Hour)) }, after: time.Hour, alive: true, ready: true},
		"it hangs": {
			happened: func(p *pulse) { p.beat(start); p.pass(start) }, after: hangsAfter},
	} {
		t.Run(name, func(t *testing.T) {
			var p pulse
			tc.happened(&p)
			if alive, ready := p.alive(at(tc.after)), p.ready(at(tc.after)); alive != tc.alive || ready != tc.ready {
				t.Errorf("alive: %v, ready: %v, want %v and %v", alive, ready, tc.alive, tc.ready)
			}
		})
	}
}
