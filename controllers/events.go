package controllers

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// recorder makes Lanyard's Events, all of them. It cuts their notes, as one that is too long for the API server is lost without a word.
type recorder struct{ to events.EventRecorder }

func newRecorder(mgr ctrl.Manager) recorder { return recorder{to: mgr.GetEventRecorder("lanyard")} }

// Eventf makes an Event about an object. What does not fit into its note stands whole in a condition or in the log.
func (r recorder) Eventf(about client.Object, kind, reason, action, format string, args ...any) {
	r.to.Eventf(about, nil, kind, reason, action, "%s", noteOf(fmt.Sprintf(format, args...)))
}

// noteLimit is how many bytes an Event's note may have: NoteLengthLimit of the API server.
const noteLimit = 1024

// noteOf is a text as it fits into a note: what is too much is cut off between two runes, and an ellipsis says so. The end of a log may have
// bytes that are no text.
func noteOf(text string) string {
	const ellipsis = "…"
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= noteLimit {
		return text
	}
	end := noteLimit - len(ellipsis)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
