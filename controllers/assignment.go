package controllers

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/allocation"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// write is one change of a Service's status.
type write struct {
	service *corev1.Service
	// addresses are all that the Service has after the write; none withdraws what it shows.
	addresses []ipam.Holding
	// conditions are those of its status after the write.
	conditions []metav1.Condition
	// conditionsOnly leaves the addresses as they are.
	conditionsOnly bool
}

// text is what is written down in the Service's memory.
func (w write) text() string { return allocation.Text(entries(w.addresses)) }

// adopts says that the Service shows the addresses already, by somebody else's hand.
func (w write) adopts() bool {
	return !w.conditionsOnly && len(w.addresses) > 0 && !allocation.WrittenByUs(w.service) && sameAddresses(w.service, w.addresses)
}

// writesOf returns the writes that make the Services show what the plan gives them, and why they lack what they lack, in the order of requests. Of
// Services that are not ours any more it removes what we said of them.
func writesOf(d demand, plan ipam.Result, now time.Time) []write {
	assigned := make(map[string][]ipam.Holding, len(plan.Assignments))
	for _, a := range plan.Assignments {
		assigned[a.Service] = a.Addresses
	}
	refused := map[string]ipam.Refusal{}
	for _, r := range slices.Concat(plan.Refusals, d.clashes) {
		if _, already := refused[r.Service]; !already {
			refused[r.Service] = r
		}
	}
	var writes []write
	for _, r := range d.requests {
		svc, addresses := d.services[r.Service], assigned[r.Service]
		refusal, isRefused := refused[r.Service]
		conditions, news := svc.Status.Conditions, false
		// Without pools, Services may well be somebody else's, and waiting is nothing to tell.
		tells := len(addresses) > 0 || isRefused && refusal.Reason != ipam.AddressUnverified && len(plan.Pools) > 0
		if tells && r.Standing == ipam.Current {
			if c := allocatedCondition(addresses, refusal); !says(conditions, c) {
				conditions, news = withCondition(conditions, c, now), true
			}
		}
		if news || !shows(svc, addresses) {
			writes = append(writes, write{service: svc, addresses: addresses, conditions: conditions})
		}
	}
	return append(writes, unsaid(d.former)...)
}

// unsaid are the writes that remove our condition from Services.
func unsaid(services []*corev1.Service) []write {
	var writes []write
	for _, svc := range services {
		conditions := slices.Clone(svc.Status.Conditions)
		if meta.RemoveStatusCondition(&conditions, v1alpha1.ServiceAllocated) {
			writes = append(writes, write{service: svc, conditions: conditions, conditionsOnly: true})
		}
	}
	return writes
}

// withdrawals are the writes that take all addresses back, and what was said of Services.
func withdrawals(d demand, now time.Time) []write {
	writes := unsaid(d.former)
	for _, r := range d.requests {
		svc := d.services[r.Service]
		if shows(svc, nil) {
			writes = append(writes, unsaid([]*corev1.Service{svc})...)
			continue
		}
		gone := metav1.Condition{Type: v1alpha1.ServiceAllocated, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotManaged,
			Message: "ClusterNetworking \"cluster\" was deleted: make it again, and the Service gets the same address"}
		writes = append(writes, write{service: svc, conditions: withCondition(svc.Status.Conditions, gone, now)})
	}
	return writes
}

// allocatedCondition says in a Service's status what it has, and why it lacks what it lacks.
func allocatedCondition(addresses []ipam.Holding, refusal ipam.Refusal) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ServiceAllocated, Status: metav1.ConditionFalse, Reason: string(refusal.Reason), Message: refusal.Message}
	if len(addresses) == 0 {
		return c
	}
	var texts []string
	for _, h := range addresses {
		text := h.Addr.String()
		if h.Pool != "" {
			text += " of pool " + h.Pool
		}
		texts = append(texts, text)
	}
	c.Status, c.Message = metav1.ConditionTrue, "it has "+strings.Join(texts, ", ")
	if refusal.Reason == "" {
		c.Reason = v1alpha1.ReasonAllocated
	} else {
		c.Message += "; " + refusal.Message
	}
	return c
}

