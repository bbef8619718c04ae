package speaker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lanyard-dev/lanyard/internal/laststate"
)

// refusing is an API server that can be taken away.
type refusing struct {
	client.Reader
	away bool
}

func (r *refusing) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	if r.away {
		return errAway
	}
	return r.Reader.Get(ctx, key, object, opts...)
}

// TestRecorder follows what lies on the disk through the life of a speaker. A line says since when the file is as it is, as of when its state
// is, and how many Services and other speakers it holds.
func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "speaker")
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		cluster, speakers, begun := fake.NewFakeClient(stored()), []string{"w2"}, time.Now()
		server := &refusing{Reader: cluster}
		var complaints []string
		r := &recorder{
			file: laststate.File(filepath.Join(folder, "state")), origin: laststate.Origin{Node: "w1"},
			source: source{reader: cluster, namespace: "lanyard-system"}, server: server, speakers: func() []string { return speakers },
			log:     funcr.New(func(_, line string) { complaints = append(complaints, line) }, funcr.Options{}),
			changed: make(chan struct{}, 1),
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.run(ctx) }()
		add := func(name string) {
			if err := cluster.Create(ctx, balancer(name, "192.168.1.200")); err != nil {
				t.Fatal(err)
			}
			wake(r.changed)
		}
		var got []string
		after := func(what string, d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); wake(r.changed) { // as the passes do
				time.Sleep(min(lookAgain, time.Until(end)))
			}
			synctest.Wait()
			kept, err := r.file.Read()
			if errors.Is(err, os.ErrNotExist) {
				got = append(got, what+": nothing")
				return
			}
			got = append(got, fmt.Sprintf("%s: as of %s, %d Services, %d speakers, error %v",
				what, kept.AsOf.Sub(begun.Truncate(time.Second)), len(kept.Services), len(kept.Speakers), err))
		}
		after("the caches are filled", 0)
		add("a")
		after("a Service comes a moment later", time.Second)
		add("b")
		after("another, and some seconds pass", 4*time.Second)
		after("nothing happens", confirmEvery-20*time.Second)
		after("nothing happens for longer", 30*time.Second)
		server.away = true
		after("the API server is away", time.Hour)
		speakers = []string{"w2", "w3"}
		after("another speaker is heard meanwhile", 20*time.Second)
		server.away = false
		after("the API server is back", 20*time.Second)
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		add("c")
		after("the disk fails", time.Minute)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		after("the disk is mended", 20*time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		want := []string{
			"the caches are filled: as of 0s, 0 Services, 1 speakers, error <nil>",
			"a Service comes a moment later: as of 0s, 0 Services, 1 speakers, error <nil>",
			"another, and some seconds pass: as of 5s, 2 Services, 1 speakers, error <nil>",
			"nothing happens: as of 5s, 2 Services, 1 speakers, error <nil>",
			"nothing happens for longer: as of 10m5s, 2 Services, 1 speakers, error <nil>",
			"the API server is away: as of 10m5s, 2 Services, 1 speakers, error <nil>",
			"another speaker is heard meanwhile: as of 10m5s, 2 Services, 2 speakers, error <nil>",
			"the API server is back: as of 1h10m45s, 2 Services, 2 speakers, error <nil>",
			"the disk fails: nothing",
			"the disk is mended: as of 1h12m5s, 3 Services, 2 speakers, error <nil>",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("what lies on the disk (-want +got):\n%s", diff)
		}
		if len(complaints) != 1 || !strings.Contains(complaints[0], "no such file or directory") {
			t.Errorf("it complained %d times, want once, of the disk: %q", len(complaints), complaints)
		}
	})
}

// TestARecorderWithoutAFileKeepsNothing.
func TestARecorderWithoutAFileKeepsNothing(t *testing.T) {
	if err := (&recorder{}).run(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestWhatIsKeptIsNotTakenFromTheCaches: they are not copied, so nothing of them may change, nor their order.
func TestWhatIsKeptIsNotTakenFromTheCaches(t *testing.T) {
	cluster := newMany(12) // web-10 comes before web-2 by name, and after it in the cache
	nodes := cluster.objects[reflect.TypeFor[*corev1.NodeList]()].(*corev1.NodeList)
	for i := range nodes.Items {
		nodes.Items[i].ResourceVersion = "7"
		nodes.Items[i].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Message: "kubelet is ready"}}
	}
	services := cluster.objects[reflect.TypeFor[*corev1.ServiceList]()].(*corev1.ServiceList)
	services.Items[0].ManagedFields[0].Time = &metav1.Time{Time: time.Unix(1000, 0)}
	before := []client.ObjectList{services.DeepCopy(), nodes.DeepCopy()}
	if _, err := (source{reader: cluster, namespace: "lanyard-system"}).lasting(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, []client.ObjectList{services, nodes}); diff != "" {
		t.Errorf("the caches have changed (-before +after):\n%s", diff)
	}
}
