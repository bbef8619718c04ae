package membership

import (
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// longest is a time that no test reaches.
const longest = time.Hour

// claimed are the claims of c in the tests here.
var claimed = map[netip.Addr]Claim{x: {Epoch: 3, Stage: Held}, z: {Epoch: 5, Stage: Offered}}

// claiming returns the members, c with these claims.
func claiming(claims map[netip.Addr]Claim) map[string]Member {
	all := maps.Clone(everyone)
	all["c"] = Member{Segments: all["c"].Segments, Claims: claims}
	return all
}

// claimingGroup is a group whose members know what c claims.
func claimingGroup(t *testing.T) (a, b, c *Group) {
	t.Helper()
	a, b, c = group(t)
	c.Claim(claimed)
	for _, g := range []*Group{a, b, c} {
		await(t, g, claiming(claimed))
	}
	return a, b, c
}

// awaitThat waits until something is so, and looks only when a member is told that something has changed.
func awaitThat[T any](t *testing.T, g *Group, what string, want T, get func() T) {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		diff := cmp.Diff(want, get(), compareAll, cmpopts.EquateEmpty())
		if diff == "" {
			return
		}
		select {
		case <-g.Changed():
		case <-late:
			t.Fatalf("%s does not become what is so (-want +got):\n%s", what, diff)
		}
	}
}

// restart ends c and starts it again, with its segments, where the others go on meeting it.
func restart(t *testing.T, a, b, c *Group, between func()) *Group {
	t.Helper()
	at := c.at()
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	between()
	c = rejoin(t, "c", at.Port())
	c.Serve(everyone["c"].Segments)
	run(t, c, map[string]netip.AddrPort{"a": a.at(), "b": b.at()})
	select {
	case <-c.Met():
	case <-time.After(20 * time.Second):
		t.Fatal("it does not meet the others")
	}
	return c
}

func TestClaimsReachEveryone(t *testing.T) {
	a, b, c := claimingGroup(t)
	for name, claims := range map[string]map[netip.Addr]Claim{
		"another stage and one fewer": {x: {Epoch: 3, Stage: Offered}},
		"one more":                    {x: {Epoch: 3, Stage: Offered}, y: {Epoch: 1, Stage: Taking}},
		"none":                        nil,
	} {
		t.Run(name, func(t *testing.T) {
			c.Claim(claims)
			for _, g := range []*Group{a, b, c} {
				await(t, g, claiming(claims))
			}
		})
	}
}

// TestManyClaimsReachEveryone: more than fit into one packet.
func TestManyClaimsReachEveryone(t *testing.T) {
	a, b, c := group(t)
	many := map[netip.Addr]Claim{}
	for i := range 1000 {
		many[netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})] = Claim{Epoch: uint64(i), Stage: Held}
	}
	c.Claim(many)
	for _, g := range []*Group{a, b, c} {
		await(t, g, claiming(many))
	}
}

