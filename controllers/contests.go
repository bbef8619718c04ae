package controllers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// A Service to which the same address was written contestWrites times within contestWithin is left alone for contestPause: somebody else keeps changing
// its status, and the two would go on for ever.
const (
	contestWrites = 5
	contestWithin = time.Minute
	contestPause  = 5 * time.Minute
)

// contests remember which addresses were written to which Service, and when. The zero contests remember none.
type contests map[types.UID]*contest

// contest is what was written to one Service.
type contest struct {
	// addresses are what was written last, as text, and at when that was.
	addresses string
	at        []time.Time
	// until is how long the Service is left alone.
	until time.Time
}

// sort returns the writes, of those to Services that are contested the conditions alone, the refusals that these say, and when the first of them is
// tried again; 0 when none is contested.
func (c contests) sort(writes []write, now time.Time) (free []write, refused []ipam.Refusal, again time.Duration) {
	for _, w := range writes {
		k := c[w.service.UID]
		if k == nil || k.addresses != w.text() || !now.Before(k.until) {
			free = append(free, w)
			continue
		}
		again = soonest(again, k.until.Sub(now))
		r := ipam.Refusal{Service: w.service.Namespace + "/" + w.service.Name, Reason: v1alpha1.ReasonStatusContested,
			Message: fmt.Sprintf("its address is taken out of its status again and again by %s: it is left alone for %s; "+
				"let one of the two serve it, by a spec.loadBalancerClass", rivals(w.service), contestPause)}
		refused = append(refused, r)
		if c := allocatedCondition(nil, r); !says(w.service.Status.Conditions, c) {
			free = append(free, write{service: w.service, conditions: withCondition(w.service.Status.Conditions, c, now), conditionsOnly: true})
		}
	}
	for uid, k := range c {
		if now.Sub(k.at[len(k.at)-1]) > contestPause+contestWithin {
			delete(c, uid)
		}
	}
	return free, refused, again
}

// wrote takes in that addresses were written to a Service that did not show them.
func (c contests) wrote(w write, now time.Time) {
	text := w.text()
	if text == "" || w.conditionsOnly || shows(w.service, w.addresses) {
		return // a withdrawal, or conditions
	}
	k := c[w.service.UID]
	if k == nil || k.addresses != text {
		k = &contest{addresses: text}
		c[w.service.UID] = k
	}
	k.at = append(slices.DeleteFunc(k.at, func(at time.Time) bool { return now.Sub(at) > contestWithin }), now)
	if len(k.at) >= contestWrites {
		k.at, k.until = k.at[len(k.at)-1:], now.Add(contestPause)
	}
}

// rivals names who else has written the Service's status. Who only removes something from it owns none of it, and is not named there.
func rivals(svc *corev1.Service) string {
	var names []string
	for _, m := range svc.ManagedFields {
		if m.Subresource == "status" && m.Manager != v1alpha1.FieldManager && !slices.Contains(names, m.Manager) {
			names = append(names, m.Manager)
		}
	}
	if len(names) == 0 {
		return "somebody who leaves no trace in its managedFields: look for another load balancer's controller, such as MetalLB's, a cloud's or k3s's"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
