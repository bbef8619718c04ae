package controllers

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/conditions"
	"github.com/lanyard-dev/lanyard/internal/dataplane"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// StatusReconciler is the only writer of the ClusterNetworking's status. It writes while the object is paused too.
type StatusReconciler struct {
	client    client.Client
	live      client.Reader
	board     *board
	namespace string
	recorder  recorder
	// announcers are the nodes that Events have named last.
	announcers announcers
}

func newStatusReconciler(mgr ctrl.Manager, b *board, o Options) *StatusReconciler {
	return &StatusReconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), board: b, namespace: o.Namespace, recorder: newRecorder(mgr)}
}

// SetupWithManager registers the reconciler. It sees its own writes too, so that a status that somebody else edits, or that a pass made from
// a cache that lagged behind, heals; the pass that finds nothing to write ends the round.
func (r *StatusReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("status").
		Watches(&v1alpha1.ClusterNetworking{}, toSingleton).
		Watches(&v1alpha1.NodeNetworking{}, toSingleton).
		Watches(&corev1.Node{}, toSingleton, builder.WithPredicates(nodeChanged)).
		Watches(&appsv1.DaemonSet{}, toSingleton, builder.WithPredicates(named(v1alpha1.SpeakerDaemonSet))).
		WatchesRawSource(signals(r.board.posted)).
		WithOptions(singleWorker).
		Complete(r)
}

// +kubebuilder:rbac:groups=networking.lanyard.dev,resources=clusternetworkings/status,verbs=patch
// +kubebuilder:rbac:groups="",namespace=lanyard-system,resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=lanyard-system,resources=events,verbs=list
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch

// unmadeAgain is when to ask again why pods of speakers are not made: no event of a watch tells.
const unmadeAgain = 5 * time.Second

// Reconcile writes the status from what was observed and reported.
func (r *StatusReconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	reports := r.board.read()
	cnet, err := clusterNetworking(ctx, r.client)
	if err != nil || cnet == nil || !reports.speakOf(revisionOf(cnet)) {
		return ctrl.Result{}, err
	}
	var nodes v1alpha1.NodeNetworkingList
	if err := r.client.List(ctx, &nodes); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing NodeNetworkings: %w", err)
	}
	speakers, err := r.speakers(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	next := cnet.DeepCopy()
	all := fill(next, reports, speakers, nodes.Items)
	if err := r.announce(ctx, all); err != nil {
		return ctrl.Result{}, err
	}
	again := ctrl.Result{}
	if speakers.unmade {
		again.RequeueAfter = unmadeAgain
	}
	if equality.Semantic.DeepEqual(cnet.Status, next.Status) {
		return again, nil
	}
	if err := r.client.Status().Patch(ctx, next, client.MergeFrom(cnet), client.FieldOwner(v1alpha1.FieldManager)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status of ClusterNetworking %q: %w", cnet.Name, err)
	}
	return again, nil
}

// seen is what the cluster says of the speakers.
type seen struct {
	conditions.Speakers
	// alive are the nodes whose speaker is ready, by its kubelet's word: it does more than leave a report behind.
	alive map[string]bool
	// unmade means that the DaemonSet has fewer pods than it should.
	unmade bool
}

// speakers counts the speakers and says which are not ready.
func (r *StatusReconciler) speakers(ctx context.Context) (seen, error) {
	ds, err := getOrNil(ctx, r.client, client.ObjectKey{Namespace: r.namespace, Name: v1alpha1.SpeakerDaemonSet}, &appsv1.DaemonSet{})
	if err != nil || ds == nil {
		return seen{}, err
	}
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.InNamespace(r.namespace), client.MatchingLabels(speakerLabels())); err != nil {
		return seen{}, fmt.Errorf("listing the speakers' pods: %w", err)
	}
	s := seen{Speakers: conditions.Speakers{Desired: ds.Status.DesiredNumberScheduled, Ready: ds.Status.NumberReady}, alive: aliveSpeakers(pods.Items)}
	if s.Ready >= s.Desired {
		return s, nil
	}
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes); err != nil {
		return seen{}, fmt.Errorf("listing nodes: %w", err)
	}
	s.Missing = missingSpeakers(int(s.Desired), pods.Items, nodes.Items)
	if s.unmade = len(pods.Items) < int(s.Desired); s.unmade {
		s.Refusal, err = r.refusal(ctx, ds, pods.Items)
	}
	return s, err
}

