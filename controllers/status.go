package controllers

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"k8s.io/client-go/util/workqueue"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/conditions"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// StatusReconciler is the only writer of the ClusterNetworking's status. It writes while the object is paused too.
type StatusReconciler struct {
	client    client.Client
	board     *board
	namespace string
}

func newStatusReconciler(mgr ctrl.Manager, b *board, o Options) *StatusReconciler {
	return &StatusReconciler{client: mgr.GetClient(), board: b, namespace: o.Namespace}
}

// SetupWithManager registers the reconciler.
func (r *StatusReconciler) SetupWithManager(mgr ctrl.Manager) error {
	posted := source.TypedChannel(r.board.posted, handler.TypedFuncs[struct{}, reconcile.Request]{
		GenericFunc: func(_ context.Context, _ event.TypedGenericEvent[struct{}], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			q.Add(singleton)
		},
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("status").
		Watches(&v1alpha1.ClusterNetworking{}, toSingleton, builder.WithPredicates(specChanged)).
		Watches(&v1alpha1.NodeNetworking{}, toSingleton).
		Watches(&appsv1.DaemonSet{}, toSingleton, builder.WithPredicates(named(v1alpha1.SpeakerDaemonSet))).
		WatchesRawSource(posted).
		WithOptions(singleWorker).
		Complete(r)
}

// +kubebuilder:rbac:groups=networking.lanyard.dev,resources=clusternetworkings/status,verbs=patch;update
// +kubebuilder:rbac:groups="",namespace=lanyard-system,resources=pods,verbs=get;list;watch

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
	fill(next, reports, speakers, nodes.Items)
	if equality.Semantic.DeepEqual(cnet.Status, next.Status) {
		return ctrl.Result{}, nil
	}
	if err := r.client.Status().Patch(ctx, next, client.MergeFrom(cnet), client.FieldOwner(v1alpha1.FieldManager)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status of ClusterNetworking %q: %w", cnet.Name, err)
	}
	return ctrl.Result{}, nil
}

// speakers counts the speakers and says which are not ready.
func (r *StatusReconciler) speakers(ctx context.Context) (conditions.Speakers, error) {
	ds, err := getOrNil(ctx, r.client, client.ObjectKey{Namespace: r.namespace, Name: v1alpha1.SpeakerDaemonSet}, &appsv1.DaemonSet{})
	if err != nil || ds == nil {
		return conditions.Speakers{}, err
	}
	s := conditions.Speakers{Desired: ds.Status.DesiredNumberScheduled, Ready: ds.Status.NumberReady}
	if s.Ready >= s.Desired {
		return s, nil
	}
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.InNamespace(r.namespace), client.MatchingLabels(speakerLabels())); err != nil {
		return s, fmt.Errorf("listing the speakers' pods: %w", err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if pod := proxyPod(p); !pod.Ready {
			s.Missing = append(s.Missing, fmt.Sprintf("%s (%s)", cmp.Or(p.Spec.NodeName, "no node"), cmp.Or(pod.Failure, "starting")))
		}
	}
	slices.Sort(s.Missing)
	return s, nil
}

// fill makes the object's status.
func fill(cnet *v1alpha1.ClusterNetworking, reports reports, speakers conditions.Speakers, nodes []v1alpha1.NodeNetworking) {
	status := &cnet.Status
	status.ObservedGeneration = cnet.Generation
	status.KubeProxy = reports.kubeProxy.status
	status.Speakers = v1alpha1.SpeakersStatus{Desired: speakers.Desired, Ready: speakers.Ready, Summary: fmt.Sprintf("%d/%d", speakers.Ready, speakers.Desired)}
	status.IPPools, status.Addresses = poolStatus(reports.addresses.pools)
	allocated, unannounced, remarks := allocatedIPs(reports.addresses.assignments, nodes)
	status.AllocatedIPs = allocated[:min(len(allocated), v1alpha1.AllocatedIPsLimit)]
	status.AllocatedIPsOmitted = int32(len(allocated) - len(status.AllocatedIPs)) //nolint:gosec // at most the number of Services

	facts := conditions.Facts{
		Generation: cnet.Generation, State: cnet.Spec.ManagementState,
		Problems: reports.dataplane.problems, InForce: reports.dataplane.inForce, DataplaneError: errorText(reports.dataplane.err),
		KubeProxy: reports.kubeProxy.verdict, Pools: len(reports.addresses.pools), AddressesError: errorText(reports.addresses.err),
		Speakers: speakers, Unannounced: unannounced, Remarks: remarks,
	}
	for _, refusal := range reports.addresses.refusals {
		facts.Refusals = append(facts.Refusals, conditions.Refusal{Service: refusal.Service, Reason: string(refusal.Reason), Message: refusal.Message})
	}
	for _, c := range conditions.For(facts) {
		meta.SetStatusCondition(&status.Conditions, c)
	}
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
		all = append(all, v1alpha1.IPPoolStatus{Name: p.Pool, Total: p.Total.String(), Allocated: p.Allocated.String(), Available: p.Available.String()})
	}
	return all, v1alpha1.AddressSummary{Used: used.String(), Free: free.String()}
}

