package membership

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// The keys of these tests.
var oldKey, newKey, newerKey = bytes.Repeat([]byte{7}, 32), bytes.Repeat([]byte{8}, 32), bytes.Repeat([]byte{9}, 32)

// keys is a keyring, the key that encrypts first.
type keys [][]byte

// The steps from one key to the next.
var (
	oldAlone  = keys{oldKey}
	reading   = keys{oldKey, newKey}
	switching = keys{newKey, oldKey}
	newAlone  = keys{newKey}
)

func TestRekey(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to keys
		err      string
	}{
		"a key comes":                      {from: oldAlone, to: reading},
		"it encrypts":                      {from: reading, to: switching},
		"the old one goes":                 {from: switching, to: newAlone},
		"nothing changes":                  {from: reading, to: reading},
		"all at once":                      {from: oldAlone, to: newAlone},
		"other keys altogether":            {from: reading, to: keys{newerKey}},
		"another key comes":                {from: reading, to: keys{oldKey, newerKey}},
		"another key encrypts":             {from: reading, to: keys{newerKey, newKey}},
		"one comes while another goes":     {from: switching, to: keys{newKey, newerKey, oldKey}},
		"no keys are refused":              {from: reading, err: "there is no key to encrypt the gossip with"},
		"a key of a bad length is refused": {from: reading, to: keys{newKey, newerKey[:9]}, err: "key 2 of 2 cannot be used: key size must be 16, 24 or 32 bytes"},
		"a key that is there twice is refused": {
			from: reading, to: keys{newKey, newerKey, newKey}, err: "key 3 of 3 is there twice",
		},
	} {
		t.Run(name, func(t *testing.T) {
			ring, err := newRing(tc.from)
			if err != nil {
				t.Fatal(err)
			}
			want, said := tc.to, ""
			if err = rekey(ring, tc.to); err != nil {
				want, said = tc.from, err.Error()
			}
			if diff := cmp.Diff(tc.err, said); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, keys(ring.GetKeys())); diff != "" {
				t.Errorf("keys in force (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJoinRefusesBadKeys(t *testing.T) {
	_, err := Join(Config{Node: "a", Addr: loopback, Keys: keys{oldKey[:5]}, Log: io.Discard})
	want := "encrypting the gossip: key 1 of 1 cannot be used: key size must be 16, 24 or 32 bytes"
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// unread is a log that counts what could not be read for want of the key.
type unread struct{ lines atomic.Int32 }

func (u *unread) Write(line []byte) (int, error) {
	if strings.Contains(strings.ToLower(string(line)), "decrypt") {
		u.lines.Add(1)
	}
	return len(line), nil
}

// chat is a group of three that never misses when one of it is gone for a moment.
type chat struct {
	members []*Group
	unread  unread
	told    uint64
	// missed says that a member did not hear all of them for a moment.
	missed atomic.Bool
	// news wakes whoever waits for what a member knows.
	news  []chan struct{}
	ended sync.WaitGroup
}

// startChat starts three members that have met.
func startChat(t *testing.T, k keys) *chat {
	t.Helper()
	c := &chat{}
	peers := map[string]netip.AddrPort{}
	for _, node := range []string{"a", "b", "c"} {
		g := rejoinWith(t, node, 0, &c.unread, k...)
		c.members, c.news, peers[node] = append(c.members, g), append(c.news, make(chan struct{}, 1)), g.at()
	}
	for _, g := range c.members {
		run(t, g, peers)
		await(t, g, map[string]Member{"a": {}, "b": {}, "c": {}})
	}
	over := make(chan struct{})
	t.Cleanup(func() { close(over); c.ended.Wait() })
	for i, g := range c.members {
		c.ended.Go(func() { c.listen(g, c.news[i], over) })
	}
	return c
}

// listen looks at every change, that nobody is gone.
func (c *chat) listen(g *Group, news chan<- struct{}, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-g.Changed():
		}
		if len(g.Members()) < len(c.members) {
			c.missed.Store(true)
		}
		select {
		case news <- struct{}{}:
		default:
		}
	}
}

// talk lets each claim something new, and waits until each has heard it of all.
func (c *chat) talk(t *testing.T) {
	t.Helper()
	c.told++
	want := map[string]Member{}
	for i, g := range c.members {
		claims := map[netip.Addr]Claim{netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}): {Epoch: c.told, Stage: Held}}
		want[g.member.view.self] = Member{Claims: claims}
		g.Claim(claims)
	}
	late := time.After(20 * time.Second)
	for i, g := range c.members {
		for {
			diff := cmp.Diff(want, g.Members(), compareAll, cmpopts.EquateEmpty())
			if diff == "" {
				break
			}
			select {
			case <-c.news[i]:
			case <-late:
				t.Fatalf("%s does not hear what is said (-want +got):\n%s", g.member.view.self, diff)
			}
		}
	}
}

