package controllers

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
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
	s.Missing = missingSpeakers(int(s.Desired), pods.Items)
	return s, nil
}

// missingSpeakers names the nodes whose speaker is not ready, each with the reason. Pods that could not even be made come last.
func missingSpeakers(desired int, pods []corev1.Pod) []string {
	var missing []string
	for i := range pods {
		p := &pods[i]
		pod := podOf(p)
		if pod.Ready {
			continue
		}
		why := "starting"
		switch {
		case pod.Failure != "":
			why = pod.Failure
		case p.DeletionTimestamp != nil:
			why = "being replaced"
		case slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil }):
			why = "runs but is not ready: see whether the node is up, and the log of pod " + p.Name
		}
		missing = append(missing, fmt.Sprintf("%s (%s)", cmp.Or(p.Spec.NodeName, "pod "+p.Name+" without a node"), why))
	}
	slices.Sort(missing)
	if none := desired - len(pods); none > 0 {
		missing = append(missing, fmt.Sprintf("%d without a pod (see the events of DaemonSet %s)", none, v1alpha1.SpeakerDaemonSet))
	}
	return missing
}

// fill makes the object's status. While addresses cannot be read, it goes on saying what it last said of them.
func fill(cnet *v1alpha1.ClusterNetworking, reports reports, speakers conditions.Speakers, nodes []v1alpha1.NodeNetworking) {
	status := &cnet.Status
	status.ObservedGeneration = cnet.Generation
	status.KubeProxy = reports.kubeProxy.status
	status.Speakers = v1alpha1.SpeakersStatus{Desired: speakers.Desired, Ready: speakers.Ready, Summary: fmt.Sprintf("%d/%d", speakers.Ready, speakers.Desired)}

	facts := conditions.Facts{
		Generation: cnet.Generation, State: cnet.Spec.ManagementState,
		Problems: reports.dataplane.problems, InForce: reports.dataplane.inForce, DataplaneError: errorText(reports.dataplane.err),
		KubeProxy: reports.kubeProxy.verdict, Pools: len(cnet.Spec.IPPools), AddressesError: errorText(reports.addresses.err),
		Speakers: speakers,
	}
	if plan := reports.addresses.plan; plan != nil {
		status.IPPools, status.Addresses = poolStatus(plan.Pools)
		var allocated []v1alpha1.AllocatedIP
		allocated, facts.Unannounced, facts.Remarks = allocatedIPs(plan.Assignments, nodes)
		status.AllocatedIPs = allocated[:min(len(allocated), v1alpha1.AllocatedIPsLimit)]
		status.AllocatedIPsOmitted = int32(len(allocated) - len(status.AllocatedIPs)) //nolint:gosec // at most the number of Services
		for _, refusal := range plan.Refusals {
			facts.Refusals = append(facts.Refusals, conditions.Refusal{Service: refusal.Service, Reason: string(refusal.Reason), Message: refusal.Message})
		}
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

// allocatedIPs joins who has an address with who answers for it, in the order of addresses. What is missing has those first for which a
// speaker says why.
func allocatedIPs(assignments []ipam.Assignment, nodes []v1alpha1.NodeNetworking) (
	all []v1alpha1.AllocatedIP, missing []conditions.Unannounced, remarks []string,
) {
	words := wordsOf(nodes)
	var unexplained []conditions.Unannounced
	for _, h := range holdingsOf(assignments) {
		ip := v1alpha1.AllocatedIP{IP: h.Addr.String(), IPPool: h.Pool, Services: []string{h.service}}
		if by, ok := words.announced[ip.IP]; ok {
			ip.Node, ip.Interface, ip.MAC, ip.Since, ip.Message = by.node, by.Interface, by.MAC, &by.Since, by.Message
			if by.Message != "" {
				remarks = append(remarks, ip.IP+": "+by.Message)
			}
		} else {
			why, known := words.explained[ip.IP]
			ip.Message = cmp.Or(why, words.doubted[ip.IP], "no speaker has reported that it announces it yet")
			u := conditions.Unannounced{IP: ip.IP, Message: ip.Message, Explained: known}
			if known {
				missing = append(missing, u)
			} else {
				unexplained = append(unexplained, u)
			}
		}
		all = append(all, ip)
	}
	return all, append(missing, unexplained...), remarks
}

// holding is an address and the Service that has it.
type holding struct {
	ipam.Holding
	service string
}

// holdingsOf returns what the Services have in the order of addresses.
func holdingsOf(assignments []ipam.Assignment) []holding {
	var all []holding
	for _, a := range assignments {
		for _, h := range a.Addresses {
			all = append(all, holding{h, a.Service})
		}
	}
	slices.SortFunc(all, func(a, b holding) int { return a.Addr.Compare(b.Addr) })
	return all
}

// announcement is a node's word that it answers for an address.
type announcement struct {
	v1alpha1.AnnouncedIP
	node string
}

// words are what the speakers say, by address.
type words struct {
	// announced says who answers: of several the one that began last.
	announced map[string]announcement
	// explained says why nobody answers.
	explained map[string]string
	// doubted says who claims to answer although most other speakers do not hear it: a node that died keeps saying so in the report that it
	// left.
	doubted map[string]string
}

// wordsOf sorts what the speakers say. The result does not depend on the order of nodes: a cache lists in any.
func wordsOf(nodes []v1alpha1.NodeNetworking) words {
	w := words{announced: map[string]announcement{}, explained: map[string]string{}, doubted: map[string]string{}}
	heard := heardOf(nodes)
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b v1alpha1.NodeNetworking) int { return strings.Compare(a.Name, b.Name) })
	for _, n := range nodes {
		for _, a := range n.Status.Announced {
			other, known := w.announced[a.IP]
			switch {
			case !heard[n.Name]:
				w.doubted[a.IP] = fmt.Sprintf("%s said last that it announces it, but most other speakers do not hear %s", n.Name, n.Name)
			case !known || other.Since.Before(&a.Since):
				w.announced[a.IP] = announcement{AnnouncedIP: a, node: n.Name}
			}
		}
		for _, u := range n.Status.Unannounced {
			if heard[n.Name] {
				w.explained[u.IP] = u.Message
			}
		}
	}
	return w
}

// heardOf returns the nodes whose speakers at least half of the others hear, where only those have a say who are heard themselves: the
// reports that dead nodes left know nothing of nodes that came later. When nobody hears anybody, everyone's word stands.
func heardOf(nodes []v1alpha1.NodeNetworking) map[string]bool {
	hears := make(map[string]map[string]bool, len(nodes))
	for _, n := range nodes {
		hears[n.Name] = map[string]bool{}
		for _, peer := range n.Status.Peers {
			hears[n.Name][peer] = true
		}
	}
	all := make(map[string]bool, len(nodes))
	for node := range hears {
		all[node] = true
	}
	return heardBy(heardBy(all, hears), hears)
}

// heardBy returns the nodes that at least half of the listeners, themselves left out, hear.
func heardBy(listeners map[string]bool, hears map[string]map[string]bool) map[string]bool {
	heard := map[string]bool{}
	for node := range hears {
		others, deaf := 0, 0
		for listener := range listeners {
			if listener == node {
				continue
			}
			others++
			if !hears[listener][node] {
				deaf++
			}
		}
		if deaf*2 <= others {
			heard[node] = true
		}
	}
	return heard
}
