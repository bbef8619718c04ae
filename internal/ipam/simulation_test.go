package ipam

import (
	"strings"
	"testing"
)

// history is what happens in a world until it settles. It returns what went wrong, with what came before.
func (w *world) history() string {
	for range 10 + w.rng.IntN(30) {
		if w.violation != "" {
			break
		}
		w.live()
	}
	if w.violation == "" {
		w.managers, w.overlap = w.managers[len(w.managers)-1:], 0
		w.settle()
	}
	if w.violation == "" {
		return ""
	}
	return strings.Join(w.told, "\n") + "\n" + w.violation
}

// TestSimulation: Services are made, changed and deleted, pools edited, managers relieved while their caches lag behind, and tenants lie about what
// they once had. No two strangers have one address, but for the moment in which two managers lead; then the older one keeps it. Nobody's address
// changes without being asked for, and what is given back can be had again.
func TestSimulation(t *testing.T) {
	for seed := range uint64(20000) {
		if failure := newWorld(seed, 0).history(); failure != "" {
			t.Fatalf("at seed %d:\n%s", seed, failure)
		}
	}
}

// TestSimulationCatchesMutations takes each safeguard away in turn, and sees that it is missed, by the check that it is there for.
func TestSimulationCatchesMutations(t *testing.T) {
	for name, tc := range map[string]struct {
		off safeguard
		// missed is a part of the violation.
		missed string
	}{
		"who holds an address does not keep it":      {keepHolders, "has not asked for anything else"},
		"the younger goes first":                     {olderFirst, "has not asked for anything else"},
		"ports are not compared":                     {comparePorts, "does not agree"},
		"namespaces are not compared":                {compareNamespaces, "does not agree"},
		"who says that it had an address has it":     {doubtMemory, "both have"},
		"reservations do not count":                  {minReservations, "is reserved for"},
		"what is excluded is given":                  {minExclusions, "is excluded"},
		"a manager forgets what it has just written": {rememberWrites, "both have"},
		"a write replaces whatever there is":         {conditionalWrites, ""},
		"who takes the lead trusts its cache":        {listOnLead, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(2000) {
				failure := newWorld(seed, tc.off).history()
				if failure == "" {
					continue
				}
				if lines := strings.Split(failure, "\n"); !strings.Contains(lines[len(lines)-1], tc.missed) {
					t.Errorf("at seed %d it is missed otherwise:\n%s", seed, failure)
				}
				return
			}
			t.Error("2000 histories do without it")
		})
	}
}
