package speaker

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lanyard-dev/lanyard/internal/membership"
	"github.com/lanyard-dev/lanyard/internal/responder"
)

// chronicle is a group that notes each change of what the node claims, and remembers epochs.
type chronicle struct {
	*gossip
	epochs map[netip.Addr]uint64
	told   []map[netip.Addr]membership.Claim
}

func (c *chronicle) Epochs() map[netip.Addr]uint64 { return c.epochs }

func (c *chronicle) Claim(claims map[netip.Addr]membership.Claim) {
	if len(c.told) == 0 || !maps.Equal(c.told[len(c.told)-1], claims) {
		c.told = append(c.told, claims)
	}
	c.gossip.Claim(claims)
}

// foreign is a host at the far end of the cable, with a hardware address that is none of this machine's, that answers for the address.
func foreign(t *testing.T) {
	t.Helper()
	far, err := net.InterfaceByName("far")
	if err != nil {
		t.Fatal(err)
	}
	h, err := responder.ListenARP(far.Index, highMAC[:], responder.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Hear([]responder.Range{{First: sought, Last: sought}}); err != nil {
		t.Fatal(err)
	}
	h.Own([]netip.Addr{sought}, time.Now().Add(time.Hour)) // when it announces that: until then only who asks hears of it
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the host ended with %v", err)
		}
	})
}

// TestAnAddressGoesFromNodeToNode: the speaker of w1 on a LAN with w2 and with another host.
func TestAnAddressGoesFromNodeToNode(t *testing.T) {
	type told = map[netip.Addr]membership.Claim
	claim := func(epoch uint64, stage membership.Stage) told { return told{sought: {Epoch: epoch, Stage: stage}} }
	type world struct {
		*Speaker
		*chronicle
	}
	// w2 is heard, on the same LAN, with these claims.
	w2 := func(claims told) func(*testing.T, world) {
		return func(_ *testing.T, w world) {
			w.others = map[string]membership.Member{"w2": {Segments: []membership.Segment{on("near", "192.168.1.0/24")}, Claims: claims}}
		}
	}
	type step struct {
		what   string
		change func(t *testing.T, w world)
		// answered means that another host's answer comes before the second pass.
		answered bool
		// want are the changes of what the others are told. Passes are made until the last of them; for one the first pass has to be enough.
		want []told
		// ours are the addresses that are reported as announced by this node, and why the others are announced by nobody.
		ours, why []string
		gone      bool // it may end
	}
	for name, tc := range map[string]struct {
		former told
		steps  []step
	}{
		"w2 has it, and dies": {steps: []step{
			{what: "w2 has the address: it keeps it", change: w2(claim(4, membership.Held)), want: []told{{}}},
			{what: "w2 is gone: this node asks the wire, which stays silent, and has it",
				change: func(_ *testing.T, w world) { w.others = nil },
				want:   []told{claim(5, membership.Taking), claim(5, membership.Held)}, ours: []string{"192.168.1.200"}},
			{what: "w2 comes back: who has an address keeps it", change: w2(nil), want: []told{}, ours: []string{"192.168.1.200"}},
			{what: "this speaker ends: it answers until w2 does", change: func(_ *testing.T, w world) { w.departing.Store(true) },
				want: []told{claim(5, membership.Offered)}, ours: []string{"192.168.1.200"}},
			{what: "w2 asks the wire", change: w2(claim(6, membership.Taking)), want: []told{}, ours: []string{"192.168.1.200"}},
			{what: "w2 has it", change: w2(claim(6, membership.Held)), want: []told{{}}, gone: true},
		}},
		"this speaker was started anew, and the others have kept its place": {former: claim(4, membership.Held), steps: []step{
			{what: "it answers in its first pass, and asks nobody", change: w2(nil), want: []told{claim(4, membership.Held)}, ours: []string{"192.168.1.200"}},
		}},
		"a host has the address": {steps: []step{
			{what: "this node asks the wire, and leaves it to the host",
				change:   func(t *testing.T, _ world) { foreign(t) },
				answered: true, want: []told{claim(5, membership.Taking), {}}, why: []string{"192.168.1.200: AnswersElsewhere"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inNewNetwork(t)
			near := cable(t)
			ip(t, "address", "add", "192.168.1.7/24", "dev", "near")
			g := &chronicle{gossip: &gossip{former: tc.former}, epochs: map[netip.Addr]uint64{sought: 4}}
			s := newSpeaker(t, fake.NewFakeClient(stored(), onNode("w1"), onNode("w2"), balancer("web", "192.168.1.200")), g)
			r, _ := someResponders(t)
			r.seen = s.see
			ctx, cancel := context.WithCancel(t.Context())
			defer r.wait()
			defer cancel()
			pass := func(what string) {
				if err := s.pass(ctx, r); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			for _, step := range tc.steps {
				step.change(t, world{s, g})
				before := len(g.told)
				pass(step.what)
				if step.answered {
					select {
					case <-s.dirty: // only a sighting wakes the loop here
					case <-time.After(10 * time.Second):
						t.Fatalf("%s: no answer is seen", step.what)
					}
					pass(step.what)
				}
				for late := time.Now().Add(10 * time.Second); len(g.told)-before < len(step.want) && time.Now().Before(late); {
					time.Sleep(min(s.retryIn(time.Now()), 100*time.Millisecond)) // the wire is being asked
					pass(step.what)
				}
				if diff := cmp.Diff(step.want, g.told[before:], compareValues); diff != "" {
					t.Errorf("%s: what the others are told (-want +got):\n%s", step.what, diff)
				}
				var ours, why []string
				for _, a := range s.report.latest.Announced {
					ours = append(ours, a.IP)
				}
				for _, a := range s.report.latest.Unannounced {
					why = append(why, fmt.Sprintf("%s: %s", a.IP, a.Reason))
				}
				if diff := cmp.Diff([][]string{step.ours, step.why}, [][]string{ours, why}); diff != "" {
					t.Errorf("%s: announced, and announced by nobody (-want +got):\n%s", step.what, diff)
				}
				if len(step.ours) > 0 && !t.Failed() {
					awaitAnswer(t, "192.168.1.200", near.MAC)
				}
				select {
				case <-s.gone:
					if !step.gone {
						t.Errorf("%s: it may end", step.what)
					}
				default:
					if step.gone {
						t.Errorf("%s: it may not end", step.what)
					}
				}
			}
		})
	}
}
