package controllers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/allocation"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// A Service whose address has to be written again and again, contestWrites times within contestWithin, is left alone for contestPause: somebody
// else keeps changing its status, and the two would go on for ever.
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

// sort returns the writes without those to Services that are contested, the refusals that say so, and when the first of them is tried again; 0
// when none is contested.
func (c *contests) sort(writes []write, now time.Time) (free []write, refused []ipam.Refusal, again time.Duration) {
	if *c == nil {
		*c = contests{}
	}
	for _, w := range writes {
		if shows(w.service, w.addresses) || len(w.addresses) == 0 { // a condition, or a withdrawal
			free = append(free, w)
			continue
		}
		left := c.note(w, now)
		if left <= 0 {
			free = append(free, w)
			continue
		}
		again = soonest(again, left)
		refused = append(refused, ipam.Refusal{Service: w.service.Namespace + "/" + w.service.Name, Reason: v1alpha1.ReasonStatusContested,
			Message: fmt.Sprintf("its address is taken out of its status again and again by %s: it is left alone for %s; "+
				"let one of the two serve it, by a spec.loadBalancerClass", rivals(w.service), contestPause)})
	}
	for uid, k := range *c {
		if now.Sub(k.at[len(k.at)-1]) > contestPause+contestWithin {
			delete(*c, uid)
		}
	}
	return free, refused, again
}

// note takes in that a Service is to be written to, and returns how long it is left alone from now.
func (c contests) note(w write, now time.Time) time.Duration {
	text := allocation.Text(entries(w.addresses))
	k := c[w.service.UID]
	if k == nil || k.addresses != text {
		k = &contest{addresses: text}
		c[w.service.UID] = k
	}
	if left := k.until.Sub(now); left > 0 {
		return left
	}
	k.at = append(slices.DeleteFunc(k.at, func(at time.Time) bool { return now.Sub(at) > contestWithin }), now)
	if len(k.at) <= contestWrites {
		return 0
	}
	k.at, k.until = k.at[len(k.at)-1:], now.Add(contestPause)
	return contestPause
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
