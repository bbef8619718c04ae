package controllers

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// demand is what the cluster's Services and nodes mean for the allocator.
type demand struct {
	// requests are what our Services ask for.
	requests []ipam.Request
	// services are those Services, by the request's name.
	services map[string]*corev1.Service
	// taken are addresses that are not ours to give.
	taken []ipam.Taken
}

// demandOf sorts Services into those that ask us for addresses and those that merely have some.
func demandOf(services []*corev1.Service, nodes []v1alpha1.NodeNetworking, pools []ipam.Pool) demand {
	d := demand{services: map[string]*corev1.Service{}}
	for _, svc := range services {
		name := svc.Namespace + "/" + svc.Name
		for _, text := range svc.Spec.ExternalIPs {
			d.take(text, "Service "+name+" (externalIPs)")
		}
		if !asksUs(svc, pools) {
			for _, ingress := range svc.Status.LoadBalancer.Ingress {
				d.take(ingress.IP, "Service "+name)
			}
			continue
		}
		d.services[name] = svc
		d.requests = append(d.requests, requestOf(name, svc))
	}
	for _, node := range nodes {
		for _, iface := range node.Status.Interfaces {
			for _, text := range iface.Addresses {
				address, _, _ := strings.Cut(text, "/")
				d.take(address, "node "+node.Name+", interface "+iface.Name)
			}
		}
	}
	return d
}

// take notes an address that somebody outside has. Text that is no address takes nothing.
func (d *demand) take(text, by string) {
	if a, err := netip.ParseAddr(text); err == nil {
		d.taken = append(d.taken, ipam.Taken{Addr: a, By: by})
	}
}

// asksUs says whether the Service is ours to serve: a load balancer without a class whose status is empty, ours, or in our pools.
// What another controller wrote outside our pools is its property.
func asksUs(svc *corev1.Service, pools []ipam.Pool) bool {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer || svc.Spec.LoadBalancerClass != nil {
		return false
	}
	held := holds(svc)
	inPool := slices.ContainsFunc(held, func(a netip.Addr) bool {
		return slices.ContainsFunc(pools, func(p ipam.Pool) bool { return p.Contains(a) })
	})
	return len(svc.Status.LoadBalancer.Ingress) == 0 || inPool || statusIsOurs(svc)
}

// statusIsOurs says whether we wrote the Service's load balancer status. managedFields tell, which a tenant cannot write through
// the Service's own resource; annotations would not do.
func statusIsOurs(svc *corev1.Service) bool {
	return slices.ContainsFunc(svc.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == v1alpha1.FieldManager && m.Subresource == "status" && m.FieldsV1 != nil &&
			strings.Contains(string(m.FieldsV1.Raw), `"f:ingress"`)
	})
}

// holds returns the addresses in the Service's status.
func holds(svc *corev1.Service) []netip.Addr {
	var held []netip.Addr
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(ingress.IP); err == nil {
			held = append(held, a)
		}
	}
	return held
}

func requestOf(name string, svc *corev1.Service) ipam.Request {
	r := ipam.Request{
		Service:   name,
		Created:   svc.CreationTimestamp.Time,
		Holds:     holds(svc),
		Remembers: remembered(svc),
	}
	for _, family := range svc.Spec.IPFamilies {
		switch family {
		case corev1.IPv4Protocol:
			r.Families = append(r.Families, ipam.IPv4)
		case corev1.IPv6Protocol:
			r.Families = append(r.Families, ipam.IPv6)
		}
	}
	if policy := svc.Spec.IPFamilyPolicy; policy != nil && *policy == corev1.IPFamilyPolicyRequireDualStack {
		r.Need = ipam.NeedAll
	}
	if svc.DeletionTimestamp != nil {
		r.Standing = ipam.Leaving
	}
	return r
}

// remembered returns the addresses in the Service's annotation. What does not read as an address is left out: it is a hint.
func remembered(svc *corev1.Service) []netip.Addr {
	var all []netip.Addr
	for _, entry := range strings.Split(svc.Annotations[v1alpha1.AllocatedAnnotation], ",") {
		address, _, _ := strings.Cut(entry, "=")
		if a, err := netip.ParseAddr(address); err == nil {
			all = append(all, a)
		}
	}
	return all
}

// allocatedText is the annotation that remembers an assignment. An address that no pool holds any more stands alone.
func allocatedText(holdings []ipam.Holding) string {
	var entries []string
	for _, h := range holdings {
		entry := h.Addr.String()
		if h.Pool != "" {
			entry += "=" + h.Pool
		}
		entries = append(entries, entry)
	}
	return strings.Join(entries, ",")
}