// TestALateJoinerLearnsAll, epochs of claims that are gone included, from one member alone.
func TestALateJoinerLearnsAll(t *testing.T) {
	a, _, c := claimingGroup(t)
	given := map[netip.Addr]Claim{z: claimed[z]}
	c.Claim(given)
	await(t, a, claiming(given))
	d := join(t, "d")
	d.meet(t.Context(), map[string]netip.AddrPort{"a": a.at()})
	want := claiming(given)
	want["d"] = Member{}
	await(t, d, want)
	if diff := cmp.Diff(map[netip.Addr]uint64{x: 3, z: 5}, d.Epochs(), compareAll); diff != "" {
		t.Errorf("epochs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[netip.Addr]Claim{}, d.Former(), compareAll, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("former claims of one that was never there (-want +got):\n%s", diff)
	}
}

// TestADeadMembersClaimsAreGone, their epochs are not, and it is lost until it is back or not in the cluster any more.
func TestADeadMembersClaimsAreGone(t *testing.T) {
	a, b, c := claimingGroup(t)
	c = restart(t, a, b, c, func() {
		for _, g := range []*Group{a, b} {
			await(t, g, except("c"))
			awaitThat(t, g, "who is lost", []string{"c"}, g.Lost)
			if diff := cmp.Diff(map[netip.Addr]uint64{x: 3, z: 5}, g.Epochs(), compareAll); diff != "" {
				t.Errorf("epochs (-want +got):\n%s", diff)
			}
		}
		b.Forget(func(node string) bool { return node != "c" })
		if diff := cmp.Diff([]string(nil), b.Lost()); diff != "" {
			t.Errorf("lost, with c not in the cluster (-want +got):\n%s", diff)
		}
	})
	for _, g := range []*Group{a, b, c} {
		await(t, g, everyone)
		awaitThat(t, g, "who is lost", nil, g.Lost)
	}
	if diff := cmp.Diff(map[netip.Addr]Claim{}, c.Former(), compareAll, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("former claims of one whose death was noticed (-want +got):\n%s", diff)
	}
}

func TestAMemberThatLeavesIsNotLost(t *testing.T) {
	a, b, c := claimingGroup(t)
	c.leave()
	for _, g := range []*Group{a, b} {
		await(t, g, except("c"))
		awaitThat(t, g, "who is lost", nil, g.Lost)
	}
}

// TestAHeldMemberIsKept though it ends, by itself or not, with what it claims; a joiner learns of it. When it is back it may resume that.
func TestAHeldMemberIsKept(t *testing.T) {
	for name, end := range map[string]func(c *Group){
		"it ends as Run does":         (*Group).leave,
		"it is killed before it does": func(*Group) {},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, c := claimingGroup(t)
			if err := c.Hold(t.Context(), longest); err != nil {
				t.Fatal(err)
			}
			end(c)
			c = restart(t, a, b, c, func() {
				alone := map[string]bool{"a": true, "b": true}
				for _, g := range []*Group{a, b} {
					awaitThat(t, g, "who lives", alone, func() map[string]bool { return living(g) })
					await(t, g, claiming(claimed))
					awaitThat(t, g, "who is lost", nil, g.Lost)
				}
				d := join(t, "d")
				d.meet(t.Context(), map[string]netip.AddrPort{"a": a.at()})
				want := claiming(claimed)
				want["d"] = Member{}
				await(t, d, want)
				d.leave()
			})
			if diff := cmp.Diff(claimed, c.Former(), compareAll); diff != "" {
				t.Errorf("former claims (-want +got):\n%s", diff)
			}
			for _, g := range []*Group{a, b} {
				await(t, g, claiming(claimed))
			}
			resumed := map[netip.Addr]Claim{x: claimed[x]}
			c.Claim(resumed)
			for _, g := range []*Group{a, b, c} {
				await(t, g, claiming(resumed))
			}
			if diff := cmp.Diff(map[netip.Addr]Claim{}, c.Former(), compareAll, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("former claims once it has said what it claims (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAHoldEnds without anybody saying so.
func TestAHoldEnds(t *testing.T) {
	a, b, c := claimingGroup(t)
	if err := c.Hold(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	c.leave()
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	for _, g := range []*Group{a, b} {
		await(t, g, except("c"))
		awaitThat(t, g, "who is lost", []string{"c"}, g.Lost)
	}
}

// TestAHoldNamesWhoWasNotTold: one that is dead, and not known to be.
func TestAHoldNamesWhoWasNotTold(t *testing.T) {
	a, _, c := group(t)
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	want := "asking the other speakers to keep what this one claims: not told: c"
	if err := a.Hold(t.Context(), longest); err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// TestAnUnnoticedRestartResumes what it claimed. One that takes so long, on a slow machine, that the others notice its death has nothing to
// resume, and is tried again.
func TestAnUnnoticedRestartResumes(t *testing.T) {
	a, b, c := claimingGroup(t)
	for attempt := 1; ; attempt++ {
		c = restart(t, a, b, c, func() {})
		former := c.Former()
		if diff := cmp.Diff(claimed, former, compareAll); diff == "" {
			break
		} else if len(former) > 0 || attempt == 10 {
			t.Fatalf("former claims, at attempt %d (-want +got):\n%s", attempt, diff)
		}
		c.Claim(claimed)
		for _, g := range []*Group{a, b, c} {
			await(t, g, claiming(claimed))
		}
	}
	resumed := map[netip.Addr]Claim{z: claimed[z], y: {Epoch: 1, Stage: Taking}}
	c.Claim(resumed)
	for _, g := range []*Group{a, b, c} {
		await(t, g, claiming(resumed))
	}
}

// living are those that live, as a member knows.
func living(g *Group) map[string]bool {
	living := map[string]bool{g.member.view.self: true}
	for node := range g.peers() {
		living[node] = true
	}
	return living
}
