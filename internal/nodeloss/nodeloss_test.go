package nodeloss

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// says is the report of a node to which these fell silent two seconds ago.
func says(node string, silent ...string) Report {
	r := Report{Node: node, Silent: map[string]time.Time{}}
	for _, s := range silent {
		r.Silent[s] = noon.Add(-2 * time.Second)
	}
	return r
}

func TestANodeIsLostWhenMostSpeakersSaySo(t *testing.T) {
	since := noon.Add(-2 * time.Second)
	for name, c := range map[string]struct {
		reports []Report
		want    []Loss
	}{
		"nobody is silent": {reports: []Report{says("a"), says("b"), says("c")}},
		"both others say so of a third": {
			reports: []Report{says("c"), says("b", "c"), says("a", "c")},
			want:    []Loss{{Node: "c", Since: since, Witnesses: []string{"a", "b"}, Speakers: 3}},
		},
		"one of three has lost both others: it is cut off itself": {reports: []Report{says("a", "b", "c"), says("b"), says("c")}},
		"all have lost one another, as when a switch fails":       {reports: []Report{says("a", "b", "c"), says("b", "a", "c"), says("c", "a", "b")}},
		"of two nodes neither is most":                            {reports: []Report{says("a", "b"), says("b")}},
		"half is not most":                                        {reports: []Report{says("a", "c"), says("b", "c"), says("c"), says("d")}},
		"a cluster in halves": {
			reports: []Report{says("a", "c", "d"), says("b", "c", "d"), says("c", "a", "b"), says("d", "a", "b")}},
		"two of five are lost": {
			reports: []Report{says("a", "d", "e"), says("b", "d", "e"), says("c", "d", "e"), says("d"), says("e")},
			want: []Loss{{Node: "d", Since: since, Witnesses: []string{"a", "b", "c"}, Speakers: 5},
				{Node: "e", Since: since, Witnesses: []string{"a", "b", "c"}, Speakers: 5}},
		},
		"what the lost ones said before they were cut off does not count": {
			reports: []Report{says("a", "d"), says("b", "d"), says("c", "a", "d"), says("d", "a", "c"), says("e", "a")}},
		"a node that has not reported is not judged": {reports: []Report{says("a", "x"), says("b", "x"), says("c", "x")}},
		"the first who lost it says since when": {
			reports: []Report{says("a", "c"), {Node: "b", Silent: map[string]time.Time{"c": noon.Add(-3 * time.Second)}}, says("c")},
			want:    []Loss{{Node: "c", Since: noon.Add(-3 * time.Second), Witnesses: []string{"a", "b"}, Speakers: 3}},
		},
		"an old report is not believed": {
			reports: []Report{says("a", "c"), {Node: "b", Silent: map[string]time.Time{"c": noon.Add(-61 * time.Second)}}, says("c")}},
		"a clock that is somewhat ahead does not matter": {
			reports: []Report{{Node: "a", Silent: map[string]time.Time{"c": noon.Add(20 * time.Second)}}, says("b", "c"), says("c")},
			want:    []Loss{{Node: "c", Since: since, Witnesses: []string{"a", "b"}, Speakers: 3}},
		},
		"nobody is a witness of itself": {reports: []Report{says("a", "c"), says("b"), says("c", "c")}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Lost(c.reports, noon)); diff != "" {
				t.Errorf("lost (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhyANodeIsLostIsSaidInOneSentence(t *testing.T) {
	const end = " do not hear its speaker, and neither its addresses nor its kubelet answer them"
	for name, c := range map[string]struct {
		witnesses []string
		speakers  int
		want      string
	}{
		"few": {witnesses: []string{"a", "b"}, speakers: 3,
			want: "node z is lost: since 2026-05-01T12:00:00Z the speakers of 2 of 3 nodes (a, b)" + end},
		"many are not all named": {witnesses: []string{"a", "b", "c", "d", "e", "f", "g"}, speakers: 9,
			want: "node z is lost: since 2026-05-01T12:00:00Z the speakers of 7 of 9 nodes (a, b, c, d, e and 2 more)" + end},
	} {
		t.Run(name, func(t *testing.T) {
			got := Loss{Node: "z", Since: noon, Witnesses: c.witnesses, Speakers: c.speakers}.Message()
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhateverIsReportedLessThanHalfIsLost: any reports, old and new, true and false.
func TestWhateverIsReportedLessThanHalfIsLost(t *testing.T) {
	losses := 0
	for seed := range uint64(20000) {
		random := rand.New(rand.NewPCG(seed, 1))
		nodes := 1 + random.IntN(7)
		doubt := random.Float64()
		var reports []Report
		for i := range nodes {
			r := Report{Node: fmt.Sprint(i), Silent: map[string]time.Time{}}
			for j := range nodes {
				if random.Float64() < doubt {
					r.Silent[fmt.Sprint(j)] = noon.Add(-time.Duration(random.IntN(70)) * time.Second)
				}
			}
			reports = append(reports, r)
		}
		lost := Lost(reports, noon)
		losses += len(lost)
		if 2*len(lost) >= nodes {
			t.Fatalf("seed %d: %d of %d nodes are said to be lost: %+v", seed, len(lost), nodes, lost)
		}
		for _, l := range lost {
			if 2*len(l.Witnesses) <= nodes {
				t.Errorf("seed %d: %d of %d are witnesses of %s", seed, len(l.Witnesses), nodes, l.Node)
			}
			for _, w := range l.Witnesses {
				if slices.ContainsFunc(lost, func(other Loss) bool { return other.Node == w }) {
					t.Errorf("seed %d: %s, which is lost, is a witness of %s", seed, w, l.Node)
				}
			}
		}
		random.Shuffle(len(reports), func(i, j int) { reports[i], reports[j] = reports[j], reports[i] })
		if diff := cmp.Diff(lost, Lost(reports, noon)); diff != "" {
			t.Errorf("seed %d: in another order (-before +after):\n%s", seed, diff)
		}
	}
	if losses < 1000 {
		t.Errorf("only %d nodes were lost in all: the simulation shows nothing", losses)
	}
}
