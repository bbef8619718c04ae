package speaker

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/election"
	"github.com/lanyard-dev/lanyard/internal/membership"
)

// TestMoveOf: why an address came to w1, and how long nobody answered for it.
func TestMoveOf(t *testing.T) {
	heard := map[string]membership.Member{"w1": {}, "w2": {}}
	alone := map[string]membership.Member{"w1": {}}
	is := func(change func(*election.Candidate)) []election.Candidate {
		before := election.Candidate{Node: "w2", Claim: election.Claim{Epoch: 3, Stage: election.Offered}}
		change(&before)
		return []election.Candidate{{Node: "w1"}, before}
	}
	hindered := func(o election.Obstacle) []election.Candidate {
		return is(func(c *election.Candidate) { c.Obstacle = o })
	}
	answered := map[string]time.Time{"w2": ms(600)}
	for name, tc := range map[string]struct {
		s          snapshot
		from       string
		candidates []election.Candidate
		want       move
	}{
		"nobody is known to have had it":                                        {from: "", want: move{reason: v1alpha1.MoveUnowned}},
		"it was this node's before its speaker was started anew: it never went": {from: "w1"},
		"the node before died": {s: snapshot{members: alone, lost: []string{"w2"}}, from: "w2", candidates: hindered(election.Silent),
			want: move{"w2", v1alpha1.MoveNodeSilent, 400 * time.Millisecond}},
		"the node before died, and has never answered": {s: snapshot{members: alone, lost: []string{"w3"}}, from: "w3",
			candidates: []election.Candidate{{Node: "w3", Obstacle: election.Silent}}, want: move{from: "w3", reason: v1alpha1.MoveNodeSilent}},
		"the node before died, and is no node any more": {s: snapshot{members: alone, lost: []string{"w2"}}, from: "w2", candidates: []election.Candidate{{Node: "w1"}},
			want: move{"w2", v1alpha1.MoveNodeSilent, 400 * time.Millisecond}},
		"its cable was cut": {s: snapshot{members: heard}, from: "w2", candidates: hindered(election.NoInterface),
			want: move{"w2", v1alpha1.MoveNoInterface, 400 * time.Millisecond}},
		"its speaker has said that it goes":       {s: snapshot{members: alone}, from: "w2", want: move{from: "w2", reason: v1alpha1.MoveSpeakerStopped}},
		"its speaker is about to go":              {s: snapshot{members: heard}, from: "w2", candidates: hindered(election.Able), want: move{from: "w2", reason: v1alpha1.MoveSpeakerStopped}},
		"it has no endpoint any more":             {s: snapshot{members: heard}, from: "w2", candidates: hindered(election.NoEndpoint), want: move{from: "w2", reason: v1alpha1.MoveNoEndpoint}},
		"the selector leaves it out":              {s: snapshot{members: heard}, from: "w2", candidates: hindered(election.NotSelected), want: move{from: "w2", reason: v1alpha1.MoveNotSelected}},
		"its pod network is gone":                 {s: snapshot{members: heard}, from: "w2", candidates: hindered(election.NetworkUnavailable), want: move{from: "w2", reason: v1alpha1.MoveNetworkUnavailable}},
		"it is no node of the cluster any more":   {s: snapshot{members: heard}, from: "w2", candidates: hindered(election.Unlisted), want: move{from: "w2", reason: v1alpha1.MoveUnlisted}},
		"it was labelled to be left out":          {s: snapshot{members: heard}, from: "w2", candidates: is(func(c *election.Candidate) { c.Excluded = true }), want: move{from: "w2", reason: v1alpha1.MoveExcluded}},
		"its kube-proxy is about to be restarted": {s: snapshot{members: heard}, from: "w2", candidates: is(func(c *election.Candidate) { c.Away = true }), want: move{from: "w2", reason: v1alpha1.MoveKubeProxyRestart}},
		"it has let go for this node's better claim": {s: snapshot{members: heard}, from: "w2",
			candidates: is(func(c *election.Candidate) { c.Claim = election.Claim{} }), want: move{from: "w2", reason: v1alpha1.MoveGivenUp}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.s.self = "w1"
			got := tc.s.moveOf(verdict{addr: sought, candidates: tc.candidates}, tc.from, func(node string) time.Time { return answered[node] }, ms(1000))
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(move{})); diff != "" {
				t.Errorf("move (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEveryHindranceHasAReason: an address never moves without one.
func TestEveryHindranceHasAReason(t *testing.T) {
	for o := election.Silent; o <= election.Unlisted; o++ {
		if hindrances[o] == "" {
			t.Errorf("obstacle %d has none", o)
		}
	}
}

// TestOwners remembers who answered last, also while nobody does.
func TestOwners(t *testing.T) {
	o := owners{}
	claims := func(stage membership.Stage) map[netip.Addr]membership.Claim {
		return map[netip.Addr]membership.Claim{sought: {Epoch: 3, Stage: stage}}
	}
	nothing := []verdict{{addr: sought}}
	for _, step := range []struct {
		what     string
		verdicts []verdict
		w2       map[netip.Addr]membership.Claim
		want     owners
	}{
		{"nobody has it", nothing, nil, owners{}},
		{"w2 takes it over", nothing, claims(membership.Taking), owners{}},
		{"w2 has it", nothing, claims(membership.Held), owners{sought: "w2"}},
		{"w2 dies", nothing, nil, owners{sought: "w2"}},
		{"this node has it", []verdict{claiming(sought, "eth0", election.Held)}, nil, owners{sought: "w1"}},
		{"it offers it to w2, which does not answer yet", []verdict{claiming(sought, "eth0", election.Offered)}, claims(membership.Taking), owners{sought: "w1"}},
		{"the Service is gone", nil, nil, owners{}},
	} {
		o.note(step.verdicts, snapshot{self: "w1", members: map[string]membership.Member{"w1": {}, "w2": {Claims: step.w2}}})
		if diff := cmp.Diff(step.want, o, compareValues); diff != "" {
			t.Errorf("%s: owners (-want +got):\n%s", step.what, diff)
		}
	}
}
