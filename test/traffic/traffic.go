package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

const (
	// opening is how long it may take to open a connection. Linux sends a SYN that got lost again after 1 s: a connection that needs that has
	// failed.
	opening = 900 * time.Millisecond
	// patience is how long it may take in all. A server on a busy machine answers late, which is not the network's fault.
	patience = 5 * time.Second
)

// most is how many connections may be under way at once, so that a dead network does not pile them up.
const most = 500

// Report is what became of the connections.
type Report struct {
	Attempts int `json:"attempts"`
	Failures int `json:"failures"`
	// Cut is how many of the failures were open when they failed. An address that moves takes its open connections to a node that does not
	// know them, which no announcer can prevent.
	Cut int `json:"cut"`
	// Longest is the longest time in which every connection that was begun failed, in milliseconds: from the last that was answered to the
	// next one.
	Longest int64 `json:"longestMilliseconds"`
	// First and Last are the first and the last failure's cause, empty when there was none.
	First string `json:"first,omitempty"`
	Last  string `json:"last,omitempty"`
}

// String tells it in a line.
func (r Report) String() string {
	told := fmt.Sprintf("%d of %d connections failed, %d of these when they were open, for %d ms at the longest", r.Failures, r.Attempts, r.Cut,
		r.Longest)
	if r.First != "" {
		told += fmt.Sprintf(" (first: %s; last: %s)", r.First, r.Last)
	}
	return told
}

// Traffic is a client that opens connections until it is stopped.
type Traffic struct {
	url     string
	web     *http.Client
	mu      sync.Mutex
	report  Report
	good    time.Time // when the last connection that was answered was begun
	bad     time.Time // when the last one that failed was begun
	pending sync.WaitGroup
}

// New returns a client of a page. A connection that fails for another reason than the network, such as an answer of 500, has failed as well.
func New(url string) *Traffic {
	return &Traffic{url: url, web: &http.Client{Timeout: patience,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: opening}).DialContext}}}
}

// Run opens so many connections a second, until the context ends, and returns what became of all of them.
func (t *Traffic) Run(ctx context.Context, rate int) Report {
	next := time.NewTicker(time.Second / time.Duration(rate))
	defer next.Stop()
	slots := make(chan struct{}, most)
	t.good = time.Now()
	for {
		select {
		case <-ctx.Done():
			t.pending.Wait()
			return t.Report()
		case <-next.C:
		}
		select {
		case slots <- struct{}{}:
			t.pending.Go(func() {
				// A connection that was begun is seen through, whatever the context: one that is cut off has not failed.
				t.connect(context.WithoutCancel(ctx))
				<-slots
			})
		default: // as many as allowed wait for an answer: this one would fail like them
			t.note(time.Now(), fmt.Errorf("%d connections wait for an answer", most))
		}
	}
}

// Report returns what became of the connections so far.
func (t *Traffic) Report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.report
	if t.bad.After(t.good) {
		r.Longest = max(r.Longest, t.bad.Sub(t.good).Milliseconds())
	}
	return r
}

func (t *Traffic) connect(ctx context.Context) {
	begun := time.Now()
	open := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { open = true }})
	err := t.get(ctx)
	if err != nil && open {
		err = cut{err}
	}
	t.note(begun, err)
}

// cut is the failure of a connection that was open.
type cut struct{ error }

func (t *Traffic) get(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url, nil)
	if err != nil {
		return err
	}
	response, err := t.web.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was read only
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s", response.Status)
	}
	return nil
}

// note counts a connection. Answers come in another order than connections are begun in.
func (t *Traffic) note(begun time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Attempts++
	if err != nil {
		t.report.Failures++
		if errors.As(err, &cut{}) {
			t.report.Cut++
		}
		t.report.Last = err.Error()
		if t.report.First == "" {
			t.report.First = err.Error()
		}
		if begun.After(t.bad) {
			t.bad = begun
		}
		return
	}
	if t.bad.After(t.good) && begun.After(t.bad) {
		t.report.Longest = max(t.report.Longest, begun.Sub(t.good).Milliseconds())
	}
	if begun.After(t.good) {
		t.good = begun
	}
}
