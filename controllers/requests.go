package controllers

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/allocation"
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
	held := allocation.Addresses(svc)
	inPool := slices.ContainsFunc(held, func(a netip.Addr) bool {
		return slices.ContainsFunc(pools, func(p ipam.Pool) bool { return p.Contains(a) })
	})
	return len(svc.Status.LoadBalancer.Ingress) == 0 || inPool || allocation.WrittenByUs(svc)
}

func requestOf(name string, svc *corev1.Service) ipam.Request {
	r := ipam.Request{
		Service: name,
		Created: svc.CreationTimestamp.Time,
		Holds:   allocation.Addresses(svc),
	}
	for _, e := range allocation.Remembered(svc) {
		r.Remembers = append(r.Remembers, e.Addr)
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

// entries are holdings as they stand on a Service.
func entries(holdings []ipam.Holding) []allocation.Entry {
	all := make([]allocation.Entry, 0, len(holdings))
	for _, h := range holdings {
		all = append(all, allocation.Entry{Addr: h.Addr, Pool: h.Pool})
	}
	return all
}
