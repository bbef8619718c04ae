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

// protocol is by which addresses of a family are answered for.
type protocol string

// The protocols.
const (
	byARP protocol = "ARP"
	byNDP protocol = "NDP"
)

// protocolOf is the one of an address's family.
func protocolOf(a netip.Addr) protocol {
	if a.Is4() {
		return byARP
	}
	return byNDP
}

// outlet is an interface on which a protocol is spoken, as it is where an address of the family is.
type outlet struct {
	iface    string
	protocol protocol
}

// outletsOf are those of the interfaces that have carrier.
func outletsOf(interfaces []links.Interface) map[outlet]links.Interface {
	all := map[outlet]links.Interface{}
	for _, i := range interfaces {
		for _, p := range i.Addresses {
			if i.Carrier {
				all[outlet{i.Name, protocolOf(p.Addr())}] = i
			}
		}
	}
	return all
}

// running is a responder at an outlet.
type running struct {
	responder *responder.Responder
	index     int
	mac       string
	opened    time.Time
	cancel    context.CancelFunc
	done      chan struct{}
	// err is why it ended; it is read once done is closed.
	err error
}

// trouble is what is known of an outlet whose responder failed.
type trouble struct {
	// why says what keeps it from answering; nil while a new responder runs.
	why error
	// until is when it may be tried again, and pause how long it is left alone.
	until time.Time
	pause time.Duration
}

// responders keeps one responder for each outlet. Only the speaker's loop calls it.
type responders struct {
	log      logr.Logger
	counters func(protocol) responder.Counters
	// seen is told what others say of addresses.
	seen func(iface string, s responder.Sighting)
	// failed wakes the loop after a responder ended.
	failed chan<- struct{}

	tasks    map[outlet]*running
	troubles map[outlet]trouble
	all      sync.WaitGroup
}

func newResponders(
	log logr.Logger, counters func(protocol) responder.Counters, seen func(string, responder.Sighting), failed chan<- struct{},
) *responders {
	return &responders{log: log, counters: counters, seen: seen, failed: failed, tasks: map[outlet]*running{}, troubles: map[outlet]trouble{}}
}

