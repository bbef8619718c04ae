package responder

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Hear makes the responder listen to who claims or asks for addresses in these ranges, of which Own takes some, and to who claims these hosts'. It
// listens to no others.
func (r *Responder) Hear(ranges []Range, hosts ...netip.Addr) error {
	all := slices.Clone(ranges)
	all = append(all, single(hosts)...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pooled, r.heard = merge(ranges, r.protocol.family), merge(all, r.protocol.family)
	return r.listenLocked(time.Now())
}

// listenLocked sets the filter to what is of interest now, if that is not what passes it. The caller holds mu.
func (r *Responder) listenLocked(now time.Time) error {
	wanted := interest{claimed: r.heard, asked: r.pooled}
	if _, crowded := r.crowd.passes(now); crowded {
		wanted.asked = merge(single(slices.Concat(slices.Collect(maps.Keys(r.owned)), r.sought)), r.protocol.family)
	}
	if wanted.equal(r.filtered) {
		return nil
	}
	program, err := r.protocol.selection().filter(r.index, wanted)
	if err != nil {
		return err
	}
	if err := r.conn.SetBPF(program); err != nil {
		return fmt.Errorf("setting the packet filter: %w", err)
	}
	r.filtered = wanted
	return nil
}

// refilterLocked is listenLocked where nobody waits for an error: it ends the responder, as one that does not hear who asks for an address must not
// be taken for one that answers. The caller holds mu.
func (r *Responder) refilterLocked(now time.Time) {
	if err := r.listenLocked(now); err != nil && r.failure == nil {
		r.failure = err
		_ = r.conn.SetReadDeadline(time.Unix(1, 0)) // it cannot fail but on a closed socket
	}
}

// listenAgain hears who asks for others' addresses again, once a crowd has had its time, and says when to look for that.
func (r *Responder) listenAgain(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refilterLocked(now)
	if until, crowded := r.crowd.passes(now); crowded {
		return until.Sub(now)
	}
	return idle
}

// failed says why the filter could not be set, if it could not.
func (r *Responder) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}
