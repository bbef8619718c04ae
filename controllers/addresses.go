package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/configuration"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// parallelWrites is how many Services are patched at a time.
const parallelWrites = 16

// A write that somebody outran is planned anew shortly over what they wrote, which is no news. When that happens again and again, it is.
const (
	outrunRetry   = 50 * time.Millisecond
	outrunsToTell = 10
)

// AddressesReconciler gives Services of type LoadBalancer their addresses. Exactly one worker in one manager, the leader, runs it:
// it plans for all Services at once, so it needs no locks.
type AddressesReconciler struct {
	client    client.Client
	recorder  recorder
	namespace string
	board     *board
	services  serviceView
	// serviceCIDRs are the networks of ClusterIPs.
	serviceCIDRs serviceCIDRs
	queue        queue
	cooling      cooling
	contests     contests
	// levels are how full each pool was said to be, in percent.
	levels map[string]int
	// told are the refusals that were said in Events and still hold, so that each is said once.
	told map[saying]bool
	// hosts are the foreign hosts that were told of in Events.
	hosts   hosts
	metrics addressMetrics
	// outrun counts the passes in a row that others outran.
	outrun int
}

func newAddressesReconciler(mgr ctrl.Manager, b *board, o Options) *AddressesReconciler {
	return &AddressesReconciler{
		client: mgr.GetClient(), recorder: newRecorder(mgr), namespace: o.Namespace, board: b,
		queue: queue{verification: o.Verification}, metrics: newAddressMetrics(metrics.Registry),
		contests:     contests{},
		services:     serviceView{cache: mgr.GetClient(), live: mgr.GetAPIReader(), newer: map[types.NamespacedName]*corev1.Service{}},
		serviceCIDRs: serviceCIDRs{live: mgr.GetAPIReader()},
	}
}

// SetupWithManager registers the reconciler.
func (r *AddressesReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("addresses").
		Watches(&corev1.Service{}, toSingleton).
		Watches(&corev1.ConfigMap{}, toSingleton, builder.WithPredicates(named(v1alpha1.ConfigurationConfigMap))).
		Watches(&corev1.Namespace{}, toSingleton, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&corev1.Node{}, toSingleton, builder.WithPredicates(podNetworksChanged)).
		Watches(&v1alpha1.ClusterNetworking{}, toSingleton, builder.WithPredicates(specChanged)).
		Watches(&v1alpha1.NodeNetworking{}, toSingleton, builder.WithPredicates(surroundingsChanged)).
		WatchesRawSource(signals(r.board.withdrawal)).
		WithOptions(singleWorker).
		Complete(r)
}

// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces;nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=servicecidrs,verbs=list
// +kubebuilder:rbac:groups="",resources=services/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=networking.lanyard.dev,resources=nodenetworkings,verbs=get;list;watch

// Reconcile plans all addresses anew and writes what differs.
func (r *AddressesReconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	state, err := r.gather(ctx)
	if err != nil {
		r.board.post(func(b *reports) { b.addresses = &addressesReport{err: err} })
		return ctrl.Result{}, err
	}
	var (
		plan  ipam.Result
		again time.Duration
		now   = time.Now()
	)
	switch state.standing {
	case absent:
		plan = atRest(state.facts(), v1alpha1.ReasonApplyFailed,
			"no configuration is in force yet: the other conditions of ClusterNetworking \"cluster\" say why")
	case gone:
	case withdrawn:
		err = r.apply(ctx, withdrawals(state.demand, now))
	case frozen:
		plan = atRest(state.facts(), v1alpha1.ReasonPaused,
			"spec.managementState is Paused: set it to Managed, and addresses are given out again")
	case allocating:
		plan, again = r.plan(&state, now)
		writes, contested, wait := r.contests.sort(writesOf(state.demand, plan, now), now)
		plan, again = refusing(plan, contested), soonest(again, wait)
		err = r.apply(ctx, writes)
	}
	if !errors.Is(err, errOutrun) {
		r.outrun = 0
	} else if r.outrun++; r.outrun < outrunsToTell {
		return ctrl.Result{RequeueAfter: outrunRetry}, nil
	}
	if state.standing == allocating {
		r.tell(state.demand, slices.Concat(plan.Refusals, state.demand.clashes))
		r.tellOf(state.cnet, state.demand.foreign)
		r.tellOfPools(state.cnet, plan.Pools)
	}
	plan.Refusals = withoutAddress(plan)
	r.metrics.observe(plan)
	r.board.post(func(b *reports) {
		b.addresses = &addressesReport{inForce: state.configuration.Generation, plan: &plan, clashes: state.demand.clashes, foreign: state.demand.foreign,
			overlaps: overlaps(state.rules.pools, state.withheld), takenBack: state.standing == withdrawn && err == nil, err: err}
	})
	return ctrl.Result{RequeueAfter: again}, err
}

// plan decides who gets which address, and when it has to be decided anew at the latest; 0: when something changes.
func (r *AddressesReconciler) plan(state *addressState, now time.Time) (ipam.Result, time.Duration) {
	again := r.queue.line(state.demand, len(state.nodes) > 0, now)
	facts := state.facts()
	kept, warm := r.cooling.note(facts.Requests, state.configuration.IPPools, facts.Pools, now)
	facts.Cooling = kept
	return ipam.Plan(facts), soonest(again, warm)
}

// standing says what the allocator may do.
type standing int

const (
	// allocating: plan and write.
	allocating standing = iota
	// frozen: the object is paused: keep everything as it is.
	frozen
	// absent: no configuration is in force, and the object exists: keep everything as it is.
	absent
	// gone: neither the object nor a configuration is seen, which proves nothing yet: keep everything as it is.
	gone
	// withdrawn: both have been gone for the grace period: take our addresses back.
	withdrawn
)

