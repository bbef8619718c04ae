package controllers

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAContestedServiceIsLeftAlone: somebody empties its status every two seconds.
func TestAContestedServiceIsLeftAlone(t *testing.T) {
	emptied := asking("lb", func(s *corev1.Service) {
		s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "klipper", Subresource: "status"}, {Manager: "kubectl"}, {Manager: "lanyard-manager", Subresource: "status"}}
	})
	again := write{service: emptied, addresses: from("lan-pool", "192.168.1.200")}
	const why = "StatusContested: its address is taken out of its status again and again by klipper: it is left alone for 5m0s; " +
		"let one of the two serve it, by a spec.loadBalancerClass"
	c := contests{}
	for _, step := range []struct {
		seconds int
		write   write
		want    string
	}{
		{0, again, "written"}, {2, again, "written"}, {4, again, "written"}, {6, again, "written"}, {8, again, "written"},
		{10, again, why}, {12, again, why}, {300, again, why},
		{305, write{service: emptied, addresses: from("lan-pool", "192.168.1.201")}, "written"}, // it asks for something else
		{307, again, "written"},
	} {
		now := created.Add(time.Duration(step.seconds) * time.Second)
		free, refused, wait := c.sort([]write{step.write}, now)
		got := "written"
		if len(refused) > 0 {
			got = fmt.Sprintf("%s: %s", refused[0].Reason, refused[0].Message)
			if len(free) != 1 || !free[0].conditionsOnly || free[0].conditions[0].Reason != "StatusContested" {
				t.Errorf("after %d s its condition does not say so: %+v", step.seconds, free)
			}
		} else {
			c.wrote(step.write, now)
		}
		if diff := cmp.Diff(step.want, got); diff != "" || (wait > 0) != (len(refused) > 0) {
			t.Errorf("after %d s (-want +got), to wait %v:\n%s", step.seconds, wait, diff)
		}
	}
}

// TestNobodyContestsWhatIsWrittenNowAndThen, nor what could not be written, nor conditions, nor withdrawals; and a Service that is gone is forgotten.
func TestNobodyContestsWhatIsWrittenNowAndThen(t *testing.T) {
	c := contests{}
	shown := asking("shown", showing("lanyard-manager", "192.168.1.200"), remembering("192.168.1.200=lan-pool"))
	writes := []write{
		{service: asking("lb"), addresses: from("lan-pool", "192.168.1.201")},
		{service: shown, addresses: from("lan-pool", "192.168.1.200")}, {service: shown}, {service: asking("said"), conditionsOnly: true},
	}
	for i := range 20 {
		now := created.Add(time.Duration(i) * 16 * time.Second)
		for range 10 { // it fails, and is tried again
			if free, refused, _ := c.sort(writes, now); len(free) != len(writes) || len(refused) > 0 {
				t.Fatalf("write %d: %v", i, refused)
			}
		}
		for _, w := range writes {
			c.wrote(w, now)
		}
	}
	c.sort(nil, created.Add(time.Hour))
	if len(c) != 0 {
		t.Errorf("%d Services are remembered", len(c))
	}
}

func TestPoolsAreToldToFillUp(t *testing.T) {
	said := 0
	for _, step := range []struct{ level, told int }{
		{10, 0}, {75, 75}, {76, 0}, {74, 0}, {75, 0}, {69, 0}, {75, 75}, {100, 100}, {96, 0}, {100, 0}, {91, 0}, {100, 100}, {20, 0}, {95, 90},
	} {
		var told int
		if told, said = reached(said, step.level); told != step.told {
			t.Errorf("at %d %% it is told %d, want %d", step.level, told, step.told)
		}
	}
}
