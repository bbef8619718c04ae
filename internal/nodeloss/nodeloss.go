package nodeloss

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// believedFor is how long after a node fell silent a report of that is believed: after that, Kubernetes has itself found that the node is lost
// (its node controller waits 40 to 50 seconds), and a report that still says so may have been left behind.
const believedFor = time.Minute

// Report is what the speaker of a node says.
type Report struct {
	Node string
	// Silent are the nodes of which nothing answers it, and since when.
	Silent map[string]time.Time
}

// Loss is a node that is lost.
type Loss struct {
	Node string
	// Since is when the first of its witnesses lost it.
	Since time.Time
	// Witnesses are the nodes of which each says so, in order, of so many with Speakers.
	Witnesses []string
	Speakers  int
}

// named is how many witnesses a message names.
const named = 5

// Message says why the node is taken for lost.
func (l Loss) Message() string {
	witnesses := strings.Join(l.Witnesses[:min(len(l.Witnesses), named)], ", ")
	if more := len(l.Witnesses) - named; more > 0 {
		witnesses = fmt.Sprintf("%s and %d more", witnesses, more)
	}
	return fmt.Sprintf("node %s is lost: since %s the speakers of %d of %d nodes (%s) do not hear its speaker, and neither its addresses nor its kubelet answer them",
		l.Node, l.Since.UTC().Format(time.RFC3339), len(l.Witnesses), l.Speakers, witnesses)
}

// Lost returns the nodes that are lost, in order: those of which most nodes with speakers say so that are not lost themselves. The lost ones count
// among all, so that they are always fewer than half, and nodes that are cut off from most others, together or alone, never say that those are
// lost, whatever else they still reach.
func Lost(reports []Report, now time.Time) []Loss {
	first := accused(reports, now, nil)
	// Where some say it of each other, old reports are among the new: neither are believed.
	return accused(reports, now, first)
}

// accused returns the nodes of which most say that they are lost, without the word of the doubtful.
func accused(reports []Report, now time.Time, doubtful []Loss) []Loss {
	var losses []Loss
	for _, of := range reports {
		loss := Loss{Node: of.Node, Speakers: len(reports)}
		for _, by := range reports {
			since, silent := by.Silent[of.Node]
			doubted := slices.ContainsFunc(doubtful, func(l Loss) bool { return l.Node == by.Node })
			if !silent || doubted || by.Node == of.Node || now.Sub(since).Abs() > believedFor {
				continue
			}
			if len(loss.Witnesses) == 0 || since.Before(loss.Since) {
				loss.Since = since
			}
			loss.Witnesses = append(loss.Witnesses, by.Node)
		}
		if 2*len(loss.Witnesses) > len(reports) {
			slices.Sort(loss.Witnesses)
			losses = append(losses, loss)
		}
	}
	slices.SortFunc(losses, func(a, b Loss) int { return strings.Compare(a.Node, b.Node) })
	return losses
}
