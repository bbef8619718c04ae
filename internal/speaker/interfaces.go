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

// retryAfter is how long an interface whose responder failed is left alone.
const retryAfter = 500 * time.Millisecond

// running is a responder on an interface.
type running struct {
	arp    *responder.ARP
	index  int
	mac    string
	cancel context.CancelFunc
	done   chan struct{}
}

// responders keeps one responder for each interface that could announce. Only the speaker's loop calls it.
type responders struct {
	log      logr.Logger
	counters responder.Counters
	// failed wakes the loop after a responder ended.
	failed chan<- struct{}

	tasks map[string]*running
	// notBefore is when an interface whose responder fails may be tried again.
	notBefore map[string]time.Time
	// waiting says that an interface is left alone for now: sync has to be called again.
	waiting bool
	all     sync.WaitGroup
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
		select {
		case <-task.done: // it failed by itself
		default:
			if same {
				continue
			}
			task.cancel()
			<-task.done
		}
		delete(r.tasks, name)
		if !same {
			delete(r.notBefore, name) // what comes under this name has not failed yet
		}
	}
	maps.DeleteFunc(r.notBefore, func(name string, _ time.Time) bool { _, still := wanted[name]; return !still })
	r.waiting = false
	for name, i := range wanted {
		if _, runs := r.tasks[name]; runs {
			continue
		}
		if !now.Before(r.notBefore[name]) {
			r.start(ctx, i, now)
		}
		if _, runs := r.tasks[name]; !runs {
			r.waiting = true
		}
	}
}

// start opens a responder. One that cannot be opened is tried again a little later.
func (r *responders) start(ctx context.Context, i links.Interface, now time.Time) {
	arp, err := responder.Listen(i.Index, i.MAC, r.counters)
	if err != nil {
		r.log.Error(err, "cannot announce on an interface; it is tried again", "interface", i.Name)
		r.notBefore[i.Name] = now.Add(retryAfter)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	task := &running{arp: arp, index: i.Index, mac: i.MAC.String(), cancel: cancel, done: make(chan struct{})}
	r.tasks[i.Name] = task
	r.notBefore[i.Name] = now.Add(retryAfter)
	r.all.Go(func() {
		defer close(task.done)
		defer cancel()
		if err := arp.Run(ctx); err != nil {
			r.log.Error(err, "stopped announcing on an interface; it is tried again", "interface", i.Name)
			wake(r.failed)
		}
	})
}

// announce makes each interface listen to requests for what the cluster announces, and answer for exactly its own addresses.
func (r *responders) announce(byInterface map[string][]netip.Addr, heard []responder.Range, now time.Time) {
	for name, task := range r.tasks {
		if err := task.arp.Hear(heard); err != nil {
			r.log.Error(err, "cannot listen on an interface; it is opened anew", "interface", name)
			task.cancel()
			wake(r.failed)
			continue
		}
		task.arp.Own(byInterface[name], now)
	}
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
