package controllers

import (
	"testing"

	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

func TestFailedAnew(t *testing.T) {
	attempt := func(failed *kubeproxy.Failure) kubeproxy.Ledger {
		return kubeproxy.Ledger{Attempt: &kubeproxy.Attempt{Asked: "a", Failed: failed}}
	}
	failure := &kubeproxy.Failure{Node: "w1", Message: "CrashLoopBackOff"}
	refused := kubeproxy.Ledger{Refused: &kubeproxy.Refusal{Asked: "a", Failed: *failure}}
	for name, tc := range map[string]struct {
		before, after kubeproxy.Ledger
		want          bool
	}{
		"a change begins": {after: attempt(nil)},
		"it goes on":      {before: attempt(nil), after: attempt(nil)},
		"it fails":        {before: attempt(nil), after: attempt(failure), want: true},
		"the way back goes on, is inspected, stalls, is taken up anew": {before: attempt(failure), after: attempt(failure)},
		"all are back": {before: attempt(failure), after: refused},
		"what all went back to is changed by somebody, and written back": {before: refused, after: attempt(failure)},
		"another change begins after it":                                 {before: refused, after: attempt(nil)},
		"a change ends well":                                             {before: attempt(nil), after: kubeproxy.Ledger{Applied: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := failedAnew(tc.before, tc.after); got != tc.want {
				t.Errorf("a rollback begins: %v, want %v", got, tc.want)
			}
		})
	}
}
