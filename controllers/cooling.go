package controllers

import (
	"net/netip"
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// cooling remembers which addresses Services have given back, for as long as their pools keep them from others. The zero cooling remembers none.
type cooling struct {
	// held is who has which address now.
	held map[netip.Addr]string
	// since is when the others were given back.
	since map[netip.Addr]release
}

// release is by whom an address was given back, and when.
type release struct {
	by string
	at time.Time
}

// note takes in what the Services have now, and returns what is kept, and when the first of that is free; 0 when nothing is kept.
func (c *cooling) note(requests []ipam.Request, pools []v1alpha1.IPPool, parsed []ipam.Pool, now time.Time) (kept []ipam.Cooling, again time.Duration) {
	after := map[string]time.Duration{}
	for _, p := range pools {
		after[p.Name] = time.Duration(p.ReuseAfterSeconds) * time.Second
	}
	before := c.held
	c.held = make(map[netip.Addr]string, len(before))
	for _, r := range requests {
		for _, a := range r.Holds {
			c.held[a] = r.Service
		}
	}
	if c.since == nil {
		c.since = map[netip.Addr]release{}
	}
	for a, by := range before {
		if _, still := c.held[a]; !still {
			c.since[a] = release{by, now}
		}
	}
	for a, r := range c.since {
		pool, _ := ipam.PoolOf(parsed, a)
		left := after[pool] - now.Sub(r.at)
		if _, taken := c.held[a]; taken || left <= 0 {
			delete(c.since, a)
			continue
		}
		kept = append(kept, ipam.Cooling{Addr: a, Had: r.by})
		if again == 0 || left < again {
			again = left
		}
	}
	return kept, again
}
