package membership

import (
	"bytes"
	"sync"

	"github.com/hashicorp/memberlist"
)

// member is this speaker as memberlist asks for it.
type member struct {
	wake func()

	mu   sync.Mutex
	meta []byte
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

// NotifyJoin says that a speaker came.
func (m *member) NotifyJoin(*memberlist.Node) { m.wake() }

// NotifyLeave says that a speaker left or died.
func (m *member) NotifyLeave(*memberlist.Node) { m.wake() }

// NotifyUpdate says that a speaker can serve something else than before.
func (m *member) NotifyUpdate(*memberlist.Node) { m.wake() }
