package traffic

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReport(t *testing.T) {
	begin := time.Unix(1000, 0)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	lost := errors.New("lost")
	type connection struct {
		begun time.Time
		err   error
	}
	for name, tc := range map[string]struct {
		connections []connection
		want        Report
	}{
		"all are answered": {[]connection{{at(20), nil}, {at(40), nil}}, Report{Attempts: 2}},
		"the longest outage counts from the last that was answered to the next": {
			[]connection{{at(20), nil}, {at(40), lost}, {at(60), lost}, {at(80), nil}, {at(100), lost}, {at(120), nil}},
			Report{Attempts: 6, Failures: 3, Longest: 60, First: "lost", Last: "lost"}},
		"an outage that lasts is told": {
			[]connection{{at(20), nil}, {at(40), lost}, {at(60), errors.New("refused")}},
			Report{Attempts: 3, Failures: 2, Longest: 40, First: "lost", Last: "refused"}},
		"one that was begun before the failure and answered after it does not end the outage": {
			[]connection{{at(20), nil}, {at(60), lost}, {at(40), nil}, {at(100), nil}},
			Report{Attempts: 4, Failures: 1, Longest: 60, First: "lost", Last: "lost"}},
		"one that was open is told apart": {
			[]connection{{at(20), nil}, {at(40), cut{errors.New("reset")}}, {at(60), errors.New("refused")}, {at(80), nil}},
			Report{Attempts: 4, Failures: 2, Cut: 1, Longest: 60, First: "reset", Last: "refused"}},
		"a failure that is heard of late, of a connection begun before the last good one, is no outage": {
			[]connection{{at(20), nil}, {at(60), nil}, {at(40), lost}, {at(80), nil}},
			Report{Attempts: 4, Failures: 1, First: "lost", Last: "lost"}},
	} {
		t.Run(name, func(t *testing.T) {
			load := New("http://192.0.2.1")
			load.good = begin
			for _, c := range tc.connections {
				load.note(c.begun, c.err)
			}
			if diff := cmp.Diff(tc.want, load.Report()); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunCountsWhatFails(t *testing.T) {
	var asked atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch asked.Add(1) {
		case 3:
			w.WriteHeader(http.StatusInternalServerError)
		case 10:
			cancel()
		}
	}))
	defer server.Close()
	got := New(server.URL).Run(ctx, 100)
	if got.Attempts < 10 || got.Failures != 1 || got.Cut != 1 || got.First != "the answer is 500 Internal Server Error" {
		t.Errorf("got %+v, want at least 10 attempts, one of which failed when it was open", got)
	}
}