// refusal returns what the API server says against the pods of the DaemonSet, as its Events tell.
func (r *StatusReconciler) refusal(ctx context.Context, ds *appsv1.DaemonSet, pods []corev1.Pod) (conditions.Unadmitted, error) {
	var told corev1.EventList
	about := client.MatchingFields{"involvedObject.kind": "DaemonSet", "involvedObject.uid": string(ds.UID), "reason": "FailedCreate"}
	if err := r.live.List(ctx, &told, client.InNamespace(r.namespace), about); err != nil {
		return conditions.Unadmitted{}, fmt.Errorf("listing the Events of DaemonSet %s/%s: %w", ds.Namespace, ds.Name, err)
	}
	return conditions.Unadmitted{Namespace: r.namespace, Said: lastRefusal(told.Items, pods)}, nil
}

// lastRefusal returns the message of the last Event, unless a pod was made after it: then what it tells of is over.
func lastRefusal(events []corev1.Event, pods []corev1.Pod) (said string) {
	var last time.Time
	for i := range pods {
		if made := pods[i].CreationTimestamp.Time; made.After(last) {
			last = made
		}
	}
	for i := range events {
		if when := lastSeen(&events[i]); !when.Before(last) {
			last, said = when, events[i].Message
		}
	}
	return said
}

// lastSeen is when an Event happened last: the two APIs through which Events are made keep that in different fields.
func lastSeen(e *corev1.Event) time.Time {
	when := e.LastTimestamp.Time
	if e.Series != nil && e.Series.LastObservedTime.After(when) {
		when = e.Series.LastObservedTime.Time
	}
	if e.EventTime.After(when) {
		when = e.EventTime.Time
	}
	return when
}

func aliveSpeakers(pods []corev1.Pod) map[string]bool {
	alive := map[string]bool{}
	for i := range pods {
		if podOf(&pods[i]).Ready {
			alive[pods[i].Spec.NodeName] = true
		}
	}
	return alive
}

// missingSpeakers names the nodes whose speaker is not ready, each with the reason, those that need a person first. Pods that could not even
// be made come last.
func missingSpeakers(desired int, pods []corev1.Pod, nodes []corev1.Node) []conditions.MissingSpeaker {
	down := map[string]bool{}
	for i := range nodes {
		down[nodes[i].Name] = !nodeReady(&nodes[i])
	}
	var missing []conditions.MissingSpeaker
	for i := range pods {
		p := &pods[i]
		pod := podOf(p)
		if pod.Ready {
			continue
		}
		why, stuck := "starting", false
		switch {
		case down[p.Spec.NodeName]:
			why, stuck = "the node is not Ready: see whether it and its kubelet run", true
		case pod.Failure != "":
			why, stuck = pod.Failure+"; see events and log of pod "+p.Name, true
		case p.DeletionTimestamp != nil:
			why = "being replaced"
		case slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil }):
			why = "runs but is not ready: if this lasts, see the log of pod " + p.Name
		}
		missing = append(missing, conditions.MissingSpeaker{
			Text: fmt.Sprintf("%s (%s)", cmp.Or(p.Spec.NodeName, "pod "+p.Name+" without a node"), why), Stuck: stuck,
		})
	}
	slices.SortFunc(missing, func(a, b conditions.MissingSpeaker) int {
		if a.Stuck != b.Stuck && a.Stuck {
			return -1
		} else if a.Stuck != b.Stuck {
			return 1
		}
		return strings.Compare(a.Text, b.Text)
	})
	if none := desired - len(pods); none > 0 {
		missing = append(missing, conditions.MissingSpeaker{
			Text: fmt.Sprintf("%d without a pod (if this lasts, see the events of DaemonSet %s)", none, v1alpha1.SpeakerDaemonSet),
		})
	}
	return missing
}

