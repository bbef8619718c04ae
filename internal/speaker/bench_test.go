package speaker

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/election"
	"github.com/lanyard-dev/lanyard/internal/laststate"
	"github.com/lanyard-dev/lanyard/internal/membership"
)

// many is a cluster of five nodes with many Services, read as from an informer's cache: a list copies each object, unless that is turned off.
type many struct {
	client.Reader
	objects map[reflect.Type]client.ObjectList
	config  *corev1.ConfigMap
}

func (l many) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	l.config.DeepCopyInto(into.(*corev1.ConfigMap))
	return nil
}

func (l many) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	all := l.objects[reflect.TypeOf(into)]
	if o.UnsafeDisableDeepCopy == nil || !*o.UnsafeDisableDeepCopy {
		all = all.DeepCopyObject().(client.ObjectList)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(all).Elem())
	return nil
}

func newMany(services int) many {
	l := many{objects: map[reflect.Type]client.ObjectList{}, config: stored()}
	l.config.Data[v1alpha1.ConfigurationKey] = "generation: 7\nipPools:\n- {name: wide, addresses: [10.0.0.0/16]}\nl2Advertisements:\n- {name: all}\n"
	var (
		all   corev1.ServiceList
		ends  discoveryv1.EndpointSliceList
		nodes corev1.NodeList
	)
	addr := netip.MustParseAddr("10.0.0.1")
	for i := range services {
		svc := balancer(fmt.Sprintf("web-%d", i), addr.String())
		svc.Annotations = map[string]string{"networking.lanyard.dev/allocated": addr.String() + "=wide"}
		svc.UID, svc.ResourceVersion = types.UID(fmt.Sprintf("uid-%d", i)), "1"
		svc.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: v1alpha1.FieldManager, Subresource: "status", FieldsV1: metav1.NewFieldsV1(
			`{"f:metadata":{"f:annotations":{"f:networking.lanyard.dev/allocated":{}}},"f:status":{"f:loadBalancer":{"f:ingress":{}}}}`)}}
		all.Items = append(all.Items, *svc)
		ends.Items = append(ends.Items, discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: svc.Name + "-x",
			Labels: map[string]string{discoveryv1.LabelServiceName: svc.Name}}, Endpoints: make([]discoveryv1.Endpoint, 3)})
		addr = addr.Next()
	}
	for i := range 5 {
		nodes.Items = append(nodes.Items, *onNode(fmt.Sprintf("w%d", i+1)))
	}
	for _, list := range []client.ObjectList{&all, &ends, &nodes} {
		l.objects[reflect.TypeOf(list)] = list
	}
	return l
}

// BenchmarkDecide is the part of a pass that grows with the number of addresses: what is read, what is decided, what is remembered. The
// speaker makes up to fifty passes a second while it takes addresses over.
func BenchmarkDecide(b *testing.B) {
	for _, services := range []int{10, 1000} {
		b.Run(fmt.Sprintf("%d addresses", services), func(b *testing.B) {
			metrics, err := NewMetrics(prometheus.NewRegistry())
			if err != nil {
				b.Fatal(err)
			}
			s := New(Config{Node: "w1", Namespace: "lanyard-system"}, nil, nil, nil, metrics, logr.Discard())
			s.source.reader, s.claims = newMany(services), newClaims()
			s.group = &gossip{}
			members := map[string]membership.Member{}
			for i := range 5 {
				claims := map[netip.Addr]membership.Claim{}
				addr := netip.MustParseAddr("10.0.0.1")
				for n := range services {
					if n%5 == i {
						claims[addr] = membership.Claim{Epoch: 3, Stage: membership.Held}
						if i == 0 {
							s.claims.known[addr] = &known{claim: election.Claim{Epoch: 3, Stage: election.Held}}
						}
					}
					addr = addr.Next()
				}
				members[fmt.Sprintf("w%d", i+1)] = membership.Member{Claims: claims, Segments: []membership.Segment{on("eth0", "10.0.0.0/16")}}
			}
			if err := s.learn(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				snap, err := s.source.snapshot(b.Context(), "w1", *s.inForce, members)
				if err != nil {
					b.Fatal(err)
				}
				snap.ask = func(addr netip.Addr, offered bool) (election.Fence, election.Occupant) {
					return s.claims.ask(addr, offered, time.Unix(0, 0))
				}
				verdicts := decide(snap)
				if len(verdicts) != services {
					b.Fatalf("%d addresses were decided, want %d", len(verdicts), services)
				}
				ahead(snap, nil)
				s.take(verdicts, snap, time.Unix(0, 0))
				s.claims.settle(verdicts, snap)
				s.claims.told()
				statusOf(observation{verdicts: verdicts, since: s.since, moves: s.moves, members: members})
			}
		})
	}
}

// BenchmarkRecord is a look at what is kept on the disk, as there is one every few seconds: when nothing has changed, and when something has
// that says nothing, as a node's heartbeat.
func BenchmarkRecord(b *testing.B) {
	for name, heartbeats := range map[string]uint64{"nothing has changed": 0, "a heartbeat": 1} {
		b.Run(name+", 1000 addresses", func(b *testing.B) {
			cluster := newMany(1000)
			r := &recorder{file: laststate.File(filepath.Join(b.TempDir(), "state")), source: source{reader: cluster, namespace: "lanyard-system"},
				server: cluster, speakers: func() []string { return []string{"w2"} }, log: logr.Discard(), confirmed: time.Now()}
			for b.Loop() {
				r.revision += heartbeats
				if err := r.record(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