// says says whether conditions say this already.
func says(conditions []metav1.Condition, c metav1.Condition) bool {
	said := meta.FindStatusCondition(conditions, c.Type)
	return said != nil && said.Status == c.Status && said.Reason == c.Reason && said.Message == c.Message && said.ObservedGeneration == c.ObservedGeneration
}

// withCondition returns conditions with one of them as it is now.
func withCondition(conditions []metav1.Condition, c metav1.Condition, now time.Time) []metav1.Condition {
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second)) // which counts only where the status changes
	next := slices.Clone(conditions)
	meta.SetStatusCondition(&next, c)
	return next
}

// shows says whether the Service's status and memory already are what the assignment says, by our hand. A Service that never had an address
// needs no memory of it, and one that lost its address keeps the memory, to get the same one back.
func shows(svc *corev1.Service, addresses []ipam.Holding) bool {
	if len(addresses) == 0 {
		return len(svc.Status.LoadBalancer.Ingress) == 0
	}
	return sameAddresses(svc, addresses) && allocation.WrittenByUs(svc) &&
		svc.Annotations[v1alpha1.AllocatedAnnotation] == allocation.Text(entries(addresses))
}

func sameAddresses(svc *corev1.Service, addresses []ipam.Holding) bool {
	return slices.EqualFunc(allocation.Addresses(svc), addresses, func(a netip.Addr, h ipam.Holding) bool { return a == h.Addr })
}

// adoption is the write of addresses that the Service shows by somebody else's hand, as an apply configuration: who writes what is there already
// becomes no owner of it otherwise, and by the owner we know later that the address is ours to keep. It holds for the Service as it was read.
func (w write) adoption() ([]byte, error) {
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": w.service.Name, "namespace": w.service.Namespace, "uid": w.service.UID, "resourceVersion": w.service.ResourceVersion,
			"annotations": map[string]string{v1alpha1.AllocatedAnnotation: w.text()}},
		"status": map[string]any{"loadBalancer": loadBalancerStatus(w.addresses)},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding what Service %s/%s shows: %w", w.service.Namespace, w.service.Name, err)
	}
	return body, nil
}

// patch returns the write as a JSON patch (RFC 6902) of the status subresource, which carries annotations too. It tests the
// identity and the status that it replaces, not the resourceVersion: what others write to other fields meanwhile is none of its
// business and would make most of the writes to a busy Service fail.
func (w write) patch() ([]byte, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	ops := []operation{
		{"test", "/metadata/uid", w.service.UID},
		{"test", "/status/loadBalancer", w.service.Status.LoadBalancer},
	}
	if !w.conditionsOnly {
		ops = append(ops, operation{"replace", "/status/loadBalancer", loadBalancerStatus(w.addresses)})
	}
	if !equality.Semantic.DeepEqual(w.conditions, w.service.Status.Conditions) {
		ops = append(ops, operation{"test", "/status/conditions", w.service.Status.Conditions}, operation{"add", "/status/conditions", w.conditions})
	}
	if len(w.addresses) > 0 {
		if w.service.Annotations == nil {
			ops = append(ops, operation{"test", "/metadata/annotations", nil}, operation{"add", "/metadata/annotations", map[string]string{}})
		}
		path := "/metadata/annotations/" + inPointer.Replace(v1alpha1.AllocatedAnnotation)
		ops = append(ops, operation{"add", path, w.text()})
	}
	body, err := json.Marshal(ops)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch of Service %s/%s: %w", w.service.Namespace, w.service.Name, err)
	}
	return body, nil
}

// inPointer writes a key as it stands in a JSON pointer (RFC 6901).
var inPointer = strings.NewReplacer("~", "~0", "/", "~1")

// loadBalancerStatus is the status that shows the addresses. ipMode is VIP: with Proxy, kube-proxy would ignore them.
func loadBalancerStatus(addresses []ipam.Holding) corev1.LoadBalancerStatus {
	var status corev1.LoadBalancerStatus
	for _, h := range addresses {
		status.Ingress = append(status.Ingress, corev1.LoadBalancerIngress{IP: h.Addr.String(), IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)})
	}
	return status
}
