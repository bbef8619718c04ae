package controllers

import (
	"errors"
	"testing"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/ipam"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestReportsSpeakOf(t *testing.T) {
	now := revisionOf(&v1alpha1.ClusterNetworking{ObjectMeta: metav1.ObjectMeta{UID: "this", Generation: 3}})
	for name, tc := range map[string]struct {
		change func(*reports)
		want   bool
	}{
		"all have seen it":                          {change: func(*reports) {}, want: true},
		"kube-proxy's has not reported yet":         {change: func(r *reports) { r.kubeProxy = nil }},
		"the data plane's has not reported yet":     {change: func(r *reports) { r.dataplane = nil }},
		"addresses' has not reported yet":           {change: func(r *reports) { r.addresses = nil }},
		"kube-proxy's speaks of the one before":     {change: func(r *reports) { r.kubeProxy.revision.generation = 2 }},
		"the data plane's speaks of the one before": {change: func(r *reports) { r.dataplane.revision.generation = 2 }},
		"they speak of an object that was deleted":  {change: func(r *reports) { r.kubeProxy.revision.uid = "other" }},
		"they speak of no object":                   {change: func(r *reports) { r.dataplane.revision = revisionOf(nil) }},
		"addresses are from the configuration before": {
			change: func(r *reports) { r.addresses.inForce = 2 }},
		"the spec is bad, and both go by the last good one": {
			change: func(r *reports) { r.dataplane.inForce, r.addresses.inForce = 2, 2 }, want: true},
		"addresses failed, which is worth a word whatever they are from": {
			change: func(r *reports) { r.addresses = &addressesReport{err: errors.New("no")} }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := reports{
				kubeProxy: &kubeProxyReport{revision: now},
				dataplane: &dataplaneReport{revision: now, inForce: 3},
				addresses: &addressesReport{inForce: 3, plan: &ipam.Result{}},
			}
			tc.change(&r)
			if got := r.speakOf(now); got != tc.want {
				t.Errorf("speakOf is %v, want %v", got, tc.want)
			}
		})
	}
}

// TestBoardWakesForAWithdrawal: addresses are planned anew when the grace after a deletion ends and when the object returns, and for no other
// report.
func TestBoardWakesForAWithdrawal(t *testing.T) {
	b := newBoard()
	for i, step := range []struct {
		what   string
		change func(*reports)
		wakes  bool
	}{
		{"the object is there", func(r *reports) { r.dataplane = &dataplaneReport{inForce: 1} }, false},
		{"addresses report", func(r *reports) { r.addresses = &addressesReport{} }, false},
		{"the grace is over", func(r *reports) { r.dataplane = &dataplaneReport{withdrawn: true} }, true},
		{"it still is", func(r *reports) { r.dataplane = &dataplaneReport{withdrawn: true} }, false},
		{"the object is back", func(r *reports) { r.dataplane = &dataplaneReport{inForce: 1} }, true},
	} {
		b.post(step.change)
		if woken := len(b.withdrawal) == 1; woken != step.wakes {
			t.Errorf("step %d, %s: woken is %v, want %v", i, step.what, woken, step.wakes)
		}
		for len(b.withdrawal) > 0 {
			<-b.withdrawal
		}
	}
}

// TestBoardWakesOnce posts more than anybody reads: nobody waits, one signal is left, and the last report counts.
func TestBoardWakesOnce(t *testing.T) {
	b := newBoard()
	for generation := range int64(3) {
		b.post(func(r *reports) { r.addresses = &addressesReport{inForce: generation} })
	}
	if pending, last := len(b.posted), b.read().addresses.inForce; pending != 1 || last != 2 {
		t.Errorf("%d signals are pending and the report is of %d, want 1 and 2", pending, last)
	}
}
