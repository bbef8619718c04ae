package endpoints

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// connector connects to an endpoint. It ends soon after its context does.
type connector func(context.Context, Endpoint) (net.Conn, error)

// race connects to one of the endpoints. It begins with the first, and goes on to the next as soon as one has failed, or has not answered
// within the patience. It goes on waiting for those before: an API server that is slow is better than none. The first connection wins, the
// others are closed.
func race(ctx context.Context, order []Endpoint, patience time.Duration, connect connector) (net.Conn, Endpoint, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan attempt, len(order))
	running, failed := 0, []attempt{}
	next := time.NewTimer(0)
	defer next.Stop()
	for len(failed) < len(order) {
		select {
		case <-next.C:
			if begun := running + len(failed); begun < len(order) {
				running++
				go func(e Endpoint) {
					conn, err := connect(ctx, e)
					results <- attempt{endpoint: e, conn: conn, err: err}
				}(order[begun])
				next.Reset(patience)
			}
		case a := <-results:
			running--
			if a.err == nil {
				go closeLosers(results, running)
				return a.conn, a.endpoint, nil
			}
			failed = append(failed, a)
			next.Reset(0)
		}
	}
	return nil, Endpoint{}, &UnreachableError{attempts: failed}
}

// attempt is one endpoint's.
type attempt struct {
	endpoint Endpoint
	conn     net.Conn
	err      error
}

// closeLosers closes what the running attempts have connected all the same. They end at once: their context is over.
func closeLosers(results <-chan attempt, running int) {
	for range running {
		if a := <-results; a.err == nil {
			_ = a.conn.Close()
		}
	}
}

// UnreachableError says that no API server answered, and why each did not.
type UnreachableError struct{ attempts []attempt }

func (e *UnreachableError) Error() string {
	reasons := make([]string, 0, len(e.attempts))
	for _, a := range e.attempts {
		reasons = append(reasons, fmt.Sprintf("%s (%s)", a.endpoint, because(a.err)))
	}
	return fmt.Sprintf("no API server answered at %s: see whether one runs, and whether this node reaches its address", strings.Join(reasons, ", "))
}

// Unwrap returns each endpoint's error: client-go tells refused connections, which it tries again, from others.
func (e *UnreachableError) Unwrap() []error {
	errs := make([]error, 0, len(e.attempts))
	for _, a := range e.attempts {
		errs = append(errs, a.err)
	}
	return errs
}

// because is an error without the address, which is said already.
func because(err error) string {
	var op *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &op):
		return op.Err.Error()
	}
	return err.Error()
}