// sync starts responders at outlets that came, and ends those at outlets that went or changed.
func (r *responders) sync(ctx context.Context, interfaces []links.Interface, now time.Time) {
	wanted := outletsOf(interfaces)
	for at, task := range maps.Clone(r.tasks) {
		i, still := wanted[at]
		same := still && i.Index == task.index && i.MAC.String() == task.mac
		if same && task.alive() {
			continue
		}
		r.stop(at, task)
		if same {
			r.fail(at, task.err, task.opened, now)
		} else {
			delete(r.troubles, at) // what comes under this name has not failed yet
		}
	}
	maps.DeleteFunc(r.troubles, func(at outlet, _ trouble) bool { _, still := wanted[at]; return !still })
	for at, i := range wanted {
		if _, runs := r.tasks[at]; !runs && !now.Before(r.troubles[at].until) {
			r.start(ctx, at, i, now)
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
func (r *responders) stop(at outlet, task *running) {
	task.cancel()
	<-task.done
	delete(r.tasks, at)
}

// fail notes that an outlet cannot be answered at.
func (r *responders) fail(at outlet, why error, opened, now time.Time) {
	t := r.troubles[at]
	if now.Sub(opened) >= retryAtMost {
		t.pause = 0
	}
	pause := min(max(2*t.pause, retryAfter), retryAtMost)
	r.troubles[at] = trouble{why: why, pause: pause, until: opened.Add(pause)}
	r.log.Error(why, "cannot announce on an interface; it is tried again", "interface", at.iface, "protocol", at.protocol)
}

// start opens a responder. One that cannot be opened is tried again a little later.
func (r *responders) start(ctx context.Context, at outlet, i links.Interface, now time.Time) {
	listen := responder.ListenARP
	if at.protocol == byNDP {
		listen = responder.ListenNDP
	}
	opened, err := listen(i.Index, i.MAC, responder.Config{
		Counters: r.counters(at.protocol), Seen: func(s responder.Sighting) { r.seen(i.Name, s) },
		Failed: func(err error) {
			r.log.Error(err, "an address may not be reachable; it is tried again", "interface", at.iface, "protocol", at.protocol)
		},
	})
	if err != nil {
		r.fail(at, err, now, now)
		return
	}
	if t, failed := r.troubles[at]; failed {
		t.why = nil
		r.troubles[at] = t
	}
	ctx, cancel := context.WithCancel(ctx)
	task := &running{responder: opened, index: i.Index, mac: i.MAC.String(), opened: now, cancel: cancel, done: make(chan struct{})}
	r.tasks[at] = task
	r.all.Go(func() {
		defer close(task.done)
		defer cancel()
		if task.err = opened.Run(ctx); task.err != nil {
			wake(r.failed)
		}
	})
}

// hear makes each outlet listen to questions about these addresses, and to what these hosts say. One that cannot is opened anew later.
func (r *responders) hear(ranges []responder.Range, around []host, now time.Time) {
	hosts := make([]netip.Addr, 0, len(around))
	for _, h := range around {
		hosts = append(hosts, h.addr)
	}
	for at, task := range maps.Clone(r.tasks) {
		if err := task.responder.Hear(ranges, hosts...); err != nil {
			r.stop(at, task)
			r.fail(at, err, task.opened, now)
		}
	}
}

// own makes each interface answer for exactly its own addresses, and hear who else asks for those that it seeks: each responder takes those of its
// family.
func (r *responders) own(owned, sought map[string][]netip.Addr, now time.Time) {
	for at, task := range r.tasks {
		task.responder.Seek(sought[at.iface], now)
		task.responder.Own(owned[at.iface], now)
	}
}

// announce tells everybody again where an address of ours is, on the interface that answers for it.
func (r *responders) announce(addr netip.Addr, now time.Time) {
	for _, task := range r.tasks {
		task.responder.Announce(addr, now)
	}
}

// reassure answers once more those who asked for our addresses, before nobody answers for some seconds.
func (r *responders) reassure(ctx context.Context) {
	for _, task := range r.tasks {
		task.responder.Reassure(ctx)
	}
}

// probe asks on an interface whether anybody has an address. An outlet that cannot be asked at is opened anew.
func (r *responders) probe(name string, addr netip.Addr, now time.Time) {
	at := outlet{name, protocolOf(addr)}
	task, runs := r.tasks[at]
	if !runs {
		return
	}
	if err := task.responder.Probe(addr, nil); err != nil {
		r.stop(at, task)
		r.fail(at, err, task.opened, now)
	}
}

// asker returns a function that asks a host whether it is there, and prober one that asks whether anybody has an address. A question that
// cannot be sent is one without an answer.
func (r *responders) asker() func(host) {
	return r.sending(func(at *responder.Responder, h host) error { return at.Ask(h.addr, h.from) })
}

func (r *responders) prober() func(host) {
	return r.sending(func(at *responder.Responder, h host) error { return at.Probe(h.addr, nil) })
}

// sending returns a function that sends a question at the outlet of a host, if one runs now. It may be called from any goroutine.
func (r *responders) sending(question func(*responder.Responder, host) error) func(host) {
	tasks := maps.Clone(r.tasks)
	return func(h host) {
		if task, runs := tasks[outlet{h.iface, protocolOf(h.addr)}]; runs {
			_ = question(task.responder, h)
		}
	}
}

// answers says whether a responder of an address's family runs on the interface.
func (r *responders) answers(name string, addr netip.Addr) bool {
	task, runs := r.tasks[outlet{name, protocolOf(addr)}]
	return runs && task.alive()
}

// reasons are what keeps outlets of interfaces with carrier from being answered at.
func (r *responders) reasons() map[outlet]string {
	all := map[outlet]string{}
	for at, t := range r.troubles {
		if t.why != nil {
			all[at] = t.why.Error()
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
