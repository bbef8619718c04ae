package controllers

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// TestQueue: who lacks an address waits for the LAN to be asked, for a second each; longer while there is nobody to ask.
func TestQueue(t *testing.T) {
	type lined struct {
		Patient []string
		Again   time.Duration
	}
	withUID := func(uid types.UID) func(*corev1.Service) { return func(s *corev1.Service) { s.UID = uid } }
	first, second := asking("first", withUID("1")), asking("second", withUID("2"))
	served := asking("served", withUID("3"), showing(v1alpha1.FieldManager, "192.168.1.200"))
	again := asking("first", withUID("4"))
	start := time.Unix(1000, 0)
	q := queue{verification: Verification{Asked: time.Second, Unasked: 10 * time.Second}}
	for _, step := range []struct {
		what     string
		at       time.Duration
		reported bool
		services []*corev1.Service
		want     lined
	}{
		{"nobody waits", 0, true, []*corev1.Service{served}, lined{}},
		{"one comes before the speakers", 0, false, []*corev1.Service{first}, lined{[]string{"default/first"}, 10 * time.Second}},
		{"the speakers report, and another comes", 400 * time.Millisecond, true, []*corev1.Service{first, second},
			lined{[]string{"default/first", "default/second"}, 600 * time.Millisecond}},
		{"the first has waited for a second", time.Second, true, []*corev1.Service{first, second}, lined{[]string{"default/second"}, 400 * time.Millisecond}},
		{"both have", 1400 * time.Millisecond, true, []*corev1.Service{first, second}, lined{}},
		{"one of the same name is another", 1500 * time.Millisecond, true, []*corev1.Service{again}, lined{[]string{"default/first"}, time.Second}},
	} {
		d := demandOf(step.services, nil, everybodys(lanPool))
		got := lined{Again: q.line(d, step.reported, start.Add(step.at))}
		for _, r := range d.requests {
			if r.Patience == ipam.Patient {
				got.Patient = append(got.Patient, r.Service)
			}
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.what, diff)
		}
	}
	if got := (&queue{}).line(demandOf([]*corev1.Service{first}, nil, everybodys(lanPool)), true, start); got != 0 {
		t.Errorf("without a time to wait it comes back in %v", got)
	}
}
