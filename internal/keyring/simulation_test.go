package keyring

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// node is a machine with a kubelet and a speaker.
type node struct {
	// pod says that the API server has a pod of the speaker for it.
	pod bool
	// online says that its kubelet and its speaker reach the API server. The speakers hear each other all the same.
	online bool
	// mounted is what the pod's files hold; nil while they are not there.
	mounted *Keyring
	// running says that the speaker runs, with the keys that are in force then.
	running bool
	inForce Keyring
	// report is the digest in the node's NodeNetworking; it outlives the speaker.
	report string
}

// cluster is the machines, the API server and the manager, in random lags.
type cluster struct {
	rng   *rand.Rand
	next  func(Facts) Step
	nodes map[string]*node
	made  int

	// The API server's: the Secret, its version, for what a key was made last, and for what one is asked for.
	secret    *Keyring
	version   int
	served    string
	requested int

	// The manager's: what it knows of the Secret, the reports as its cache has them, and what it is about to write over which version.
	known  Keyring
	cached map[string]string
	plan   *Step
	over   int

	// rotated counts the keys that gave way.
	rotated int
	story   []string
}

func newCluster(seed uint64, next func(Facts) Step) *cluster {
	c := &cluster{rng: rand.New(rand.NewPCG(seed, 7)), next: next, nodes: map[string]*node{}, cached: map[string]string{}}
	c.secret = &Keyring{Key: c.fresh()}
	for range 3 {
		c.join()
	}
	return c
}

// chance is true once in n times.
func (c *cluster) chance(n int) bool { return c.rng.IntN(n) == 0 }

func (c *cluster) note(format string, args ...any) {
	c.story = append(c.story, fmt.Sprintf(format, args...))
}

// fresh is a key that there was not before.
func (c *cluster) fresh() []byte {
	c.made++
	return fmt.Appendf(nil, "%032d", c.made)
}

func (c *cluster) names() []string { return slices.Sorted(maps.Keys(c.nodes)) }

func (c *cluster) any() (string, *node) {
	names := c.names()
	name := names[c.rng.IntN(len(names))]
	return name, c.nodes[name]
}

// join adds a machine, which has a pod soon.
func (c *cluster) join() {
	c.made++
	name := fmt.Sprintf("n%03d", c.made)
	c.nodes[name] = &node{online: true, pod: true}
	c.note("%s joins", name)
}

// disturb lets something happen to a machine, or somebody do something.
func (c *cluster) disturb() {
	name, n := c.any()
	switch c.rng.IntN(10) {
	case 0:
		c.note("the speaker of %s crashes", name) // its kubelet starts it again in the same pod, even while it is cut off
		n.running = false
	case 1:
		c.note("%s is cut off from the API server", name)
		n.online = false
	case 2:
		c.note("%s is connected again", name)
		n.online = true
	case 3:
		c.note("%s loses its power", name)
		n.running, n.mounted, n.online = false, nil, false
	case 4, 5:
		c.note("the pod of %s is replaced", name) // the newer one mounts the Secret anew, and the report stays
		n.running, n.mounted, n.pod = false, nil, !n.online
	case 6:
		if len(c.nodes) < 6 {
			c.join()
		}
	case 7:
		if len(c.nodes) > 2 && !n.running {
			c.note("%s is gone for good", name)
			delete(c.nodes, name)
			delete(c.cached, name)
		}
	case 8:
		c.requested++
		c.note("request %d for a new key", c.requested)
	case 9:
		if c.secret != nil && bytes.Equal(c.secret.Key, c.known.Key) && Digest(c.secret.Keys()) == Digest(c.known.Keys()) && c.chance(4) {
			c.note("somebody takes the Secret away")
			c.secret = nil
			c.version++
		}
	}
}

// live lets a machine do what it does by itself.
func (c *cluster) live(name string, n *node) {
	if !n.pod && n.online && c.chance(3) {
		n.pod = true
	}
	if n.pod && n.online && c.secret != nil && c.chance(8) {
		mounted := *c.secret
		n.mounted = &mounted
	}
	if !n.running && n.pod && n.mounted != nil && c.chance(3) {
		n.running, n.inForce = true, *n.mounted
		c.note("the speaker of %s starts with %s", name, c.tell(n.inForce))
	}
	if n.running && n.mounted != nil && c.chance(2) && Digest(n.inForce.Keys()) != Digest(n.mounted.Keys()) {
		n.inForce = *n.mounted
		c.note("the speaker of %s takes over %s", name, c.tell(n.inForce))
	}
	if n.running && n.online && c.chance(2) {
		n.report = Digest(n.inForce.Keys())
	}
}

// manage lets the manager read, or write what it has decided.
func (c *cluster) manage() {
	if c.plan != nil {
		step := *c.plan
		if c.plan = nil; c.over == c.version {
			c.write(step)
		}
		return
	}
	facts := Facts{Known: c.known, Served: c.served, InForce: map[string]string{}, Fresh: c.fresh()}
	if c.requested > 0 {
		facts.Requested = fmt.Sprint(c.requested)
	}
	if c.secret != nil {
		facts.Stored, c.known = c.secret.Entries(), *c.secret
	}
	for name, n := range c.nodes {
		if n.pod {
			facts.InForce[name] = c.cached[name]
		}
	}
	step := c.next(facts)
	c.plan, c.over = &step, c.version
}

