package membership

import (
	"bytes"
	"maps"
	"sync"

	"github.com/hashicorp/memberlist"
)

// member is this speaker as memberlist asks for it, and the others as memberlist tells of them. Its own list of them is not read: memberlist
// goes on writing to the nodes that it hands out.
type member struct {
	wake func()

	mu   sync.Mutex
	meta []byte
	// living are the living members, this one included, with what they serve.
	living map[string][]Segment
}

var (
	_ memberlist.Delegate      = (*member)(nil)
	_ memberlist.EventDelegate = (*member)(nil)
)

// set changes what the member tells of itself, and says whether that differs.
func (m *member) set(meta []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes.Equal(m.meta, meta) {
		return false
	}
	m.meta = meta
	return true
}

// NodeMeta is what the member tells of itself.
func (m *member) NodeMeta(int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.meta
}

// NotifyMsg is not used: members send each other no messages.
func (m *member) NotifyMsg([]byte) {}

// GetBroadcasts is not used.
func (m *member) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState is not used.
func (m *member) LocalState(bool) []byte { return nil }

// MergeRemoteState is not used.
func (m *member) MergeRemoteState([]byte, bool) {}

// everyone returns the living members.
func (m *member) everyone() map[string][]Segment {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.living)
}

// NotifyJoin says that a speaker came.
func (m *member) NotifyJoin(n *memberlist.Node) { m.NotifyUpdate(n) }

// NotifyLeave says that a speaker left or died.
func (m *member) NotifyLeave(n *memberlist.Node) {
	m.mu.Lock()
	delete(m.living, n.Name)
	m.mu.Unlock()
	m.wake()
}

// NotifyUpdate says that a speaker serves something else than before.
func (m *member) NotifyUpdate(n *memberlist.Node) {
	segments := decode(n.Meta)
	m.mu.Lock()
	m.living[n.Name] = segments
	m.mu.Unlock()
	m.wake()
}
