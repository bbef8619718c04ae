package speaker

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/internal/laststate"
)

// view reads the cluster from the informers' caches, which go on answering when the API server does not. Until they are filled it reads from
// the last state, where that was taken up. A pass that is made while it goes over may see some of both; another follows at once.
type view struct {
	caches client.Reader
	last   atomic.Pointer[recalled]
}

func (v *view) reader() client.Reader {
	if last := v.last.Load(); last != nil {
		return last
	}
	return v.caches
}

func (v *view) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	return v.reader().Get(ctx, key, object, opts...)
}

func (v *view) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return v.reader().List(ctx, list, opts...)
}

// recalled reads the cluster from the last state. What it hands out is not to be written to.
type recalled struct{ state laststate.State }

var _ client.Reader = (*recalled)(nil)

// Get reads the configuration: no other single object is kept.
func (r *recalled) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	into, ok := object.(*corev1.ConfigMap)
	if !ok {
		return fmt.Errorf("a %T is no part of the last state", object)
	}
	for i := range r.state.Configurations {
		if client.ObjectKeyFromObject(&r.state.Configurations[i]) == key {
			r.state.Configurations[i].DeepCopyInto(into)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
}

// List reads all objects of a kind, and copies none.
func (r *recalled) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	if o.LabelSelector != nil || o.FieldSelector != nil || o.Namespace != "" {
		return fmt.Errorf("the last state cannot be searched")
	}
	switch into := list.(type) {
	case *corev1.ServiceList:
		into.Items = r.state.Services
	case *discoveryv1.EndpointSliceList:
		into.Items = r.state.EndpointSlices
	case *corev1.NodeList:
		into.Items = r.state.Nodes
	default:
		return fmt.Errorf("a %T is no part of the last state", list)
	}
	return nil
}
