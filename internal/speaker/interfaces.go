package speaker

import (
	"context"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/lanyard-dev/lanyard/internal/links"
	"github.com/lanyard-dev/lanyard/internal/responder"
)

// An interface whose responder failed is left alone for retryAfter from when it was opened; each further failure doubles that, until it has
// answered for retryAtMost.
const (
	retryAfter  = 500 * time.Millisecond
	retryAtMost = 30 * time.Second
)

// running is a responder on an interface.
type running struct {
	arp    *responder.Responder
	index  int
	mac    string
	opened time.Time
	cancel context.CancelFunc
	done   chan struct{}
	// err is why it ended; it is read once done is closed.
	err error
}

// trouble is what is known of an interface whose responder failed.
type trouble struct {
	// why says what keeps it from answering; nil while a new responder runs.
	why error
	// until is when it may be tried again, and pause how long it is left alone.
	until time.Time
	pause time.Duration
}

// responders keeps one responder for each interface that could announce. Only the speaker's loop calls it.
type responders struct {
	log      logr.Logger
	counters responder.Counters
	// seen is told what others say of addresses.
	seen func(iface string, s responder.Sighting)
	// failed wakes the loop after a responder ended.
	failed chan<- struct{}

	tasks    map[string]*running
	troubles map[string]trouble
	all      sync.WaitGroup
}

// sync starts responders on interfaces that came, and ends those on interfaces that went or changed.
func (r *responders) sync(ctx context.Context, interfaces []links.Interface, now time.Time) {
	wanted := map[string]links.Interface{}
	for _, i := range interfaces {
		if i.Carrier {
			wanted[i.Name] = i
		}
	}
	for name, task := range maps.Clone(r.tasks) {
		i, still := wanted[name]
		same := still && i.Index == task.index && i.MAC.String() == task.mac
		if same && task.alive() {
			continue
		}
		r.stop(name, task)
		if same {
			r.fail(name, task.err, task.opened, now)
		} else {
			delete(r.troubles, name) // what comes under this name has not failed yet
		}
	}
	maps.DeleteFunc(r.troubles, func(name string, _ trouble) bool { _, still := wanted[name]; return !still })
	for name, i := range wanted {
		if _, runs := r.tasks[name]; !runs && !now.Before(r.troubles[name].until) {
			r.start(ctx, i, now)
		}
	}
}

// alive says whether the responder has not ended.
func (t *running) alive() bool {
	select {
	case <-t.done:
		return false
	default:
		return true
	}
}

// stop ends a responder and waits until it has.
func (r *responders) stop(name string, task *running) {
	task.cancel()
	<-task.done
	delete(r.tasks, name)
}

// fail notes that an interface cannot be answered on.
func (r *responders) fail(name string, why error, opened, now time.Time) {
	t := r.troubles[name]
	if now.Sub(opened) >= retryAtMost {
		t.pause = 0
	}
	pause := min(max(2*t.pause, retryAfter), retryAtMost)
	r.troubles[name] = trouble{why: why, pause: pause, until: opened.Add(pause)}
	r.log.Error(why, "cannot announce on an interface; it is tried again", "interface", name)
}

// start opens a responder. One that cannot be opened is tried again a little later.
func (r *responders) start(ctx context.Context, i links.Interface, now time.Time) {
	arp, err := responder.ListenARP(i.Index, i.MAC, responder.Config{
		Counters: r.counters, Seen: func(s responder.Sighting) { r.seen(i.Name, s) },
	})
	if err != nil {
		r.fail(i.Name, err, now, now)
		return
	}
	if t, failed := r.troubles[i.Name]; failed {
		t.why = nil
		r.troubles[i.Name] = t
	}
	ctx, cancel := context.WithCancel(ctx)
	task := &running{arp: arp, index: i.Index, mac: i.MAC.String(), opened: now, cancel: cancel, done: make(chan struct{})}
	r.tasks[i.Name] = task
	r.all.Go(func() {
		defer close(task.done)
		defer cancel()
		if task.err = arp.Run(ctx); task.err != nil {
			wake(r.failed)
		}
	})
}

// hear makes each interface listen to requests for these addresses. One that cannot is opened anew later.
func (r *responders) hear(ranges []responder.Range, now time.Time) {
	for name, task := range maps.Clone(r.tasks) {
		if err := task.arp.Hear(ranges); err != nil {
			r.stop(name, task)
			r.fail(name, err, task.opened, now)
		}
	}
}

// own makes each interface answer for exactly its own addresses.
func (r *responders) own(byInterface map[string][]netip.Addr, now time.Time) {
	for name, task := range r.tasks {
		task.arp.Own(byInterface[name], now)
	}
}

// announce tells everybody again where an address of ours is, on the interface that answers for it.
func (r *responders) announce(addr netip.Addr, now time.Time) {
	for _, task := range r.tasks {
		task.arp.Announce(addr, now)
	}
}

// probe asks on an interface whether anybody has an address. One that cannot be asked on is opened anew.
func (r *responders) probe(name string, addr netip.Addr, now time.Time) {
	task, runs := r.tasks[name]
	if !runs {
		return
	}
	if err := task.arp.Probe(addr, nil); err != nil {
		r.stop(name, task)
		r.fail(name, err, task.opened, now)
	}
}

// asker returns a function that asks a host whether it is there. A question that cannot be sent is one without an answer.
func (r *responders) asker() func(host) {
	tasks := maps.Clone(r.tasks)
	return func(h host) {
		if task, runs := tasks[h.iface]; runs && h.addr.Is4() {
			_ = task.arp.Probe(h.addr, nil)
		}
	}
}

// answers says whether a responder runs on the interface.
func (r *responders) answers(name string) bool {
	task, runs := r.tasks[name]
	return runs && task.alive()
}

// reasons are what keeps interfaces with carrier from being answered on, by name.
func (r *responders) reasons() map[string]string {
	all := map[string]string{}
	for name, t := range r.troubles {
		if t.why != nil {
			all[name] = t.why.Error()
		}
	}
	return all
}

// retryIn is when sync has to be called again at the latest.
func (r *responders) retryIn(now time.Time) time.Duration {
	next := lookAgain
	for _, t := range r.troubles {
		if t.why != nil {
			next = min(next, max(0, t.until.Sub(now)))
		}
	}
	return next
}

// wait returns once every responder has ended.
func (r *responders) wait() { r.all.Wait() }

// wake sends a signal that need not be repeated while one is pending.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
