package controllers

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/conditions"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// poolTexts are the pools as ipam reads them.
func poolTexts(pools []v1alpha1.IPPool) []ipam.PoolText {
	var texts []ipam.PoolText
	for _, p := range pools {
		text := ipam.PoolText{Name: p.Name}
		for _, a := range p.Addresses {
			text.Addresses = append(text.Addresses, string(a))
		}
		for _, a := range p.Exclude {
			text.Exclude = append(text.Exclude, string(a))
		}
		if p.Allocation == v1alpha1.AllocationOnRequest {
			text.Allocation = ipam.OnRequest
		}
		for _, r := range p.Reservations {
			text.Reservations = append(text.Reservations, ipam.ReservationText{Address: r.Address, For: r.Service.Namespace + "/" + r.Service.Name})
		}
		texts = append(texts, text)
	}
	return texts
}

// admission is which Services one pool admits.
type admission struct {
	priority int32
	// restricted says that it does not admit every Service.
	restricted bool
	namespaces []string
	// byNamespace and byService are nil where the pool does not select by them.
	byNamespace, byService labels.Selector
}

// admissions are those of all pools, in their order.
type admissions struct {
	pools []admission
	// open are all pools, in the order in which they are for a Service that none of them names; shared by all requests.
	open []int
	// anyRestricted says that not all pools are for everybody, byLabels that namespaces' labels matter.
	anyRestricted, byLabels bool
}

// admissionsOf reads whom the pools admit.
func admissionsOf(pools []v1alpha1.IPPool) (admissions, error) {
	var all admissions
	for i := range pools {
		a, problem := admissionOf(&pools[i])
		if problem != nil {
			return admissions{}, fmt.Errorf("reading spec.ipPools[%d].%s: %s", i, problem.Field, problem.Message)
		}
		all.pools = append(all.pools, a)
		all.open = append(all.open, i)
		all.anyRestricted, all.byLabels = all.anyRestricted || a.restricted, all.byLabels || a.byNamespace != nil
	}
	slices.SortStableFunc(all.open, all.compare)
	return all, nil
}

// admissionOf reads whom a pool admits. The problem's field is within the pool.
func admissionOf(pool *v1alpha1.IPPool) (admission, *conditions.Problem) {
	a := admission{priority: pool.Priority}
	allowed := pool.AllowedServices
	if allowed == nil {
		return a, nil
	}
	a.namespaces = allowed.Namespaces
	for _, s := range []struct {
		field string
		from  *metav1.LabelSelector
		to    *labels.Selector
	}{{"namespaceSelector", allowed.NamespaceSelector, &a.byNamespace}, {"selector", allowed.Selector, &a.byService}} {
		if s.from == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(s.from)
		if err != nil {
			return a, &conditions.Problem{Field: "allowedServices." + s.field,
				Message: fmt.Sprintf("%v: mend the label or the operator, or leave %s out", err, s.field)}
		}
		*s.to = selector
	}
	a.restricted = len(a.namespaces) > 0 || a.byNamespace != nil || a.byService != nil
	return a, nil
}

// compare orders pools by priority, the highest first.
func (a admissions) compare(i, j int) int {
	return cmp.Compare(a.pools[j].priority, a.pools[i].priority)
}

// admits says whether the pool admits a Service in a namespace with these labels.
func (a admission) admits(svc *corev1.Service, namespace labels.Set) bool {
	byName := slices.Contains(a.namespaces, svc.Namespace)
	switch {
	case len(a.namespaces) == 0 && a.byNamespace == nil:
	case byName, a.byNamespace != nil && a.byNamespace.Matches(namespace):
	default:
		return false
	}
	return a.byService == nil || a.byService.Matches(labels.Set(svc.Labels))
}

// of returns the pools that admit a Service, the best first: those that name it, then those for everybody, each by priority.
func (a admissions) of(svc *corev1.Service, namespace labels.Set) []int {
	if !a.anyRestricted {
		return a.open
	}
	admitting := make([]int, 0, len(a.pools))
	for _, i := range a.open {
		if a.pools[i].restricted && a.pools[i].admits(svc, namespace) {
			admitting = append(admitting, i)
		}
	}
	for _, i := range a.open {
		if !a.pools[i].restricted {
			admitting = append(admitting, i)
		}
	}
	return admitting
}
