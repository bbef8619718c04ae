package speaker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// keeper is a group that may hold the place of the speaker that leaves it. It notes for how long it was asked to.
type keeper struct {
	*gossip
	asked []time.Duration
	err   error
}

func (k *keeper) Hold(_ context.Context, d time.Duration) error {
	k.asked = append(k.asked, d)
	return k.err
}

// speakers is the DaemonSet whose pod template has this generation; none when it is empty.
func speakers(generation string) *appsv1.DaemonSet {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "lanyard-system", Name: v1alpha1.SpeakerDaemonSet}}
	if generation != "" {
		ds.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: generation}
	}
	return ds
}

// ending is a DaemonSet that is being deleted, and still there: something has to be done before it may go.
func ending(ds *appsv1.DaemonSet) *appsv1.DaemonSet {
	ds.DeletionTimestamp, ds.Finalizers = &metav1.Time{Time: time.Unix(1000, 0)}, []string{"foregroundDeletion"}
	return ds
}

// cluster holds the DaemonSet, and lets get answer in its place where there is one.
func cluster(ds *appsv1.DaemonSet, get func(context.Context) error) client.Client {
	b := fake.NewClientBuilder().WithObjects(ds)
	if get != nil {
		b.WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, _ client.WithWatch, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
				return get(ctx)
			},
		})
	}
	return b.Build()
}

var errAway = errors.New("the API server is away")

// away is an API server that refuses connections.
func away(context.Context) error { return errAway }

// hangs is an API server that takes a connection and says nothing.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestFollowed: a newer speaker takes this one's place when the DaemonSet has another template than the one that its pod was made from. When
// the pod ends for another reason, as when its node is drained or the DaemonSet goes, nobody does.
func TestFollowed(t *testing.T) {
	for name, tc := range map[string]struct {
		mine string
		ds   *appsv1.DaemonSet
		get  func(context.Context) error
		want bool
		err  error
	}{
		"the template is still the same":                  {mine: "7", ds: speakers("7")},
		"the template is a newer one":                     {mine: "7", ds: speakers("8"), want: true},
		"generations are no text to be sorted":            {mine: "9", ds: speakers("10"), want: true},
		"the DaemonSet is being deleted":                  {mine: "7", ds: ending(speakers("8"))},
		"it is not known which template this one is of":   {ds: speakers("8")},
		"nor does that need the API server":               {ds: speakers("8"), get: away},
		"the DaemonSet does not say what template it has": {mine: "7", ds: speakers("")},
		"the API server is away":                          {mine: "7", ds: speakers("8"), get: away, err: errAway},
		"the API server says nothing":                     {mine: "7", ds: speakers("8"), get: hangs, err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // the one that hangs costs no time
				s := newSpeaker(t, nil, nil)
				s.config.TemplateGeneration, s.report.client = tc.mine, cluster(tc.ds, tc.get)
				got, err := s.followed(t.Context())
				if got != tc.want || !errors.Is(err, tc.err) {
					t.Errorf("followed: %v, error: %v; want %v and %v", got, err, tc.want, tc.err)
				}
			})
		})
	}
}

// TestDepart: an update moves nothing, as the others hold the place for the newer speaker. Otherwise they take over, and it waits for them as
// long as it has to, and no longer than it may.
func TestDepart(t *testing.T) {
	type departure struct {
		Held      []time.Duration // for how long the others were asked to hold its place
		Reassured bool            // the clients were, after that
		Departing bool
		Woken     bool // the loop, which makes the offers
		Took      time.Duration
	}
	const a, b = 300 * time.Millisecond, 500 * time.Millisecond
	for name, tc := range map[string]struct {
		apart   bool // not in the group yet
		hangs   bool // the loop does
		current string
		get     func(context.Context) error
		hold    error
		takenBy time.Duration // when nothing is claimed any more; never when it is 0
		failsBy time.Duration // when its other tasks fail; never when it is 0
		want    departure
	}{
		"a newer speaker follows: the others hold its place, nothing is handed over": {
			current: "8", want: departure{Held: []time.Duration{8 * time.Second}, Reassured: true},
		},
		"a newer speaker follows, and the loop hangs: it ends soon": {
			current: "8", hangs: true, want: departure{Held: []time.Duration{8 * time.Second}, Took: 500 * time.Millisecond},
		},
		"not all of the others can be asked: it ends all the same": {
			current: "8", hold: errors.New("w2 does not answer"), want: departure{Held: []time.Duration{8 * time.Second}, Reassured: true},
		},
		"nobody follows: it ends as soon as the others have taken over": {
			current: "7", takenBy: a, want: departure{Departing: true, Woken: true, Took: a},
		},
		"nobody follows, nor takes over: it ends after a while": {
			current: "7", want: departure{Departing: true, Woken: true, Took: 2 * time.Second},
		},
		"the API server is away: it hands over": {
			current: "8", get: away, takenBy: a, want: departure{Departing: true, Woken: true, Took: a},
		},
		"the API server says nothing: it hands over after a second": {
			current: "8", get: hangs, want: departure{Departing: true, Woken: true, Took: 3 * time.Second},
		},
		"its other tasks fail meanwhile: nobody would hand over": {
			current: "7", failsBy: b, want: departure{Departing: true, Woken: true, Took: b},
		},
		"it is not in the group yet, and claims nothing": {
			apart: true, current: "8",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				g := &keeper{gossip: &gossip{}, err: tc.hold}
				s := newSpeaker(t, nil, g)
				s.config.TemplateGeneration, s.report.client = "7", cluster(speakers(tc.current), tc.get)
				if !tc.apart {
					close(s.joined)
				}
				if tc.takenBy > 0 {
					time.AfterFunc(tc.takenBy, func() { s.departed(); s.departed() }) // each pass says so
				}
				if tc.failsBy > 0 {
					time.AfterFunc(tc.failsBy, cancel)
				}
				reassured := make(chan bool, 1)
				if !tc.hangs {
					go func() {
						select {
						case done := <-s.reassure:
							reassured <- len(g.asked) > 0
							close(done)
						case <-t.Context().Done():
						}
					}()
				}
				start := time.Now()
				s.depart(ctx)
				got := departure{Held: g.asked, Reassured: len(reassured) > 0 && <-reassured, Departing: s.departing.Load(), Woken: len(s.dirty) > 0, Took: time.Since(start)}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("departure (-want +got):\n%s", diff)
				}
			})
		})
	}
}
