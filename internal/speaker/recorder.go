package speaker

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"
	"sort"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/allocation"
	"github.com/lanyard-dev/lanyard/internal/laststate"
)

// The pace of the recorder. What changes is on the disk within keepEvery: a speaker that is started anew knows its Services but for those of the
// last seconds before the API server went. What stays as it is is confirmed every confirmEvery, far more often than laststate.MaxAge.
const (
	keepEvery     = 5 * time.Second
	confirmEvery  = 10 * time.Minute
	confirmWithin = 5 * time.Second
)

// recorder keeps on the node's disk what the speaker decides from.
type recorder struct {
	file   laststate.File // empty: nothing is kept
	origin laststate.Origin
	source source
	// server asks the API server itself.
	server client.Reader
	// speakers are the other nodes whose speakers are, or should be, in the group.
	speakers func() []string
	log      logr.Logger
	// changed says that something may have.
	changed chan struct{}

	// kept is what was written last, and revision that of what it was made from.
	kept     laststate.State
	revision uint64
	// confirmed is when the caches were last known to be what the API server says.
	confirmed time.Time
	complaint string
}

// run keeps what changes until the context ends. It begins when the caches were just filled. A disk that fails is complained of once: the
// speaker does not need it until it is started anew.
func (r *recorder) run(ctx context.Context) error {
	if r.file == "" {
		return nil
	}
	r.confirmed = time.Now()
	for {
		complaint := ""
		if err := r.record(ctx); err != nil && ctx.Err() == nil {
			if complaint = err.Error(); complaint != r.complaint {
				r.log.Error(err, "a speaker that starts while the API server is away will not know the cluster as it is now; it is tried again")
			}
		}
		r.complaint = complaint
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(keepEvery):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.changed:
		}
	}
}

// record writes what has changed, or has not been confirmed for a while.
func (r *recorder) record(ctx context.Context) error {
	revision, err := r.source.revision(ctx)
	if err != nil {
		return err
	}
	speakers := r.speakers()
	if revision == r.revision && slices.Equal(speakers, r.kept.Speakers) && time.Since(r.confirmed) < confirmEvery {
		return nil // to compare all that is kept would cost more than all else that an idle speaker does
	}
	state, err := r.source.lasting(ctx)
	if err != nil {
		return err
	}
	state.Origin, state.Speakers, state.AsOf = r.origin, speakers, r.kept.AsOf
	same := reflect.DeepEqual(r.kept, state)
	if same && time.Since(r.confirmed) < confirmEvery {
		r.revision = revision
		return nil
	}
	if r.answers(ctx) {
		r.confirmed = time.Now()
	}
	if state.AsOf = metav1.NewTime(r.confirmed); same && state.AsOf.Equal(&r.kept.AsOf) {
		return nil
	}
	if err := r.file.Write(state); err != nil {
		return err
	}
	r.kept, r.revision = state, revision
	return nil
}

// revision is a number that changes when any object does that is decided from.
func (s source) revision(ctx context.Context) (sum uint64, err error) {
	add := func(o client.Object) { // in any order
		sum += maphash.String(seed, string(o.GetUID())+"/"+o.GetNamespace()+"/"+o.GetName()+"@"+o.GetResourceVersion())
	}
	var configuration corev1.ConfigMap // by name: the cache holds no other, and does not list them
	err = s.reader.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: v1alpha1.ConfigurationConfigMap}, &configuration)
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("reading the configuration: %w", err)
	}
	add(&configuration)
	for _, list := range []client.ObjectList{&corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}, &corev1.NodeList{}} {
		if err := s.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return 0, fmt.Errorf("listing what is decided from: %w", err)
		}
		err := meta.EachListItem(list, func(object runtime.Object) error {
			if o, ok := object.(client.Object); ok { // all are
				add(o)
			}
			return nil
		})
		if err != nil {
			return 0, fmt.Errorf("reading the revisions of a %T: %w", list, err)
		}
	}
	return sum, nil
}

// seed is that of the revisions' sums, which no other process sees.
var seed = maphash.MakeSeed()

// answers says whether the API server does.
func (r *recorder) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, confirmWithin)
	defer cancel()
	err := r.server.Get(ctx, client.ObjectKey{Namespace: r.source.namespace, Name: v1alpha1.ConfigurationConfigMap}, &corev1.ConfigMap{})
	return client.IgnoreNotFound(err) == nil
}

// lasting returns what is decided from, in the order of names: the load balancers with addresses, the endpoints of those for which they
// matter, the nodes, and the configuration, each without what changes at every write and says nothing.
func (s source) lasting(ctx context.Context) (laststate.State, error) {
	var (
		state          laststate.State
		services       corev1.ServiceList
		endpointSlices discoveryv1.EndpointSliceList
		nodes          corev1.NodeList
		configuration  corev1.ConfigMap
	)
	for what, list := range map[string]client.ObjectList{"Services": &services, "EndpointSlices": &endpointSlices, "Nodes": &nodes} {
		if err := s.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil { // settle writes to nothing that is shared
			return laststate.State{}, fmt.Errorf("listing %s: %w", what, err)
		}
	}
	err := s.reader.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: v1alpha1.ConfigurationConfigMap}, &configuration)
	if client.IgnoreNotFound(err) != nil {
		return laststate.State{}, fmt.Errorf("reading the configuration: %w", err)
	}
	if err == nil {
		state.Configurations = []corev1.ConfigMap{configuration}
	}
	local := map[string]bool{}
	for _, svc := range services.Items {
		if svc.Spec.Type == corev1.ServiceTypeLoadBalancer && len(allocation.Addresses(&svc)) > 0 {
			state.Services = append(state.Services, svc)
			local[svc.Namespace+"/"+svc.Name] = svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
		}
	}
	for _, es := range endpointSlices.Items {
		if local[es.Namespace+"/"+es.Labels[discoveryv1.LabelServiceName]] {
			state.EndpointSlices = append(state.EndpointSlices, es)
		}
	}
	state.Nodes = slices.Clone(nodes.Items)
	settle(state.Services)
	settle(state.EndpointSlices)
	settle(state.Configurations)
	settle(state.Nodes)
	for i := range state.Nodes {
		state.Nodes[i].Status.Conditions = statuses(state.Nodes[i].Status.Conditions)
	}
	return state, nil
}

// statuses are conditions without their times and messages.
func statuses(conditions []corev1.NodeCondition) []corev1.NodeCondition {
	all := make([]corev1.NodeCondition, 0, len(conditions))
	for _, c := range conditions {
		all = append(all, corev1.NodeCondition{Type: c.Type, Status: c.Status})
	}
	return all
}

// settle puts objects in the order of their names, without what changes at every write. What they point to stays as it is: the caches have it.
func settle[T any, P interface {
	*T
	client.Object
}](all []T) {
	for i := range all {
		object := P(&all[i])
		object.SetResourceVersion("")
		object.SetGeneration(0)
		managed := slices.Clone(object.GetManagedFields())
		for j := range managed {
			managed[j].Time = nil
		}
		object.SetManagedFields(managed)
	}
	sort.Slice(all, func(i, j int) bool { // by index: the objects are large
		a, b := P(&all[i]), P(&all[j])
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName())) < 0
	})
}