// write makes the Secret as a step has it.
func (c *cluster) write(s Step) {
	ring, err := Parse(s.Entries)
	if err != nil {
		c.note("a step that cannot be read: %v", err)
		return
	}
	if c.secret == nil || Digest(c.secret.Keys()) != Digest(ring.Keys()) {
		c.note("the Secret becomes %s", c.tell(ring))
		c.version++
		if c.secret != nil && len(c.secret.Previous) > 0 && len(ring.Previous) == 0 {
			c.rotated++
		}
	}
	c.secret, c.served, c.known = &ring, s.Served, ring
}

// tell writes a keyring as the numbers of its keys.
func (c *cluster) tell(k Keyring) string {
	text := ""
	for _, key := range k.Keys() {
		text += fmt.Sprintf("[%s]", bytes.TrimLeft(key, "0"))
	}
	return text
}

// refresh lets the manager's cache see some reports.
func (c *cluster) refresh() {
	for _, name := range c.names() {
		if c.chance(2) {
			c.cached[name] = c.nodes[name].report
		}
	}
}

// deaf returns a speaker that cannot read what another writes; empty when there is none.
func (c *cluster) deaf() string {
	for _, x := range c.names() {
		for _, y := range c.names() {
			from, to := c.nodes[x], c.nodes[y]
			reads := slices.ContainsFunc(to.inForce.Keys(), func(key []byte) bool { return bytes.Equal(key, from.inForce.Key) })
			if from.running && to.running && !reads {
				return fmt.Sprintf("%s with %s does not read what %s writes with %s", y, c.tell(to.inForce), x, c.tell(from.inForce))
			}
		}
	}
	return ""
}

// tick lets some time pass.
func (c *cluster) tick() {
	for _, name := range c.names() {
		c.live(name, c.nodes[name])
	}
	c.refresh()
	if c.chance(2) {
		c.manage()
	}
}

// mend ends all that disturbs.
func (c *cluster) mend() {
	for _, n := range c.nodes {
		n.online = true
	}
}

// settled says whether there is one key, which everybody has in force, for the last request.
func (c *cluster) settled() bool {
	for _, n := range c.nodes {
		if !n.running || c.secret == nil || len(n.inForce.Keys()) != 1 || !bytes.Equal(n.inForce.Key, c.secret.Key) {
			return false
		}
	}
	return c.requested == 0 || c.served == fmt.Sprint(c.requested)
}

// run lives through one history, and returns how many keys gave way, and what went wrong.
func run(seed uint64, next func(Facts) Step) (rotated int, problem string, story []string) {
	c := newCluster(seed, next)
	for range 1000 {
		if c.chance(12) {
			c.disturb()
		}
		c.tick()
		if deaf := c.deaf(); deaf != "" {
			return c.rotated, deaf, c.story
		}
	}
	c.mend()
	for range 2000 {
		c.tick()
		if deaf := c.deaf(); deaf != "" {
			return c.rotated, deaf, c.story
		}
		if c.settled() {
			return c.rotated, "", c.story
		}
	}
	return c.rotated, "it does not come to an end", c.story
}

// histories is how many a simulation lives through.
const histories = 300

// TestSimulation: whatever lags, crashes, starts anew or is cut off, any two speakers that run read each other, and a new key that was asked
// for is there in the end.
func TestSimulation(t *testing.T) {
	rotated := 0
	for seed := range uint64(histories) {
		n, problem, story := run(seed, Next)
		rotated += n
		if problem != "" {
			for _, line := range story[max(0, len(story)-40):] {
				t.Log(line)
			}
			t.Fatalf("history %d: %s", seed, problem)
		}
	}
	if rotated < histories {
		t.Errorf("%d keys gave way in %d histories: too few to show anything", rotated, histories)
	}
}

// TestSimulationCatchesMutations takes each rule away in turn, and sees that it is missed.
func TestSimulationCatchesMutations(t *testing.T) {
	for name, mutate := range map[string]func(Facts) Step{
		"nobody is waited for": func(f Facts) Step {
			f.InForce = nil
			return Next(f)
		},
		"who has never reported is not waited for": func(f Facts) Step {
			maps.DeleteFunc(f.InForce, func(_, digest string) bool { return digest == "" })
			return Next(f)
		},
		"one who lags is not waited for": func(f Facts) Step {
			if stored, err := Parse(f.Stored); err == nil && f.Stored != nil && len(f.lagging(stored)) == 1 {
				f.InForce = nil
			}
			return Next(f)
		},
		"a report counts, whatever it says": func(f Facts) Step {
			if stored, err := Parse(f.Stored); err == nil {
				for node, digest := range f.InForce {
					if digest != "" {
						f.InForce[node] = Digest(stored.Keys())
					}
				}
			}
			return Next(f)
		},
		"the new key encrypts before all read it": func(f Facts) Step {
			s := Next(f)
			if ring, err := Parse(s.Entries); err == nil && len(ring.Next) > 0 && len(ring.Previous) == 0 {
				s.Entries = Keyring{Key: ring.Next, Previous: ring.Key}.Entries()
			}
			return s
		},
		"the old key goes when the new one encrypts": func(f Facts) Step {
			s := Next(f)
			delete(s.Entries, "previous")
			return s
		},
		"a Secret that was taken away is made with a new key alone": func(f Facts) Step {
			f.Known = Keyring{}
			return Next(f)
		},
		"a Secret that was taken away comes back without the key that goes": func(f Facts) Step {
			f.Known.Previous = nil
			return Next(f)
		},
		"a request is forgotten": func(f Facts) Step {
			f.Requested = ""
			return Next(f)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(histories) {
				if _, problem, _ := run(seed, mutate); problem != "" {
					t.Logf("history %d: %s", seed, problem)
					return
				}
			}
			t.Error("nothing goes wrong without it")
		})
	}
}