// fill makes the object's status, and returns all allocated addresses, of which it lists the first. While addresses cannot be read, it goes on
// saying what it last said of them.
func fill(cnet *v1alpha1.ClusterNetworking, reports reports, speakers seen, nodes []v1alpha1.NodeNetworking) []v1alpha1.AllocatedIP {
	status := &cnet.Status
	status.ObservedGeneration = cnet.Generation
	status.KubeProxy = reports.kubeProxy.status
	status.Speakers = v1alpha1.SpeakersStatus{Desired: speakers.Desired, Ready: speakers.Ready, Summary: fmt.Sprintf("%d/%d", speakers.Ready, speakers.Desired)}

	facts := conditions.Facts{
		Generation: cnet.Generation, State: cnet.Spec.ManagementState,
		Problems: reports.dataplane.problems, InForce: reports.dataplane.inForce, DataplaneError: errorText(reports.dataplane.err),
		KubeProxy: reports.kubeProxy.verdict, Deprecation: conditions.Deprecation(reports.kubeProxy.deprecation),
		Pools: len(cnet.Spec.IPPools), AddressesError: errorText(reports.addresses.err),
		Clashes: refusalsOf(reports.addresses.clashes), Quarantined: quarantined(reports.addresses.foreign, reports.addresses.plan), Speakers: speakers.Speakers,
		Overlaps:    reports.addresses.overlaps,
		KeysProblem: reports.dataplane.keys.problem(), KeysRotation: reports.dataplane.keys.rotation(),
	}
	all := status.AllocatedIPs
	if plan := reports.addresses.plan; plan != nil {
		status.IPPools, status.Addresses = poolStatus(plan.Pools)
		status.QuarantinedIPs = reports.addresses.foreign[:min(len(reports.addresses.foreign), v1alpha1.QuarantinedIPsLimit)]
		picture := allocatedIPs(plan.Assignments, wordsOf(nodes, speakers.alive), dataplane.MembershipPort(cnet.Spec.Speaker))
		facts.Unannounced, facts.Remarks, facts.Split = picture.unannounced, picture.remarks, picture.split
		all = picture.all
		status.AllocatedIPs = picture.all[:min(len(picture.all), v1alpha1.AllocatedIPsLimit)]
		status.AllocatedIPsOmitted = int32(len(picture.all) - len(status.AllocatedIPs)) //nolint:gosec // at most the number of Services
		facts.Refusals = refusalsOf(plan.Refusals)
	}
	setConditions(status, conditions.For(facts))
	return all
}

// setConditions takes the conditions over, and removes those that do not hold any more.
func setConditions(status *v1alpha1.ClusterNetworkingStatus, all []metav1.Condition) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c metav1.Condition) bool {
		return !slices.ContainsFunc(all, func(holds metav1.Condition) bool { return holds.Type == c.Type })
	})
	for _, c := range all {
		meta.SetStatusCondition(&status.Conditions, c)
	}
}

// refusalsOf returns refusals as conditions speak of them.
func refusalsOf(all []ipam.Refusal) []conditions.Refusal {
	var same []conditions.Refusal
	for _, r := range all {
		same = append(same, conditions.Refusal{Service: r.Service, Reason: string(r.Reason), Message: r.Message,
			Passing: r.Reason == ipam.AddressUnverified})
	}
	return same
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// poolStatus returns how far each pool is used, and their sum.
func poolStatus(pools []ipam.Usage) ([]v1alpha1.IPPoolStatus, v1alpha1.AddressSummary) {
	used, free := new(big.Int), new(big.Int)
	var all []v1alpha1.IPPoolStatus
	for _, p := range pools {
		used.Add(used, p.Allocated)
		free.Add(free, p.Available)
		pool := v1alpha1.IPPoolStatus{Name: p.Pool, Total: p.Total.String(), Allocated: p.Allocated.String(), Available: p.Available.String()}
		if p.Quarantined.Sign() > 0 {
			pool.Quarantined = p.Quarantined.String()
		}
		if p.Draining.Sign() > 0 {
			pool.Draining = p.Draining.String()
		}
		all = append(all, pool)
	}
	return all, v1alpha1.AddressSummary{Used: used.String(), Free: free.String()}
}
