package apply

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var (
	configMaps = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	secrets    = corev1.SchemeGroupVersion.WithKind("Secret")
	ourLabels  = map[string]string{"app.kubernetes.io/managed-by": "lanyard", "app.kubernetes.io/component": "speaker"}
)

// wanted is an object of the set.
func wanted(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	o.SetNamespace("lanyard-system")
	o.SetName(name)
	o.SetLabels(maps.Clone(ourLabels))
	return o
}

// there is a ConfigMap that exists already.
func there(namespace, name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, UID: "uid"}}
}

// cluster is an API server with objects.
func cluster(broken interceptor.Funcs, objects ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(broken).Build()
}

func applier(c client.Client) Applier {
	return Applier{Client: c, Reader: c, FieldManager: "lanyard-manager", Namespace: "lanyard-system", Labels: ourLabels,
		Kinds: []schema.GroupVersionKind{configMaps, secrets}}
}

// names are the ConfigMaps and Secrets of the cluster.
func names(t *testing.T, c client.Client) []string {
	t.Helper()
	var all []string
	for _, kind := range []schema.GroupVersionKind{configMaps, secrets} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			all = append(all, kind.Kind+" "+o.Namespace+"/"+o.Name)
		}
	}
	slices.Sort(all)
	return all
}

func TestApply(t *testing.T) {
	half := map[string]string{"app.kubernetes.io/managed-by": "lanyard"}
	for name, tc := range map[string]struct {
		there   []client.Object
		broken  interceptor.Funcs
		want    []string
		wantErr string
	}{
		"what is missing is made": {
			want: []string{"ConfigMap lanyard-system/a", "Secret lanyard-system/b"},
		},
		"what is ours is kept, and what is ours and no longer wanted is removed": {
			there: []client.Object{there("lanyard-system", "a", ourLabels), there("lanyard-system", "old", ourLabels)},
			want:  []string{"ConfigMap lanyard-system/a", "Secret lanyard-system/b"},
		},
		"what lacks a label or lies in another namespace is not of the set": {
			there: []client.Object{there("lanyard-system", "half", half), there("other", "old", ourLabels)},
			want:  []string{"ConfigMap lanyard-system/a", "ConfigMap lanyard-system/half", "ConfigMap other/old", "Secret lanyard-system/b"},
		},
		"somebody else's object under a wanted name is left as it is, and stops nothing else": {
			there: []client.Object{there("lanyard-system", "a", nil), there("lanyard-system", "old", ourLabels)},
			want:  []string{"ConfigMap lanyard-system/a", "Secret lanyard-system/b"},
			wantErr: "ConfigMap lanyard-system/a exists and was not made by Lanyard (it lacks the label app.kubernetes.io/managed-by=lanyard): " +
				"rename or delete it",
		},
		"a write that fails stops neither the others nor the removal": {
			there: []client.Object{there("lanyard-system", "old", ourLabels)},
			broken: interceptor.Funcs{Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
				return errors.New("quota")
			}},
			wantErr: "applying ConfigMap lanyard-system/a: quota\napplying Secret lanyard-system/b: quota",
		},
		"a kind that cannot be listed does not hide the others": {
			there: []client.Object{there("lanyard-system", "old", ourLabels)},
			broken: interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if options := (&client.ListOptions{}).ApplyOptions(opts); list.GetObjectKind().GroupVersionKind() == secrets && options.Namespace != "" {
					return errors.New("forbidden")
				}
				return c.List(ctx, list, opts...)
			}},
			want:    []string{"ConfigMap lanyard-system/a", "Secret lanyard-system/b"},
			wantErr: "listing Secret objects to remove: forbidden",
		},
		"an object that is replaced by another of its name meanwhile is not removed": {
			there: []client.Object{there("lanyard-system", "old", ourLabels)},
			broken: interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				options := (&client.DeleteOptions{}).ApplyOptions(opts)
				if p := options.Preconditions; p == nil || *p.UID != o.GetUID() {
					return errors.New("removed whatever has the name")
				}
				return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, o.GetName(), errors.New("another UID"))
			}},
			want:    []string{"ConfigMap lanyard-system/a", "ConfigMap lanyard-system/old", "Secret lanyard-system/b"},
			wantErr: "removing ConfigMap lanyard-system/old: Operation cannot be fulfilled on configmaps \"old\": another UID",
		},
		"an object that somebody else removes meanwhile is as good as removed": {
			there: []client.Object{there("lanyard-system", "old", ourLabels)},
			broken: interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				_ = c.Delete(ctx, o) // by somebody else
				return c.Delete(ctx, o, opts...)
			}},
			want: []string{"ConfigMap lanyard-system/a", "Secret lanyard-system/b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(tc.broken, tc.there...)
			err := applier(c).Apply(t.Context(), []*unstructured.Unstructured{wanted(configMaps, "a"), wanted(secrets, "b")})
			if got := text(err); got != tc.wantErr {
				t.Errorf("error (-want +got):\n%s", cmp.Diff(tc.wantErr, got))
			}
			if diff := cmp.Diff(tc.want, names(t, c)); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestAForeignObjectIsToldApart from failures that go away by themselves.
func TestAForeignObjectIsToldApart(t *testing.T) {
	c := cluster(interceptor.Funcs{}, there("lanyard-system", "a", nil))
	err := applier(c).Apply(t.Context(), []*unstructured.Unstructured{wanted(configMaps, "a")})
	var foreign *ForeignObjectError
	if !errors.As(err, &foreign) {
		t.Fatalf("error is %v, want a ForeignObjectError", err)
	}
	if diff := cmp.Diff(ForeignObjectError{Kind: "ConfigMap", Namespace: "lanyard-system", Name: "a"}, *foreign); diff != "" {
		t.Errorf("foreign object (-want +got):\n%s", diff)
	}
}

func TestUnwanted(t *testing.T) {
	found := func(name string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "lanyard-system", Name: name}}
	}
	going := found("going")
	going.DeletionTimestamp = &metav1.Time{}
	elsewhere := found("kept")
	elsewhere.Namespace = "other"
	got := Unwanted(configMaps,
		[]metav1.PartialObjectMetadata{
			found("kept"), found("old"), going, elsewhere, found("of-another-kind"), found("kept-by-another-version")},
		[]*unstructured.Unstructured{wanted(configMaps, "kept"), wanted(secrets, "of-another-kind"),
			wanted(configMaps.GroupKind().WithVersion("v2"), "kept-by-another-version")})
	var names []string
	for _, o := range got {
		if o.GroupVersionKind() != configMaps {
			t.Errorf("%s has the kind %s: it cannot be deleted by that", o.Name, o.GroupVersionKind())
		}
		names = append(names, o.Namespace+"/"+o.Name)
	}
	if diff := cmp.Diff([]string{"lanyard-system/old", "other/kept", "lanyard-system/of-another-kind"}, names); diff != "" {
		t.Errorf("unwanted (-want +got):\n%s", diff)
	}
}
