package election

import "time"

// disturb changes something from outside.
func (c *cluster) disturb() {
	m := c.machines[c.rng.IntN(len(c.machines))]
	other := c.machines[c.rng.IntN(len(c.machines))]
	c.disturbed = c.now
	switch c.rng.IntN(14) {
	case 0:
		c.note("%s dies", m.name)
		c.stop(m, time.Duration(500+c.rng.IntN(3000))*time.Millisecond)
	case 1:
		c.note("%s is started anew before anybody notices", m.name)
		c.stop(m, time.Duration(50+c.rng.IntN(200))*time.Millisecond)
	case 2:
		c.rollOut(m)
	case 3:
		if m.alive && m.departing.IsZero() {
			c.note("%s is asked to end", m.name)
			m.departing, m.back = c.now, c.now.Add(departTime+time.Duration(c.rng.IntN(2000))*time.Millisecond)
		}
	case 4:
		c.note("%s loses its carrier, or has it again", m.name)
		m.carrier = !m.carrier
		m.version++
		m.told = time.Time{}
	case 5:
		c.note("%s is cut off", m.name)
		for _, o := range c.machines {
			c.gossip[pair(m, o)], c.wire[pair(m, o)] = true, true
		}
	case 6:
		c.note("the gossip between %s and %s is blocked", m.name, other.name)
		c.gossip[pair(m, other)] = true
	case 7:
		c.note("all gossip of %s is blocked", m.name)
		for _, o := range c.machines {
			c.gossip[pair(m, o)] = true
		}
	case 8:
		c.partition()
	case 9, 10:
		c.heal()
	case 11:
		m.deaf = c.now.Add(time.Duration(100+c.rng.IntN(500)) * time.Millisecond)
		c.note("%s starves, and hears nobody for %v", m.name, m.deaf.Sub(c.now))
	case 12:
		c.noAPI = !c.noAPI
		c.note("the API server is away: %v", c.noAPI)
	case 13:
		t := c.truth[m.name]
		switch c.rng.IntN(3) {
		case 0:
			t.excluded = !t.excluded
		case 1:
			t.away = !t.away
		case 2:
			t.endpoint = !t.endpoint
		}
		c.truth[m.name] = t
		c.note("%s is now %+v", m.name, t)
	}
}

// stop ends a speaker without a word.
func (c *cluster) stop(m *machine, away time.Duration) {
	if m.alive {
		m.alive, m.back = false, c.now.Add(away)
	}
}

// rollOut replaces a speaker by a newer one, whose place the others hold.
func (c *cluster) rollOut(m *machine) {
	if !m.alive || !m.departing.IsZero() {
		return
	}
	c.note("%s is replaced by a newer one", m.name)
	for _, peer := range c.machines {
		w, known := peer.words[m.name]
		if known && peer != m && peer.alive && c.reaches(c.gossip, m, peer) {
			w.hold, w.claims, w.version = c.now.Add(holdTime), m.claims, m.version
			peer.words[m.name] = w
		}
	}
	c.stop(m, time.Duration(500+c.rng.IntN(2500))*time.Millisecond)
}

// partition splits the cluster in two.
func (c *cluster) partition() {
	at := 1 + c.rng.IntN(len(c.machines)-1)
	c.note("the first %d are cut off from the others", at)
	for _, a := range c.machines[:at] {
		for _, b := range c.machines[at:] {
			c.gossip[pair(a, b)], c.wire[pair(a, b)] = true, true
		}
	}
}

// heal connects all again.
func (c *cluster) heal() {
	c.note("all are connected")
	clear(c.gossip)
	clear(c.wire)
}

// calm ends what disturbs, and leaves a few obstacles in place.
func (c *cluster) calm() {
	c.heal()
	c.noAPI = false
	for _, m := range c.machines {
		if !m.alive && m.back.IsZero() {
			m.back = c.now
		}
		if !m.carrier {
			m.carrier = true
			m.version++
			m.told = time.Time{}
		}
		m.deaf = time.Time{}
	}
	c.disturbed, c.changed = c.now, c.now
}
