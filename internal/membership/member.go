package membership

import (
	"bytes"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// member is this speaker as memberlist asks for it, and the others as memberlist tells of them. Its own list of them is not read: memberlist
// goes on writing to the nodes that it hands out.
//
// The lock is never held while memberlist or the queue is called: both call back.
type member struct {
	wake func()
	// queue has the messages that gossip carries.
	queue *memberlist.TransmitLimitedQueue

	mu       sync.Mutex
	segments []byte
	view     *view
	// timer wakes the member when something that it knows has a time. It is nil while nothing has.
	timer *time.Timer
	// advertise tells the others what the member says of itself. It is nil until memberlist runs, and once it is closed.
	advertise func()
}

var (
	_ memberlist.Delegate      = (*member)(nil)
	_ memberlist.EventDelegate = (*member)(nil)
	_ memberlist.PingDelegate  = (*member)(nil)
)

func newMember(node string, wake func()) *member {
	m := &member{wake: wake, view: newView(node, uint64(time.Now().UnixNano()))}
	m.queue = &memberlist.TransmitLimitedQueue{NumNodes: m.living, RetransmitMult: retransmitMult}
	return m
}

// locked calls f with what is known now, and looks at the times again afterwards.
func (m *member) locked(f func(v *view, now time.Time)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.view.expire(now) {
		m.wake()
	}
	f(m.view, now)
	next := m.view.next()
	switch {
	case m.timer != nil && next.IsZero():
		m.timer.Stop()
	case m.timer != nil:
		m.timer.Reset(next.Sub(now))
	case !next.IsZero():
		m.timer = time.AfterFunc(next.Sub(now), func() { m.locked(func(*view, time.Time) {}) })
	}
}

// set changes the segments that the member tells, and says whether they differ.
func (m *member) set(segments []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes.Equal(m.segments, segments) {
		return false
	}
	m.segments = segments
	return true
}

// reach sets how the others are told what the member says of itself.
func (m *member) reach(advertise func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advertise = advertise
}

// introduce tells the others what the member says of itself.
func (m *member) introduce() {
	m.mu.Lock()
	advertise := m.advertise
	m.mu.Unlock()
	if advertise != nil {
		advertise()
	}
}

// tell gives messages to gossip.
func (m *member) tell(messages []message) {
	for _, msg := range messages {
		m.queue.QueueBroadcast(&broadcast{message: msg.encode()})
	}
}

// NodeMeta is what the member tells of itself.
func (m *member) NodeMeta(int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return introduce(m.view.own().incarnation, m.segments)
}

// NotifyMsg takes in a message and, if it is news, tells it on: gossip that a member begins reaches a dozen others at most.
func (m *member) NotifyMsg(buf []byte) {
	msg, ok := parse(buf)
	if !ok {
		return
	}
	if m.merge([]message{msg}) && len(buf) <= messageLimit {
		m.queue.QueueBroadcast(&broadcast{message: slices.Clone(buf)})
	}
}

// GetBroadcasts hands gossip what is to be told.
func (m *member) GetBroadcasts(overhead, limit int) [][]byte {
	return m.queue.GetBroadcasts(overhead, limit)
}

// LocalState is what is known of everybody.
func (m *member) LocalState(join bool) []byte {
	var messages []message
	m.locked(func(v *view, now time.Time) { messages = v.tellAll(join, now) })
	return encodeAll(messages)
}

// MergeRemoteState takes in what another knows of everybody.
func (m *member) MergeRemoteState(buf []byte, _ bool) { m.merge(parseAll(buf)) }

// merge takes in messages and says whether any is news.
func (m *member) merge(messages []message) (news bool) {
	raised, again := false, []message(nil)
	m.locked(func(v *view, now time.Time) {
		for _, msg := range messages {
			e := v.merge(msg, now)
			news, raised = news || e.news, raised || e.raised
			if e.changed {
				m.wake()
			}
		}
		if raised && v.told {
			again = v.tell(v.self, v.own(), now).split()
		}
	})
	if raised {
		m.introduce()
		m.tell(again)
	}
	return news
}

// NotifyJoin says that a speaker came.
func (m *member) NotifyJoin(n *memberlist.Node) { m.NotifyUpdate(n) }

// NotifyLeave says that a speaker left or died. Which of them it does not say: memberlist does not write it to the node that it hands out.
func (m *member) NotifyLeave(n *memberlist.Node) {
	m.locked(func(v *view, _ time.Time) { v.record(n.Name).unheard() })
	m.wake()
}

// NotifyUpdate says that a speaker says something else of itself than before.
func (m *member) NotifyUpdate(n *memberlist.Node) {
	ip, _ := netip.AddrFromSlice(n.Addr)
	at, meta := netip.AddrPortFrom(ip.Unmap(), n.Port), slices.Clone(n.Meta)
	m.locked(func(v *view, now time.Time) { v.record(n.Name).heard(meta, at, now) })
	m.wake()
}

// AckPayload is what the member adds to its answer that it lives: nothing.
func (m *member) AckPayload() []byte { return nil }

// NotifyPingComplete says that a speaker has answered that it lives.
func (m *member) NotifyPingComplete(n *memberlist.Node, _ time.Duration, _ []byte) {
	m.locked(func(v *view, now time.Time) { v.record(n.Name).answered = now })
}

// living counts the members that live.
func (m *member) living() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view.living()
}

// stop ends the timer.
func (m *member) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advertise = nil
	if m.timer != nil {
		m.timer.Stop()
	}
}

// broadcast is a message that gossip carries. None replaces another: each may have a part that no other has.
type broadcast struct {
	message []byte
	// sent, if not nil, is closed when the message has been sent as often as it is.
	sent chan struct{}
}

var _ memberlist.UniqueBroadcast = (*broadcast)(nil)

// Invalidates says that it replaces none.
func (b *broadcast) Invalidates(memberlist.Broadcast) bool { return false }

// Message is what is sent.
func (b *broadcast) Message() []byte { return b.message }

// Finished says that it was sent.
func (b *broadcast) Finished() {
	if b.sent != nil {
		close(b.sent)
	}
}

// UniqueBroadcast spares the queue the search for those that it replaces.
func (b *broadcast) UniqueBroadcast() {}
