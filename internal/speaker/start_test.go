package speaker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/laststate"
	"github.com/lanyard-dev/lanyard/internal/membership"
)

// ofGeneration is the stored configuration of a generation.
func ofGeneration(generation string) corev1.ConfigMap {
	cm := stored()
	cm.Data[v1alpha1.ConfigurationKey] = "generation: " + generation
	return *cm
}

// keptAgo is the last state of w1, as of a while ago: the configuration's generation is 6 there.
func keptAgo(age time.Duration) laststate.State {
	return laststate.State{
		Origin: laststate.Origin{Node: "w1", Cluster: "a"}, AsOf: metav1.NewTime(time.Now().Add(-age)), Speakers: []string{"w2", "w3"},
		Configurations: []corev1.ConfigMap{ofGeneration("6")}, Nodes: []corev1.Node{*onNode("w1"), *onNode("w2", "192.168.1.2")},
	}
}

// start is how a speaker started.
type start struct {
	Joined     time.Duration // when it joined the group; zero: never
	Generation int64         // of the configuration that it went by then
	Unmet      map[string]bool
}

// TestStart: a speaker waits for the API server, but not for long where the last state can stand in for it.
func TestStart(t *testing.T) {
	none := map[string]bool{}
	for name, tc := range map[string]struct {
		fills time.Duration // when the caches are filled; never when it is 0
		kept  func(laststate.File) error
		want  start
	}{
		"the API server answers at once": {
			fills: 100 * time.Millisecond, kept: func(f laststate.File) error { return f.Write(keptAgo(time.Minute)) },
			want: start{Joined: 100 * time.Millisecond, Generation: 7, Unmet: none}},
		"the API server is away": {
			kept: func(f laststate.File) error { return f.Write(keptAgo(time.Hour)) },
			want: start{Joined: fillWithin, Generation: 6, Unmet: map[string]bool{"w2": true, "w3": true}}},
		"the API server is away, and nothing was kept": {want: start{Unmet: none}},
		"the API server comes back, and nothing was kept": {
			fills: time.Minute, want: start{Joined: time.Minute, Generation: 7, Unmet: none}},
		"the API server comes back, and what was kept is too old": {
			fills: time.Minute, kept: func(f laststate.File) error { return f.Write(keptAgo(48 * time.Hour)) },
			want: start{Joined: time.Minute, Generation: 7, Unmet: none}},
		"the API server comes back, and what was kept is another node's": {
			fills: time.Minute, kept: func(f laststate.File) error {
				other := keptAgo(time.Minute)
				other.Node = "w9"
				return f.Write(other)
			},
			want: start{Joined: time.Minute, Generation: 7, Unmet: none}},
		"the API server comes back, and what was kept is damaged": {
			fills: time.Minute, kept: func(f laststate.File) error { return os.WriteFile(string(f), []byte("lanyard-speaker-state 1"), 0o600) },
			want: start{Joined: time.Minute, Generation: 7, Unmet: none}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := laststate.File(filepath.Join(t.TempDir(), "state"))
				if tc.kept != nil {
					if err := tc.kept(file); err != nil {
						t.Fatal(err)
					}
				}
				if diff := cmp.Diff(tc.want, began(t, file, tc.fills)); diff != "" {
					t.Errorf("start (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// began starts a speaker, looks at how it joins the group, and sees that it goes over to the caches once they are filled.
func began(t *testing.T, file laststate.File, fills time.Duration) start {
	t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	live := ofGeneration("7")
	c := filling{cluster: fake.NewFakeClient(&live), filled: make(chan struct{}), asked: make(chan struct{}, 1)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	begun := time.Now()
	var got start
	var s *Speaker
	s = New(Config{Node: "w1", Namespace: "lanyard-system", StateFile: string(file), Cluster: "a"}, c, nil, func() (*membership.Group, error) {
		got.Joined, got.Generation = time.Since(begun), s.inForce.Generation
		return nil, errJoined
	}, metrics, testr.New(t))
	if fills > 0 {
		time.AfterFunc(fills, func() { close(c.filled) })
	}
	tasks, inner := errgroup.WithContext(ctx)
	if err := s.begin(inner, tasks); err != nil && !errors.Is(err, errJoined) {
		t.Error(err)
	}
	got.Unmet = s.unmet
	if fills == 0 {
		close(c.filled)
	}
	synctest.Wait()
	if err := s.learn(ctx); s.inForce != nil && s.inForce.Generation != 7 || err != nil && ctx.Err() == nil {
		t.Errorf("once the caches are filled it goes by generation %d (error %v), want 7", s.inForce.Generation, err)
	}
	return got
}

var errJoined = errors.New("this is all that is looked at")

// TestMissed: who was in the group before this speaker was started anew is missed until it is heard.
func TestMissed(t *testing.T) {
	for name, tc := range map[string]struct {
		unmet  map[string]bool
		heard  []string
		missed []string
	}{
		"it has started by what the API server says":    {heard: []string{"w2"}},
		"it has started without, and hears nobody":      {unmet: map[string]bool{"w2": true, "w3": true}, missed: []string{"w2", "w3"}},
		"it has started without, and hears some":        {unmet: map[string]bool{"w2": true, "w3": true}, heard: []string{"w3"}, missed: []string{"w2"}},
		"it has started without, and hears all of them": {unmet: map[string]bool{"w2": true}, heard: []string{"w2", "w3"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpeaker(t, nil, &gossip{})
			if tc.unmet != nil {
				s.unmet = tc.unmet
			}
			members := map[string]membership.Member{"w1": {}}
			for _, node := range tc.heard {
				members[node] = membership.Member{}
			}
			if diff := cmp.Diff(tc.missed, s.missed(members)); diff != "" {
				t.Errorf("missed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.missed, s.missed(map[string]membership.Member{"w1": {}})); diff != "" {
				t.Errorf("missed, once nobody is heard any more: the group tells of those that it lost (-want +got):\n%s", diff)
			}
		})
	}
}