// allocatedIPs joins who has an address with who answers for it, in the order of addresses.
func allocatedIPs(assignments []ipam.Assignment, nodes []v1alpha1.NodeNetworking) (all []v1alpha1.AllocatedIP, missing []conditions.Unannounced, remarks []string) {
	announced := announcersOf(nodes)
	explained := map[string]string{}
	for _, n := range nodes {
		for _, u := range n.Status.Unannounced {
			explained[u.IP] = u.Message
		}
	}
	for _, a := range assignments {
		for _, h := range a.Addresses {
			ip := v1alpha1.AllocatedIP{IP: h.Addr.String(), IPPool: h.Pool, Services: []string{a.Service}}
			if by, ok := announced[ip.IP]; ok {
				ip.Node, ip.Interface, ip.MAC, ip.Since, ip.Message = by.node, by.Interface, by.MAC, &by.Since, by.Message
				if by.Message != "" {
					remarks = append(remarks, ip.IP+": "+by.Message)
				}
			} else {
				why, known := explained[ip.IP]
				ip.Message = cmp.Or(why, "no speaker has reported that it announces it yet")
				missing = append(missing, conditions.Unannounced{IP: ip.IP, Message: ip.Message, Explained: known})
			}
			all = append(all, ip)
		}
	}
	slices.SortFunc(all, func(a, b v1alpha1.AllocatedIP) int {
		return netip.MustParseAddr(a.IP).Compare(netip.MustParseAddr(b.IP)) // they were addresses a moment ago
	})
	slices.SortFunc(missing, func(a, b conditions.Unannounced) int { return strings.Compare(a.IP, b.IP) })
	slices.Sort(remarks)
	return all, missing, remarks
}

// announcement is a node's word that it answers for an address.
type announcement struct {
	v1alpha1.AnnouncedIP
	node string
}

// announcersOf returns who answers for each address: among the nodes that say so, and that most other speakers hear, the one that began
// last. A node that died keeps saying so in the report that it left.
func announcersOf(nodes []v1alpha1.NodeNetworking) map[string]announcement {
	answers := map[string]announcement{}
	for _, n := range nodes {
		if unheard(n.Name, nodes) {
			continue
		}
		for _, a := range n.Status.Announced {
			if other, known := answers[a.IP]; !known || other.Since.Before(&a.Since) {
				answers[a.IP] = announcement{AnnouncedIP: a, node: n.Name}
			}
		}
	}
	return answers
}

// unheard says whether most of the other speakers do not hear the node's.
func unheard(node string, nodes []v1alpha1.NodeNetworking) bool {
	others, deaf := 0, 0
	for _, n := range nodes {
		if n.Name == node {
			continue
		}
		others++
		if !slices.Contains(n.Status.Peers, node) {
			deaf++
		}
	}
	return deaf*2 > others
}
