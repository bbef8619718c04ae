package results

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Group is the runs of one series.
type Group struct {
	Series
	Runs []Run
}

// Groups sorts runs into series, in the order in which these first appear.
func Groups(runs []Run) []Group {
	var groups []Group
	for _, r := range runs {
		i := slices.IndexFunc(groups, func(g Group) bool { return g.Series == r.Series })
		if i < 0 {
			i = len(groups)
			groups = append(groups, Group{Series: r.Series})
		}
		groups[i].Runs = append(groups[i].Runs, r)
	}
	return groups
}

// Quantile returns the value that at least a part q of the values do not exceed (nearest rank); 0 when there are none. Of fewer than a
// hundred values, the 0.99 quantile is the largest.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// of collects one number of each run.
func (g Group) of(number func(Run) float64) []float64 {
	values := make([]float64, len(g.Runs))
	for i, r := range g.Runs {
		values[i] = number(r)
	}
	return values
}

// Table sums runs up in a table in Markdown, one line for each series.
func Table(runs []Run) string {
	var b strings.Builder
	b.WriteString("| product | fault | backends | nodes | VIPs | n | gap p50 | p99 | max | connect p50 | max | lost p50 | max | lost after, max | " +
		"claimed p50 | all claimed, max | other VIPs' gap, max | two owners, max | moved |\n")
	b.WriteString("|---|---|---|" + strings.Repeat("---:|", 16) + "\n")
	for _, g := range Groups(runs) {
		gaps := g.of(func(r Run) float64 { return r.Gap })
		connects := g.of(func(r Run) float64 { return r.Connect })
		lost := g.of(func(r Run) float64 { return float64(r.LostDuring) })
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %d | %d | %s | %s | %s | %s | %s | %.0f | %.0f | %.0f | %s | %s | %s | %s | %s |\n",
			g.Product, g.Fault, g.Placement, g.Nodes, g.VIPs, len(g.Runs),
			milliseconds(Quantile(gaps, .5)), milliseconds(Quantile(gaps, .99)), g.atMost(Quantile(gaps, 1)),
			milliseconds(Quantile(connects, .5)), milliseconds(Quantile(connects, 1)),
			Quantile(lost, .5), Quantile(lost, 1), Quantile(g.of(func(r Run) float64 { return float64(r.LostOtherwise) }), 1),
			milliseconds(Quantile(g.of(func(r Run) float64 { return r.Claimed }), .5)),
			milliseconds(Quantile(g.of(func(r Run) float64 { return r.AllClaimed }), 1)),
			milliseconds(Quantile(g.of(func(r Run) float64 { return Quantile(r.SampleGaps, 1) }), 1)),
			milliseconds(Quantile(g.of(func(r Run) float64 { return max(r.Duplicate, r.DuplicateHealing) }), 1)), g.moves())
	}
	return b.String()
}

// atMost writes the longest gap, with a sign if one was not over yet when the watch ended.
func (g Group) atMost(longest float64) string {
	if slices.ContainsFunc(g.Runs, func(r Run) bool { return r.Open }) {
		return "> " + milliseconds(longest)
	}
	return milliseconds(longest)
}

// moves says in how many of the runs the VIP had another owner in the end, or in the meantime.
func (g Group) moves() string {
	moved := 0
	for _, r := range g.Runs {
		if r.Moved > 0 {
			moved++
		}
	}
	return fmt.Sprintf("%d of %d", moved, len(g.Runs))
}

// milliseconds writes a time as a person reads it: three digits are as many as a shared machine has to say.
func milliseconds(ms float64) string {
	switch {
	case ms == 0:
		return "-"
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 10_000:
		return fmt.Sprintf("%.0f ms", ms)
	default:
		return fmt.Sprintf("%.1f s", ms/1000)
	}
}