// TestARotationLosesNobody: three members talk while one after the other takes each step, and every word is read. On a machine that starves
// the test, a member may be thought to be dead for a moment: then it is tried again.
func TestARotationLosesNobody(t *testing.T) {
	for attempt := 1; ; attempt++ {
		c := startChat(t, oldAlone)
		for _, step := range []keys{reading, switching, newAlone, {newKey, newerKey}, {newerKey, newKey}, {newerKey}} {
			for i := range c.members {
				g := c.members[(i+int(c.told))%len(c.members)]
				if err := g.Rekey(step); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(step, keys(g.Keys())); diff != "" {
					t.Fatalf("keys in force (-want +got):\n%s", diff)
				}
				c.talk(t)
			}
		}
		if n := c.unread.lines.Load(); n > 0 {
			t.Fatalf("%d messages could not be read", n)
		}
		if !c.missed.Load() {
			return
		}
		if attempt == 5 {
			t.Fatal("a member was thought to be gone, at each attempt")
		}
	}
}

// TestAStepThatIsSkippedIsNoticed, so that the test before shows something.
func TestAStepThatIsSkippedIsNoticed(t *testing.T) {
	c := startChat(t, oldAlone)
	if err := c.members[0].Rekey(switching); err != nil {
		t.Fatal(err)
	}
	c.members[0].Claim(map[netip.Addr]Claim{x: {Epoch: 1, Stage: Held}})
	for deadline := time.Now().Add(20 * time.Second); c.unread.lines.Load() == 0; <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("everything can be read")
		}
	}
}

// TestARefusedKeyringLosesNobody: what was in force stays.
func TestARefusedKeyringLosesNobody(t *testing.T) {
	c := startChat(t, reading)
	for _, g := range c.members {
		if err := g.Rekey(keys{newKey[:3]}); err == nil {
			t.Error("a bad key is taken")
		}
	}
	c.talk(t)
	if n := c.unread.lines.Load(); n > 0 {
		t.Errorf("%d messages could not be read", n)
	}
}

// TestWhoJoinsDuringARotation: whoever is at most one step apart.
func TestWhoJoinsDuringARotation(t *testing.T) {
	for name, tc := range map[string]struct {
		group, joiner keys
		joins         bool
	}{
		"with the old key alone, while the new one is only read":       {group: reading, joiner: oldAlone, joins: true},
		"with both, while the others have the old one alone":           {group: oldAlone, joiner: reading, joins: true},
		"reading the new key, while it already encrypts":               {group: switching, joiner: reading, joins: true},
		"encrypting with the new key, while it is only read":           {group: reading, joiner: switching, joins: true},
		"with the new key alone, while the old one is still read":      {group: switching, joiner: newAlone, joins: true},
		"with both, while the others have the new one alone":           {group: newAlone, joiner: switching, joins: true},
		"with the old key alone, when the new one already encrypts":    {group: switching, joiner: oldAlone},
		"with the old key alone, when it is gone":                      {group: newAlone, joiner: oldAlone},
		"with a key that nobody knows, while one gives way to another": {group: reading, joiner: keys{newerKey}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := rejoinWith(t, "a", 0, io.Discard, tc.group...), rejoinWith(t, "b", 0, io.Discard, tc.joiner...)
			b.meet(t.Context(), map[string]netip.AddrPort{"a": a.at()}) // returns when it is refused
			knows := slices.Sorted(maps.Keys(b.Members()))
			want := []string{"b"}
			if tc.joins {
				want = []string{"a", "b"}
			}
			if diff := cmp.Diff(want, knows); diff != "" {
				t.Errorf("members that the joiner knows (-want +got):\n%s", diff)
			}
			if tc.joins {
				await(t, a, map[string]Member{"a": {}, "b": {}})
			}
		})
	}
}

// TestRekeyWhileEverybodyTalks, over and over, for the race detector.
func TestRekeyWhileEverybodyTalks(t *testing.T) {
	c := startChat(t, oldAlone)
	var busy sync.WaitGroup
	for i, g := range c.members {
		busy.Go(func() {
			for round := range 50 {
				for _, step := range []keys{reading, oldAlone, {oldKey, newKey, newerKey}, {oldKey, newerKey}, oldAlone} {
					if err := g.Rekey(step); err != nil {
						t.Error(err)
					}
				}
				g.Serve([]Segment{on(fmt.Sprintf("eth%d", round), fmt.Sprintf("10.0.%d.0/24", i))})
			}
			g.Serve(nil)
		})
	}
	busy.Wait()
	c.talk(t)
}
