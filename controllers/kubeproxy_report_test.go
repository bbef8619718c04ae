package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

func TestHeadline(t *testing.T) {
	waits := kubeproxy.Decision{Action: kubeproxy.Wait, Progress: kubeproxy.Underway, Phase: v1alpha1.PhaseRolling, Reason: "RollingOut", Message: "1 of 3"}
	restarts := kubeproxy.Decision{Action: kubeproxy.Restart, Progress: kubeproxy.Underway, Phase: v1alpha1.PhaseRolling, Reason: "RollingOut", Message: "on w1"}
	stuck := kubeproxy.Decision{Action: kubeproxy.Wait, Progress: kubeproxy.Stuck, Phase: v1alpha1.PhaseStalled, Reason: "RolloutStalled", Message: "w1"}
	idle := kubeproxy.Decision{Phase: v1alpha1.PhaseIdle, Reason: "Ready", Message: "as asked"}
	type told struct {
		Text  string
		Fresh bool
	}
	for name, tc := range map[string]struct {
		before string
		d      kubeproxy.Decision
		want   told
	}{
		"a phase begins":                             {before: "CanaryRollingOut", d: waits, want: told{"RollingRollingOut", true}},
		"it goes on, whatever it counts":             {before: "RollingRollingOut", d: waits, want: told{"RollingRollingOut", false}},
		"each step is told":                          {before: "RollingRollingOut", d: restarts, want: told{"RollingRollingOuton w1", true}},
		"what is stuck is told by what it waits for": {before: "StalledRolloutStalledw2", d: stuck, want: told{"StalledRolloutStalledw1", true}},
		"and once":                    {before: "StalledRolloutStalledw1", d: stuck, want: told{"StalledRolloutStalledw1", false}},
		"the end of a change is told": {before: "RollingRollingOut", d: idle, want: told{"IdleReady", true}},
		"a manager that starts and finds nothing to do tells nothing": {d: idle, want: told{"IdleReady", false}},
		"one that finds something stuck tells it":                     {d: stuck, want: told{"StalledRolloutStalledw1", true}},
	} {
		t.Run(name, func(t *testing.T) {
			text, fresh := headline(tc.before, tc.d)
			if diff := cmp.Diff(tc.want, told{text, fresh}); diff != "" {
				t.Errorf("headline (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAbout(t *testing.T) {
	object, proxy, ledger := &v1alpha1.ClusterNetworking{}, &corev1.ConfigMap{}, &corev1.ConfigMap{}
	for name, tc := range map[string]struct {
		seen kubeProxyObservation
		want client.Object
	}{
		"the object, while it is there":                  {kubeProxyObservation{object: object, configMap: proxy, ledger: ledger}, object},
		"kube-proxy's ConfigMap, once it is gone":        {kubeProxyObservation{configMap: proxy, ledger: ledger}, proxy},
		"the ledger, where that is gone too":             {kubeProxyObservation{ledger: ledger}, ledger},
		"nothing, where there is nothing of them at all": {kubeProxyObservation{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.seen.about(); got != tc.want {
				t.Errorf("Events are about %v, want %v", got, tc.want)
			}
		})
	}
}

func TestLedgerData(t *testing.T) {
	original := &kubeproxy.Revision{Document: "mode: iptables\n"}
	for name, tc := range map[string]struct {
		ledger kubeproxy.Ledger
		want   string
	}{
		"kube-proxy was changed, and is to be given back":   {kubeproxy.Ledger{Original: original, OnDelete: v1alpha1.OnDeleteRestore}, "pending"},
		"it was changed, and stays so":                      {kubeproxy.Ledger{Original: original, OnDelete: v1alpha1.OnDeleteKeep}, "none"},
		"it is to be given back, and was not changed":       {kubeproxy.Ledger{OnDelete: v1alpha1.OnDeleteRestore}, "none"},
		"it was given back: only what worked is remembered": {kubeproxy.Ledger{Good: []kubeproxy.Revision{*original}}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := tc.ledger.Encode()
			if err != nil {
				t.Fatal(err)
			}
			got, err := ledgerData(tc.ledger)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{"ledger.json": text, "restore": tc.want}, got); diff != "" {
				t.Errorf("the ledger's ConfigMap (-want +got):\n%s", diff)
			}
		})
	}
}
