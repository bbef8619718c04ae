package speaker

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lanyard-dev/lanyard/internal/membership"
)

// fillWithin is how long a speaker that starts waits for the API server before it goes on with the last state. That server fills the caches
// of a small cluster within half a second of the program's start; one that is busy is worth waiting for, but the node answers for nothing meanwhile.
const fillWithin = 3 * time.Second

// begin finds out what the cluster is like, joins the group, and starts the tasks that need both.
func (s *Speaker) begin(ctx context.Context, tasks *errgroup.Group) error {
	if err := s.watchCluster(ctx); err != nil {
		return err // which ends the other tasks, and the program: it is started anew
	}
	filled := make(chan struct{})
	tasks.Go(func() error {
		if s.cache.WaitForCacheSync(ctx) {
			close(filled)
			s.goOver()
		}
		return nil
	})
	if !s.known(ctx, filled) {
		return nil
	}
	s.complain(s.learn(ctx)) // it says where kube-proxy is asked
	// Not before: to the others, who may not have noticed that this speaker was away, it would look as if it served what it did then.
	joined, err := s.join()
	if err != nil {
		return err
	}
	s.group = joined
	close(s.joined)
	tasks.Go(func() error { return s.group.Run(ctx, func() map[string]netip.AddrPort { return s.peers(ctx) }) })
	tasks.Go(func() error { return s.loop(ctx) })
	tasks.Go(func() error { return s.followKeys(ctx) })
	// What the witness finds goes to the API server alone, and the recorder keeps what that says.
	for _, task := range []func(context.Context) error{s.witness.watchProxy, s.witness.watchRules, s.recorder.run} {
		tasks.Go(func() error {
			if !after(ctx, filled) {
				return nil
			}
			return task(ctx)
		})
	}
	return nil
}

// after waits until the caches are filled. It is false when the context has ended before.
func after(ctx context.Context, filled <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-filled:
		return true
	}
}

// known waits until the cluster is known: from the API server or, if that takes too long, from the last state. It is false when the context
// has ended before.
func (s *Speaker) known(ctx context.Context, filled <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-filled:
		return true
	case <-time.After(fillWithin):
	}
	if !s.recall(time.Now()) {
		return after(ctx, filled)
	}
	select {
	case <-filled: // in this very moment: it may have been too early to go over
		s.goOver()
	default:
	}
	return true
}

// recall takes up the last state, and says whether there is one that can be used.
func (s *Speaker) recall(now time.Time) bool {
	if s.recorder.file == "" {
		return false
	}
	last, err := s.recorder.file.Read()
	if err == nil {
		err = last.Check(s.recorder.origin, now)
	}
	if errors.Is(err, os.ErrNotExist) {
		s.log.Info("waiting for the API server: nothing has been kept on this node yet that could stand in for it")
		return false
	}
	if err != nil {
		s.log.Error(err, "waiting for the API server: what has been kept on this node cannot stand in for it", "file", s.recorder.file)
		return false
	}
	s.log.Info("the API server does not answer: going on with the last state that was kept on this node",
		"asOf", last.AsOf.UTC().Format(time.RFC3339), "services", len(last.Services))
	for _, node := range last.Speakers {
		s.unmet[node] = true
	}
	s.view.last.Store(&recalled{state: last})
	s.metrics.recalled(true)
	return true
}

// goOver makes the informers' caches the cluster as it is decided from.
func (s *Speaker) goOver() {
	if s.view.last.Swap(nil) == nil {
		return
	}
	s.log.Info("the API server answers: going on with what it says")
	s.metrics.recalled(false)
	wake(s.dirty)
}

// missed are the nodes whose speakers were lost, and those that were in the group before this one was started anew without the API server and
// have not been heard since: without them, a node that is cut off would take itself for the whole group.
func (s *Speaker) missed(members map[string]membership.Member) []string {
	maps.DeleteFunc(s.unmet, func(node string, _ bool) bool { _, heard := members[node]; return heard })
	return slices.Concat(s.group.Lost(), slices.Sorted(maps.Keys(s.unmet)))
}

// speakers are the other nodes whose speakers are in the group, or should be.
func (s *Speaker) speakers() []string {
	nodes := s.group.Lost()
	for node := range s.group.Members() {
		if node != s.config.Node {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
