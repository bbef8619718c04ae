package speaker

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// The times of a departure. They fit into the pod's terminationGracePeriodSeconds.
const (
	// handOverWithin is how long the others have to take over what is offered.
	handOverWithin = 2 * time.Second
	// revisionWithin is how long the API server has to say whether a newer speaker follows.
	revisionWithin = time.Second
	// reassuredWithin is how long the loop has to tell the neighbours that this node is there. Ten addresses take it a few milliseconds.
	reassuredWithin = 500 * time.Millisecond
	// holdFor is how long the others keep the place of a speaker that a newer one follows: an image that is on the node starts in two or three
	// seconds, and caches on the LAN remember for longer.
	holdFor = 8 * time.Second
)

// depart leaves the group in good order. Where a newer speaker follows on this node, the others hold its place: nothing moves, and clients
// go on with what their caches hold, which they are told to be right a last time. Otherwise they take over what this one announces, which it goes on answering for until they do.
func (s *Speaker) depart(ctx context.Context) {
	select {
	case <-s.joined:
	default:
		return // it claims nothing yet
	}
	follows, err := s.followed(ctx)
	if err != nil {
		s.log.Error(err, "cannot find out whether a newer speaker follows: the addresses are handed over")
	}
	if follows {
		s.log.Info("a newer speaker follows on this node: the others hold its addresses", "for", holdFor.String())
		if err := s.group.Hold(ctx, holdFor); err != nil {
			s.log.Error(err, "not every speaker could be asked to hold this one's addresses")
		}
		s.reassureClients(ctx)
		return
	}
	s.departing.Store(true)
	wake(s.dirty)
	select {
	case <-s.gone:
	case <-time.After(handOverWithin):
		s.log.Info("not every address was taken over in time")
	case <-ctx.Done():
	}
}

// reassureClients has the loop answer once more who asked for the addresses, last of all: a client that checks an entry while nobody answers gives
// it up after three seconds. It does not wait for a loop that hangs.
func (s *Speaker) reassureClients(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reassuredWithin)
	defer cancel()
	done := make(chan struct{})
	select {
	case s.reassure <- done:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// departed says that nothing is claimed any more.
func (s *Speaker) departed() {
	select {
	case <-s.gone:
	default:
		close(s.gone)
	}
}

// followed says whether this speaker's pod is of an outdated revision of its DaemonSet: then a newer one takes its place.
func (s *Speaker) followed(ctx context.Context) (bool, error) {
	if s.config.TemplateGeneration == "" {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, revisionWithin)
	defer cancel()
	var ds appsv1.DaemonSet
	if err := s.report.client.Get(ctx, client.ObjectKey{Namespace: s.config.Namespace, Name: v1alpha1.SpeakerDaemonSet}, &ds); err != nil {
		return false, fmt.Errorf("reading DaemonSet %s: %w", v1alpha1.SpeakerDaemonSet, err)
	}
	current := ds.Annotations[appsv1.DeprecatedTemplateGeneration]
	return ds.DeletionTimestamp.IsZero() && current != "" && current != s.config.TemplateGeneration, nil
}
