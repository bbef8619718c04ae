package endpoints

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// server is how an endpoint behaves: it answers, or fails with err, after a while. One without a while says nothing, for ever.
type server struct {
	after time.Duration
	err   error
}

// run is what became of a race.
type run struct {
	Winner Endpoint
	Took   time.Duration
	// Begun are the endpoints tried, with the time of each.
	Begun map[string]time.Duration
	Error string
	// Open are the connections that nobody closed, the winner's left out.
	Open int
}

// conn counts itself as long as it is open.
type conn struct {
	net.Conn
	closed func()
}

func (c conn) Close() error { c.closed(); return nil }

// TestRace runs in a bubble of its own time, so that times are exact.
func TestRace(t *testing.T) {
	a, b, c := Endpoint{"10.0.0.1", 6443}, Endpoint{"10.0.0.2", 6443}, Endpoint{"10.96.0.1", 443}
	const never, ms = time.Duration(0), time.Millisecond
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for name, tc := range map[string]struct {
		servers map[Endpoint]server
		want    run
	}{
		"the first answers, and no other is asked": {
			servers: map[Endpoint]server{a: {after: 5 * ms}, b: {after: ms}, c: {after: ms}},
			want:    run{Winner: a, Took: 5 * ms, Begun: map[string]time.Duration{a.Host: 0}},
		},
		"the first refuses: the next has its turn at once": {
			servers: map[Endpoint]server{a: {after: ms, err: refused}, b: {after: 5 * ms}, c: {after: ms}},
			want:    run{Winner: b, Took: 6 * ms, Begun: map[string]time.Duration{a.Host: 0, b.Host: ms}},
		},
		"the first is dead: the next has its turn after a second": {
			servers: map[Endpoint]server{a: {after: never}, b: {after: 5 * ms}, c: {after: ms}},
			want:    run{Winner: b, Took: 1005 * ms, Begun: map[string]time.Duration{a.Host: 0, b.Host: time.Second}},
		},
		"two are dead": {
			servers: map[Endpoint]server{a: {after: never}, b: {after: never}, c: {after: 5 * ms}},
			want:    run{Winner: c, Took: 2005 * ms, Begun: map[string]time.Duration{a.Host: 0, b.Host: time.Second, c.Host: 2 * time.Second}},
		},
		"all are slow: the first wins although others were asked, and their connections do not stay": {
			servers: map[Endpoint]server{a: {after: 4 * time.Second}, b: {after: 4 * time.Second}, c: {after: 4 * time.Second}},
			want:    run{Winner: a, Took: 4 * time.Second, Begun: map[string]time.Duration{a.Host: 0, b.Host: time.Second, c.Host: 2 * time.Second}},
		},
		"one that is asked later and is faster wins": {
			servers: map[Endpoint]server{a: {after: 4 * time.Second}, b: {after: 10 * ms}, c: {after: ms}},
			want:    run{Winner: b, Took: 1010 * ms, Begun: map[string]time.Duration{a.Host: 0, b.Host: time.Second}},
		},
		"none answers: each is named with its reason": {
			servers: map[Endpoint]server{a: {after: ms, err: refused}, b: {after: 10 * time.Second, err: context.DeadlineExceeded}, c: {after: ms, err: errors.New("tls: odd")}},
			want: run{Took: 10*time.Second + ms, Begun: map[string]time.Duration{a.Host: 0, b.Host: ms, c.Host: time.Second + ms},
				Error: "no API server answered at 10.0.0.1:6443 (connection refused), 10.96.0.1:443 (tls: odd), 10.0.0.2:6443 (no answer in time): " +
					"see whether one runs, and whether this node reaches its address"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if diff := cmp.Diff(tc.want, raced(t, []Endpoint{a, b, c}, tc.servers)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// raced runs a race between servers, and waits until all that it began has ended.
func raced(t *testing.T, order []Endpoint, servers map[Endpoint]server) run {
	t.Helper()
	var mu sync.Mutex
	got := run{Begun: map[string]time.Duration{}}
	start := time.Now()
	connect := func(ctx context.Context, e Endpoint) (net.Conn, error) {
		mu.Lock()
		got.Begun[e.Host] = time.Since(start)
		mu.Unlock()
		s := servers[e]
		var answers <-chan time.Time
		if s.after > 0 {
			answers = time.After(s.after)
		}
		select {
		case <-answers:
		case <-ctx.Done():
			if e.Port != 443 {
				return nil, ctx.Err()
			}
			// This one answered in the very moment in which it was told to end.
		}
		if s.err != nil {
			return nil, s.err
		}
		mu.Lock()
		defer mu.Unlock()
		got.Open++
		return conn{closed: func() { mu.Lock(); got.Open--; mu.Unlock() }}, nil
	}
	winner, by, err := race(t.Context(), order, time.Second, connect)
	got.Winner, got.Took = by, time.Since(start)
	if err != nil {
		got.Error = err.Error()
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%v hides that a connection was refused, which client-go tries again", err)
		}
	} else {
		_ = winner.Close()
	}
	synctest.Wait()
	return got
}

// TestRaceEndsWithItsContext: nothing is left behind when whoever wanted the connection is gone.
func TestRaceEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		start := time.Now()
		hang := func(ctx context.Context, _ Endpoint) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
		_, _, err := race(ctx, []Endpoint{{"10.0.0.1", 1}, {"10.0.0.2", 1}, {"10.0.0.3", 1}}, time.Second, hang)
		if took := time.Since(start); err == nil || took != 1500*time.Millisecond {
			t.Errorf("it ended after %s with %v, want an error after 1.5 s", took, err)
		}
	})
}
