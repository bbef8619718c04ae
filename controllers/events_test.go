package controllers

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

func TestNoteOf(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"a short text":                   {text: "w1 → w2", want: "w1 → w2"},
		"a text that just fits":          {text: strings.Repeat("x", 1024), want: strings.Repeat("x", 1024)},
		"a text that is a byte too long": {text: strings.Repeat("x", 1025), want: strings.Repeat("x", 1021) + "…"},
		"no rune is cut into two":        {text: strings.Repeat("x", 1020) + "→→→", want: strings.Repeat("x", 1020) + "…"},
		"a rune that ends where it may":  {text: strings.Repeat("x", 1018) + "→→→", want: strings.Repeat("x", 1018) + "→…"},
		"bytes that are no text":         {text: "\x80\x80 ended", want: "? ended"},
		"and a lot of them":              {text: strings.Repeat("\xff→", 1000), want: strings.Repeat("?→", 255) + "?…"},
	} {
		t.Run(name, func(t *testing.T) {
			got := noteOf(tc.text)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("note (-want +got):\n%s", diff)
			}
			if len(got) > 1024 {
				t.Errorf("it has %d bytes", len(got))
			}
		})
	}
}

// TestEventsAreCut: whoever makes an Event has its note cut, and a text that has a percent sign is no format.
func TestEventsAreCut(t *testing.T) {
	fake := events.NewFakeRecorder(1)
	recorder{to: fake}.Eventf(&v1alpha1.ClusterNetworking{}, corev1.EventTypeWarning, "Reason", "Action", "%d %%: %s", 90, strings.Repeat("%d", 1000))
	if diff := cmp.Diff("Warning Reason "+"90 %: "+strings.Repeat("%d", 507)+"%…", <-fake.Events); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
}
