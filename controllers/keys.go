package controllers

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/keyring"
)

// keysReport is how the keys of the speakers' gossip stand.
type keysReport struct {
	reason  keyring.Reason
	message string
}

// problem says what is wrong with them, and rotation how far one gives way to another; empty when there is no such thing.
func (r keysReport) problem() string  { return r.sayIf(keyring.Invalid) }
func (r keysReport) rotation() string { return r.sayIf(keyring.Rotating) }

func (r keysReport) sayIf(reason keyring.Reason) string {
	if r.reason != reason {
		return ""
	}
	return r.message
}

// keysStep is the step of the keys.
type keysStep struct {
	keyring.Step
	// uid and version are those of the Secret that it follows: over another it must not be written, nor instead of one that is gone. Empty:
	// there was none.
	uid     types.UID
	version string
	changes bool
}

// keys decides what the Secret holds next.
func (r *DataplaneReconciler) keys(ctx context.Context, cnet *v1alpha1.ClusterNetworking) (keysStep, error) {
	secret, err := getOrNil(ctx, r.live, client.ObjectKey{Namespace: r.options.Namespace, Name: v1alpha1.MembershipSecret}, &corev1.Secret{})
	if err != nil {
		return keysStep{}, err
	}
	facts := keyring.Facts{Known: r.known, Requested: cnet.Annotations[v1alpha1.RotateMembershipKeyAnnotation]}
	before, follows := "", metav1.ObjectMeta{}
	if secret != nil && labels.SelectorFromSet(speakerLabels()).Matches(labels.Set(secret.Labels)) { // else it is somebody else's, and stays so
		follows, facts.Served = secret.ObjectMeta, secret.Annotations[v1alpha1.RotatedForAnnotation]
		if facts.Stored = secret.Data; facts.Stored == nil {
			facts.Stored = map[string][]byte{}
		}
		if stored, err := keyring.Parse(secret.Data); err == nil {
			r.known, before = stored, keyring.Digest(stored.Keys())
		}
	}
	if facts.Fresh, err = r.freshKey(); err != nil {
		return keysStep{}, err
	}
	if facts.Rotates() {
		if facts.InForce, err = r.keysInForce(ctx); err != nil {
			return keysStep{}, err
		}
	}
	step := keyring.Next(facts)
	return keysStep{Step: step, uid: follows.UID, version: follows.ResourceVersion, changes: before != digestOf(step)}, nil
}

// freshKey returns a random key that the Secret does not hold: the one before may be there although the pass that wrote it failed then.
func (r *DataplaneReconciler) freshKey() ([]byte, error) {
	if r.fresh != nil && !slices.ContainsFunc(r.known.Keys(), func(key []byte) bool { return bytes.Equal(key, r.fresh) }) {
		return r.fresh, nil
	}
	r.fresh = make([]byte, keyring.Size)
	if _, err := rand.Read(r.fresh); err != nil {
		return nil, fmt.Errorf("making a key for the speakers' gossip: %w", err)
	}
	return r.fresh, nil
}

func digestOf(s keyring.Step) string {
	ring, err := keyring.Parse(s.Entries)
	if err != nil {
		return ""
	}
	return keyring.Digest(ring.Keys())
}

// keysInForce returns what each node's speaker says that it has in force. The pods are asked for after the Secret was read, and of the API
// server itself: each that has mounted an older Secret is among them. A report that comes late only makes a step later.
func (r *DataplaneReconciler) keysInForce(ctx context.Context) (map[string]string, error) {
	var pods corev1.PodList
	if err := r.live.List(ctx, &pods, client.InNamespace(r.options.Namespace), client.MatchingLabels(speakerLabels())); err != nil {
		return nil, fmt.Errorf("listing the speakers' pods: %w", err)
	}
	var nodes v1alpha1.NodeNetworkingList
	if err := r.client.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("listing NodeNetworkings: %w", err)
	}
	said := map[string]string{}
	for _, n := range nodes.Items {
		said[n.Name] = n.Status.MembershipKeys.Digest
	}
	inForce := map[string]string{}
	for i := range pods.Items {
		if node := pods.Items[i].Spec.NodeName; node != "" {
			inForce[node] = said[node]
		}
	}
	return inForce, nil
}

// pin makes the Secret among the objects be written over the one that the step follows only. It is written anew by the next pass otherwise.
func (s keysStep) pin(objects []*unstructured.Unstructured) {
	for _, o := range objects {
		if o.GetKind() == "Secret" && o.GetName() == v1alpha1.MembershipSecret {
			o.SetUID(s.uid)
			o.SetResourceVersion(s.version)
		}
	}
}

// keysWritten notes that the Secret holds what was decided.
func (r *DataplaneReconciler) keysWritten(ctx context.Context, s keysStep) {
	ring, err := keyring.Parse(s.Entries)
	if err != nil || !s.changes {
		return
	}
	r.known = ring
	ctrl.LoggerFrom(ctx).Info("wrote the keys of the speakers' gossip", "digest", keyring.Digest(ring.Keys()), "reason", s.Reason, "message", s.Message)
}

// keysChanged lets a speaker's report through when it has other keys in force.
var keysChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, was := e.ObjectOld.(*v1alpha1.NodeNetworking)
		after, is := e.ObjectNew.(*v1alpha1.NodeNetworking)
		return !was || !is || before.Status.MembershipKeys != after.Status.MembershipKeys
	},
}
