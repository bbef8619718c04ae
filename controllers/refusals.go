package controllers

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// saying is a refusal and the Service that it was said to; one of the same name that is made anew has not heard it.
type saying struct {
	to      types.UID
	refusal ipam.Refusal
}

// tell says in Events why Services were refused.
func (r *AddressesReconciler) tell(d demand, refusals []ipam.Refusal) {
	fresh, told := untold(r.told, d, refusals)
	for _, refusal := range fresh {
		r.recorder.Eventf(d.services[refusal.Service], corev1.EventTypeWarning, string(refusal.Reason), "Allocate", "%s", refusal.Message)
	}
	r.told = told
}

// tellOf says in Events which foreign hosts have addresses of the pools.
func (r *AddressesReconciler) tellOf(cnet *v1alpha1.ClusterNetworking, foreign []v1alpha1.QuarantinedIP) {
	if cnet == nil {
		return
	}
	fresh, told := untoldHosts(r.hosts, foreign)
	for _, q := range fresh {
		r.recorder.Eventf(cnet, corev1.EventTypeWarning, v1alpha1.ReasonAddressQuarantined, "Allocate",
			"%s of pool %s is answered for by %s: it is given to no Service until the host has been silent for ten minutes; take it from the host, "+
				"or out of the pool", q.IP, q.IPPool, hostOf(q))
	}
	r.hosts = told
}

// untold returns the refusals that were not said yet, and all that will have been said. One that ended is said again when it returns.
func untold(before map[saying]bool, d demand, refusals []ipam.Refusal) (fresh []ipam.Refusal, told map[saying]bool) {
	told = make(map[saying]bool, len(refusals))
	for _, refusal := range refusals {
		if refusal.Reason == ipam.AddressUnverified {
			continue // it passes by itself in a moment
		}
		s := saying{to: d.services[refusal.Service].UID, refusal: refusal}
		if !before[s] {
			fresh = append(fresh, refusal)
		}
		told[s] = true
	}
	return fresh, told
}

// refusing is the plan where these Services, which were to have an address, are refused instead.
func refusing(plan ipam.Result, refused []ipam.Refusal) ipam.Result {
	if len(refused) == 0 {
		return plan
	}
	plan.Assignments = slices.DeleteFunc(slices.Clone(plan.Assignments), func(a ipam.Assignment) bool {
		return slices.ContainsFunc(refused, func(r ipam.Refusal) bool { return r.Service == a.Service })
	})
	plan.Refusals = slices.Concat(plan.Refusals, refused)
	return plan
}

// withoutAddress returns the refusals of Services that got nothing at all.
func withoutAddress(plan ipam.Result) []ipam.Refusal {
	served := servedBy(plan)
	return slices.DeleteFunc(slices.Clone(plan.Refusals), func(r ipam.Refusal) bool { return served[r.Service] })
}

func servedBy(plan ipam.Result) map[string]bool {
	served := make(map[string]bool, len(plan.Assignments))
	for _, a := range plan.Assignments {
		served[a.Service] = true
	}
	return served
}

// atRest is the plan while nothing may be written: everyone keeps what they show, nothing else counts as used, and who waits is refused
// with the reason given.
func atRest(facts ipam.Facts, reason ipam.Reason, message string) ipam.Result {
	asked := facts.Requests
	facts.Requests = slices.Clone(asked)
	for i := range facts.Requests {
		facts.Requests[i].Standing = ipam.Leaving // which keeps and gets nothing new
	}
	plan := ipam.Plan(facts)
	answered := servedBy(plan)
	for _, r := range plan.Refusals {
		answered[r.Service] = true
	}
	for _, r := range asked {
		if !answered[r.Service] && r.Standing == ipam.Current {
			plan.Refusals = append(plan.Refusals, ipam.Refusal{Service: r.Service, Reason: reason, Message: message})
		}
	}
	slices.SortStableFunc(plan.Refusals, func(a, b ipam.Refusal) int { return strings.Compare(a.Service, b.Service) })
	return plan
}
