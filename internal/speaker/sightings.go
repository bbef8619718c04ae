package speaker

import (
	"net/netip"
	"sync"

	"github.com/lanyard-dev/lanyard/internal/responder"
)

// sightingsKept is how many sightings wait for a pass at most: a storm of them costs no more than this.
const sightingsKept = 4096

// sightings are what others say on the wire of the addresses that this node claims, until the next pass.
type sightings struct {
	// wake is woken when there is one.
	wake chan<- struct{}

	mu      sync.Mutex
	claimed map[netip.Addr]bool
	waiting map[responder.Sighting]bool
}

// note keeps a sighting of an address that this node claims. It is called for every packet about the pools, and does not block.
func (s *sightings) note(sighting responder.Sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.claimed[sighting.Addr] || s.waiting[sighting] || len(s.waiting) >= sightingsKept {
		return
	}
	s.waiting[sighting] = true
	wake(s.wake)
}

// take returns what was seen since it was called last.
func (s *sightings) take() map[responder.Sighting]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.waiting
	s.waiting = map[responder.Sighting]bool{}
	return taken
}

// about sets which addresses this node claims.
func (s *sightings) about(claimed map[netip.Addr]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimed = claimed
}
