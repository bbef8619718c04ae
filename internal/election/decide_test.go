package election

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const everyoneExcluded = "every node that can announce it carries the label node.kubernetes.io/exclude-from-external-load-balancers; "

// whole is a group in which everybody is heard.
var whole = Quorum{Heard: 3, Known: 3}

func TestDecide(t *testing.T) {
	held, taking, offered := Claim{Epoch: 4, Stage: Held}, Claim{Epoch: 5, Stage: Taking}, Claim{Epoch: 4, Stage: Offered}
	for name, tc := range map[string]struct {
		quorum     Quorum // whole if it is not set
		departing  bool
		epoch      uint64
		fence      Fence
		occupant   Occupant
		candidates []Candidate // of which "me" decides
		want       Decision
	}{
		"the only node that can begins to take it over": {
			candidates: []Candidate{{Node: "a", Obstacle: Silent}, {Node: "me"}},
			want:       Decision{Node: "me", Reason: Elected, Claim: Claim{Epoch: 1, Stage: Taking}},
		},
		"it takes it later than anybody it has heard of": {
			epoch: 7, candidates: []Candidate{{Node: "me"}},
			want: Decision{Node: "me", Reason: Elected, Claim: Claim{Epoch: 8, Stage: Taking}},
		},
		"it answers once the wire was asked and nobody did": {
			fence: Clear, candidates: []Candidate{{Node: "me", Claim: taking}},
			want: Decision{Node: "me", Reason: Elected, Claim: Claim{Epoch: 5, Stage: Held}},
		},
		"a stranger answers on the wire: it does not take it, and says so": {
			fence: Occupied, occupant: Occupant{"52:54:00:00:00:99", Stranger}, candidates: []Candidate{{Node: "me", Claim: taking}},
			want: Decision{Reason: AnswersElsewhere, Message: "me would take it over, but 52:54:00:00:00:99 answers for it on the LAN, and is no " +
				"speaker that me hears: a node whose speaker is cut off from the others, or a foreign host. It is asked again every second"},
		},
		"a stranger takes it as well": {
			fence: Occupied, occupant: Occupant{"52:54:00:00:00:99", Contender}, candidates: []Candidate{{Node: "me", Claim: taking}},
			want: Decision{Reason: AnswersElsewhere, Message: "me would take it over, but 52:54:00:00:00:99 asks for it on the LAN as well, and is no " +
				"speaker that me hears: a host that is about to take it, or a node whose speaker is cut off from the others. It is asked again every " +
				"second"},
		},
		"a node that is heard answers without a claim": {
			fence: Occupied, occupant: Occupant{"52:54:00:00:00:02", Speaker}, candidates: []Candidate{{Node: "a"}, {Node: "me", Claim: taking}},
			want: Decision{Reason: AnswersElsewhere, Message: "me would take it over, but the node with 52:54:00:00:00:02 answers for it on the LAN, " +
				"whose speaker is heard and does not claim it: its kernel has the address (kube-proxy in mode ipvs without strictARP, an address on an " +
				"interface). It is asked again every second"},
		},
		"it hears too few others: it takes nothing": {
			quorum: Quorum{Heard: 1, Known: 3}, candidates: []Candidate{{Node: "a", Obstacle: Silent}, {Node: "b", Obstacle: Silent}, {Node: "me"}},
			want: Decision{Reason: HearsTooFew, Message: "me would take it over, but hears only 1 of 3 speakers, itself included: it may be the one " +
				"that is cut off. Check the network between the nodes (spec.speaker.membershipPort, TCP and UDP), or remove nodes that are gone for " +
				"good from the cluster"},
		},
		"it hears too few others: it keeps what it has": {
			quorum: Quorum{Heard: 1, Known: 3}, candidates: []Candidate{{Node: "a", Obstacle: Silent}, {Node: "b", Obstacle: Silent}, {Node: "me", Claim: held}},
			want: Decision{Node: "me", Reason: Elected, Claim: held},
		},
		"the last of two takes over while its LAN answers": {
			quorum: Quorum{Heard: 1, Known: 2, Wire: Answered}, candidates: []Candidate{{Node: "a", Obstacle: Silent}, {Node: "me"}},
			want: Decision{Node: "me", Reason: Elected, Claim: Claim{Epoch: 1, Stage: Taking}},
		},
		"of two, the one that nobody answers takes nothing": {
			quorum: Quorum{Heard: 1, Known: 2, Wire: Unanswered}, candidates: []Candidate{{Node: "a", Obstacle: Silent}, {Node: "me"}},
			want: Decision{Reason: HearsTooFew, Message: "me would take it over, but hears only 1 of 2 speakers, itself included: it may be the one " +
				"that is cut off. Check the network between the nodes (spec.speaker.membershipPort, TCP and UDP), or remove nodes that are gone for " +
				"good from the cluster"},
		},
		"who has it keeps it, whatever the scores": {
			candidates: []Candidate{{Node: "a", Claim: held}, {Node: "b"}, {Node: "me"}},
			want:       Decision{Node: "a", Reason: Elected},
		},
		"of two that have it, the one that took it earlier stops": {
			candidates: []Candidate{{Node: "a", Claim: Claim{Epoch: 5, Stage: Held}}, {Node: "me", Claim: held}},
			want:       Decision{Node: "a", Reason: Elected},
		},
		"and the one that took it later goes on": {
			candidates: []Candidate{{Node: "a", Claim: Claim{Epoch: 3, Stage: Held}}, {Node: "me", Claim: held}},
			want:       Decision{Node: "me", Reason: Elected, Claim: held},
		},
		"who wants it does not relieve who has it": {
			candidates: []Candidate{{Node: "a", Claim: taking}, {Node: "me", Claim: held}},
			want:       Decision{Node: "me", Reason: Elected, Claim: held},
		},
		"a claim of a node without an interface counts for nothing": {
			candidates: []Candidate{{Node: "a", Claim: held, Obstacle: NoInterface}, {Node: "me"}},
			want:       Decision{Node: "me", Reason: Elected, Claim: taking},
		},
		"a node that lost its interface claims nothing": {
			candidates: []Candidate{{Node: "a"}, {Node: "me", Claim: held, Obstacle: NoInterface}},
			want:       Decision{Node: "a", Reason: Elected},
		},
		"a node that is to be left out offers what it has": {
			candidates: []Candidate{{Node: "a"}, {Node: "me", Claim: held, Excluded: true}},
			want:       Decision{Node: "me", Reason: Elected, Claim: offered},
		},
		"a speaker that ends offers what it has": {
			departing: true, candidates: []Candidate{{Node: "a"}, {Node: "me", Claim: held}},
			want: Decision{Node: "me", Reason: Elected, Claim: offered},
		},
		"and keeps it while nobody else can": {
			departing: true, candidates: []Candidate{{Node: "a", Obstacle: NoInterface}, {Node: "me", Claim: held}},
			want: Decision{Node: "me", Reason: Elected, Claim: held},
		},
		"what is offered is taken over": {
			candidates: []Candidate{{Node: "a", Claim: offered, Away: true}, {Node: "me"}},
			want:       Decision{Node: "a", Reason: Elected, Claim: taking},
		},
		"an offer is withdrawn when its reason is gone": {
			candidates: []Candidate{{Node: "a"}, {Node: "me", Claim: offered}},
			want:       Decision{Node: "me", Reason: Elected, Claim: held},
		},
		"an excluded node is left out while another can": {
			candidates: []Candidate{{Node: "me", Excluded: true}, {Node: "w"}},
			want:       Decision{Node: "w", Reason: Elected},
		},
		"where all are excluded, one announces all the same and says so": {
			fence: Clear, candidates: []Candidate{{Node: "me", Excluded: true, Claim: taking}, {Node: "w", Obstacle: NoInterface}},
			want: Decision{Node: "me", Reason: ElectedExcluded, Message: everyoneExcluded + "me announces it all the same",
				Claim: Claim{Epoch: 5, Stage: Held}},
		},
		"an endpoint on this node only: what the policy asks for is not put off": {
			candidates: []Candidate{{Node: "a", Obstacle: NoEndpoint}, {Node: "me", Claim: held, Obstacle: NoEndpoint}},
			want: Decision{Reason: NoCandidate, Message: "no node can announce it: 2 without a ready endpoint, which externalTrafficPolicy Local " +
				"needs (a, me)"},
		},
		"nobody can, and each node's obstacle is named": {
			candidates: []Candidate{{Node: "c", Obstacle: NoInterface}, {Node: "a", Obstacle: NoInterface}, {Node: "b", Obstacle: NotSelected},
				{Node: "d", Obstacle: Silent}, {Node: "e", Obstacle: NoEndpoint}, {Node: "f", Obstacle: NetworkUnavailable},
				{Node: "g", Obstacle: Unlisted}},
			want: Decision{Reason: NoCandidate, Message: "no node can announce it: 1 without a speaker that is heard (d); " +
				"1 not selected by the advertisement's nodeSelector (b); 1 with the condition NetworkUnavailable (f); " +
				"2 without an interface with carrier in the address's subnet (a, c); " +
				"1 without a ready endpoint, which externalTrafficPolicy Local needs (e); " +
				"1 with a speaker that is heard, but not a node of the cluster any more (g)"},
		},
		"no nodes at all": {
			want: Decision{Reason: NoCandidate, Message: "no node can announce it: there are no nodes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.quorum == (Quorum{}) {
				tc.quorum = whole
			}
			got := Decide(View{Self: "me", Quorum: tc.quorum, Departing: tc.departing, Addresses: []Address{{
				Addr: netip.MustParseAddr("192.168.1.200"), Candidates: tc.candidates, Epoch: tc.epoch, Fence: tc.fence, Occupant: tc.occupant}}})
			if diff := cmp.Diff([]Decision{tc.want}, got); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}