// addressState is all that a pass decides from.
type addressState struct {
	standing standing
	// cnet is the object; nil when there is none.
	cnet *v1alpha1.ClusterNetworking
	// configuration is what is in force; its generation is 0 when nothing is.
	configuration configuration.Configuration
	rules         rules
	withheld      []ipam.Withheld
	nodes         []v1alpha1.NodeNetworking
	demand        demand
}

// facts are what is planned from.
func (s addressState) facts() ipam.Facts {
	return ipam.Facts{Pools: s.rules.pools, Requests: s.demand.requests, Taken: s.demand.taken, Withheld: s.withheld,
		Verified: s.demand.verified, Links: linksOf(s.nodes)}
}

// soonest returns the shorter of two times, of which zero is never.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (r *AddressesReconciler) gather(ctx context.Context) (addressState, error) {
	cnet, err := clusterNetworking(ctx, r.client)
	if err != nil {
		return addressState{}, err
	}
	inForce, err := configurationInForce(ctx, r.client, r.namespace)
	if err != nil {
		return addressState{}, err
	}
	services, err := r.services.list(ctx)
	if err != nil {
		return addressState{}, err
	}
	var nodes v1alpha1.NodeNetworkingList
	if err := r.client.List(ctx, &nodes); err != nil {
		return addressState{}, fmt.Errorf("listing NodeNetworkings: %w", err)
	}
	state := addressState{cnet: cnet, nodes: nodes.Items}
	switch {
	case inForce != nil:
		state.configuration = *inForce
		if state.rules, err = r.rules(ctx, *inForce); err != nil {
			return addressState{}, err
		}
		if state.withheld, err = r.withheld(ctx, nodes.Items); err != nil {
			return addressState{}, err
		}
	case cnet != nil:
		state.standing = absent
	case r.board.read().withdrawn():
		state.standing = withdrawn
	default:
		state.standing = gone
	}
	if cnet != nil && cnet.Spec.ManagementState == v1alpha1.Paused {
		state.standing = frozen
	}
	state.demand = demandOf(services, nodes.Items, state.rules)
	return state, nil
}

// rules reads what is in force for Services.
func (r *AddressesReconciler) rules(ctx context.Context, inForce configuration.Configuration) (rules, error) {
	pools, problems := ipam.ParsePools(poolTexts(inForce.IPPools))
	if len(problems) > 0 {
		return rules{}, fmt.Errorf("ConfigMap %s/%s holds pools that were never good (%s): delete it, and it is made anew from the spec",
			r.namespace, v1alpha1.ConfigurationConfigMap, problems[0].Message)
	}
	admissions, err := admissionsOf(inForce.IPPools)
	if err != nil {
		return rules{}, err
	}
	all := rules{class: inForce.LoadBalancerClass, pools: pools, admissions: admissions}
	if !admissions.byLabels {
		return all, nil
	}
	var namespaces corev1.NamespaceList
	if err := r.client.List(ctx, &namespaces, client.UnsafeDisableDeepCopy); err != nil { // they are only read
		return rules{}, fmt.Errorf("listing Namespaces: %w", err)
	}
	all.namespaces = make(map[string]labels.Set, len(namespaces.Items))
	for i := range namespaces.Items {
		all.namespaces[namespaces.Items[i].Name] = namespaces.Items[i].Labels
	}
	return all, nil
}

// apply makes the writes, some at a time. One that fails does not stop the others; all are planned anew on the next pass. The error is
// errOutrun when nothing worse happened.
func (r *AddressesReconciler) apply(ctx context.Context, writes []write) error {
	var (
		group errgroup.Group
		mu    sync.Mutex
		errs  []error
	)
	group.SetLimit(parallelWrites)
	for _, w := range writes {
		group.Go(func() error {
			svc, err := r.write(ctx, w)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
			} else if svc != nil {
				r.services.note(svc)
				r.contests.wrote(w, time.Now())
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors: they are in errs
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	if worse := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return errors.Is(err, errOutrun) }); len(worse) > 0 {
		errs = worse
	}
	return errors.Join(errs...)
}

// errOutrun says that a Service is not any more what the plan was made from.
var errOutrun = errors.New("its status was changed meanwhile by somebody else: see whether another controller serves it too")

// testFailed says whether a JSON patch was refused because one of its tests failed. A value that the API server refuses is a 422 too, but
// comes with the fields that are wrong.
func testFailed(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || len(details.Causes) == 0
}

// write patches one Service and returns it as it is now; nil when it is gone.
func (r *AddressesReconciler) write(ctx context.Context, w write) (*corev1.Service, error) {
	encode, kind, options := w.patch, types.JSONPatchType, []client.SubResourcePatchOption{client.FieldOwner(v1alpha1.FieldManager)}
	if w.adopts() {
		encode, kind, options = w.adoption, types.ApplyPatchType, append(options, client.ForceOwnership)
	}
	body, err := encode()
	if err != nil {
		return nil, err
	}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.service.Namespace, Name: w.service.Name}}
	err = r.client.Status().Patch(ctx, svc, client.RawPatch(kind, body), options...)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if testFailed(err) || apierrors.IsConflict(err) {
		err = errOutrun
	}
	if err != nil {
		return nil, fmt.Errorf("writing the addresses of Service %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	if !w.conditionsOnly {
		logf.FromContext(ctx).Info("wrote addresses", "service", client.ObjectKeyFromObject(svc), "addresses", w.text())
	}
	return svc, nil
}
