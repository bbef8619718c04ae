package apply

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Applier writes the objects of one set.
type Applier struct {
	// Client writes, and reads what it has to know before.
	Client client.Client
	// Reader reads objects of any kind from the API server; a cache would have to watch them all.
	Reader client.Reader
	// FieldManager is the writer's name in managedFields (Kubernetes' server-side apply).
	FieldManager string
	// Namespace is where the set lives.
	Namespace string
	// Labels mark every object of the set.
	Labels map[string]string
	// Kinds are all kinds that the set ever had: those are looked through for objects that are no longer wanted.
	Kinds []schema.GroupVersionKind
}

// ForeignObjectError says that an object of the set's name exists and is not ours. It is left as it is.
type ForeignObjectError struct {
	Kind, Namespace, Name string
}

func (e *ForeignObjectError) Error() string {
	return fmt.Sprintf("%s %s/%s exists and was not made by Lanyard (it lacks the label app.kubernetes.io/managed-by=lanyard): rename or delete it",
		e.Kind, e.Namespace, e.Name)
}

// Apply makes the set in the cluster equal to the objects: it writes each of them, then removes what is no longer among them. One object
// that fails does not stop the others.
func (a Applier) Apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	var errs []error
	for _, o := range objects {
		if err := a.applyOne(ctx, o); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, a.prune(ctx, objects))...)
}

func (a Applier) applyOne(ctx context.Context, o *unstructured.Unstructured) error {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(o.GroupVersionKind())
	err := a.Reader.Get(ctx, client.ObjectKeyFromObject(o), found)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("reading %s %s/%s: %w", o.GetKind(), o.GetNamespace(), o.GetName(), err)
	case !ours(found.GetLabels(), a.Labels):
		return &ForeignObjectError{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
	}
	err = a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.FieldOwner(a.FieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying %s %s/%s: %w", o.GetKind(), o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

// ours says whether an object carries the set's labels.
func ours(has, want map[string]string) bool {
	for key, value := range want {
		if has[key] != value {
			return false
		}
	}
	return true
}

// prune removes objects of the set that are not wanted.
func (a Applier) prune(ctx context.Context, wanted []*unstructured.Unstructured) error {
	var errs []error
	for _, kind := range a.Kinds {
		found := &metav1.PartialObjectMetadataList{}
		found.SetGroupVersionKind(kind)
		if err := a.Reader.List(ctx, found, client.InNamespace(a.Namespace), client.MatchingLabels(a.Labels)); err != nil {
			errs = append(errs, fmt.Errorf("listing %s objects to remove: %w", kind.Kind, err))
			continue
		}
		for _, o := range Unwanted(kind, found.Items, wanted) {
			// The identity is a precondition: an object of the same name made meanwhile is not ours to remove.
			err := a.Client.Delete(ctx, &o, client.Preconditions{UID: &o.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
			if client.IgnoreNotFound(err) != nil {
				errs = append(errs, fmt.Errorf("removing %s %s/%s: %w", kind.Kind, o.Namespace, o.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// Unwanted returns the objects of a kind that are not among the wanted ones, and are not being deleted already.
func Unwanted(kind schema.GroupVersionKind, found []metav1.PartialObjectMetadata, wanted []*unstructured.Unstructured) []metav1.PartialObjectMetadata {
	keep := map[string]bool{}
	for _, o := range wanted {
		if o.GroupVersionKind().GroupKind() == kind.GroupKind() {
			keep[o.GetNamespace()+"/"+o.GetName()] = true
		}
	}
	var unwanted []metav1.PartialObjectMetadata
	for _, o := range found {
		if !keep[o.Namespace+"/"+o.Name] && o.DeletionTimestamp == nil {
			o.SetGroupVersionKind(kind)
			unwanted = append(unwanted, o)
		}
	}
	return unwanted
}
