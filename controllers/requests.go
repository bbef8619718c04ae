package controllers

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"

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
	// former are Services that are not ours, and carry a condition of ours.
	former []*corev1.Service
	// taken are addresses that are not ours to give, in order.
	taken []ipam.Taken
	// foreign are the addresses of pools that foreign hosts have, in order; verified those that the speakers have asked the LAN for.
	foreign  []v1alpha1.QuarantinedIP
	verified []ipam.Range
	// clashes are those of our Services that show an address which somebody outside has too, in order.
	clashes []ipam.Refusal
}

// demandOf sorts Services into those that ask us for addresses and those that merely have some. It does not depend on the order of what
// it is given: a cache lists in any.
func demandOf(services []*corev1.Service, nodes []v1alpha1.NodeNetworking, rules rules) demand {
	d := demand{services: make(map[string]*corev1.Service, len(services)), requests: make([]ipam.Request, 0, len(services)), foreign: foreignersOf(nodes, rules.pools), verified: verifiedBy(nodes)}
	for _, svc := range services {
		name := svc.Namespace + "/" + svc.Name
		for _, text := range svc.Spec.ExternalIPs {
			d.take(text, externalIPsOf(name))
		}
		if !asksUs(svc, rules) {
			for _, ingress := range svc.Status.LoadBalancer.Ingress {
				d.take(ingress.IP, "Service "+name)
			}
			if meta.FindStatusCondition(svc.Status.Conditions, v1alpha1.ServiceAllocated) != nil {
				d.former = append(d.former, svc)
			}
			continue
		}
		d.services[name] = svc
		d.requests = append(d.requests, requestOf(name, svc, rules))
	}
	for _, node := range nodes {
		for _, iface := range node.Status.Interfaces {
			for _, text := range iface.Addresses {
				address, _, _ := strings.Cut(text, "/")
				d.take(address, "node "+node.Name+", interface "+iface.Name)
			}
		}
	}
	for _, f := range d.foreign {
		d.taken = append(d.taken, ipam.Taken{Addr: netip.MustParseAddr(f.IP), By: hostOf(f), Foreign: true})
	}
	slices.SortFunc(d.former, func(a, b *corev1.Service) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	slices.SortFunc(d.requests, func(a, b ipam.Request) int { return strings.Compare(a.Service, b.Service) })
	slices.SortFunc(d.taken, func(a, b ipam.Taken) int { return cmp.Or(a.Addr.Compare(b.Addr), strings.Compare(a.By, b.By)) })
	d.leaveToHolders()
	return d
}

func externalIPsOf(service string) string { return "Service " + service + " (externalIPs)" }

// take notes an address that somebody outside has. Text that is no address takes nothing.
func (d *demand) take(text, by string) {
	if a, err := netip.ParseAddr(text); err == nil {
		d.taken = append(d.taken, ipam.Taken{Addr: a.Unmap(), By: by})
	}
}

// leaveToHolders leaves to our Services what they show already: whoever lists somebody's address among its externalIPs, or puts it on a
// node, would drive the Service from it otherwise. A Service that lists its own address clashes with nobody.
func (d *demand) leaveToHolders() {
	if len(d.taken) == 0 {
		return
	}
	holders := make(map[netip.Addr]string, len(d.requests))
	for _, r := range d.requests {
		for _, a := range r.Holds {
			holders[a] = r.Service
		}
	}
	var free []ipam.Taken
	for _, t := range d.taken {
		holder, held := holders[t.Addr]
		switch {
		case !held:
			free = append(free, t)
		case t.By != externalIPsOf(holder):
			d.clashes = append(d.clashes, ipam.Refusal{Service: holder, Reason: ipam.AddressContested, Message: fmt.Sprintf(
				"%s, which this Service has, is claimed by %s too: this Service keeps it, and one of the two has to change", t.Addr, t.By)})
		}
	}
	d.taken = free
}

// rules are what is in force for Services.
type rules struct {
	// class is that of our Services; empty: those without one.
	class      string
	pools      []ipam.Pool
	admissions admissions
	// namespaces are the labels of the namespaces, as far as a pool selects by them.
	namespaces map[string]labels.Set
}

// asksUs says whether the Service is ours to serve: a load balancer of our class whose status is empty, ours, or in our pools.
// What another controller wrote outside our pools is its property.
func asksUs(svc *corev1.Service, rules rules) bool {
	if !allocation.Ours(svc, rules.class) {
		return false
	}
	held := allocation.Addresses(svc)
	inPool := slices.ContainsFunc(held, func(a netip.Addr) bool {
		_, pooled := ipam.PoolOf(rules.pools, a)
		return pooled
	})
	return len(svc.Status.LoadBalancer.Ingress) == 0 || inPool || allocation.WrittenByUs(svc)
}

func requestOf(name string, svc *corev1.Service, rules rules) ipam.Request {
	r := ipam.Request{
		Service:  name,
		Created:  svc.CreationTimestamp.Time,
		Holds:    allocation.Addresses(svc),
		Admitted: rules.admissions.of(svc, rules.namespaces[svc.Namespace]),
	}
	for _, e := range allocation.Remembered(svc) {
		r.Remembers = append(r.Remembers, ipam.Holding{Addr: e.Addr, Pool: e.Pool})
	}
	ask, err := allocation.AskOf(svc)
	if err != nil {
		r.Invalid = err.Error()
	}
	r.Wants, r.Pool, r.Sharing = ask.Addrs, ask.Pool, sharingOf(svc, ask)
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
	_, known := rules.namespaces[svc.Namespace]
	if svc.DeletionTimestamp != nil || rules.admissions.byLabels && !known { // the caches of Services and Namespaces do not wait for each other
		r.Standing = ipam.Leaving
	}
	return r
}

// sharingOf says with whom the Service shares an address.
func sharingOf(svc *corev1.Service, ask allocation.Ask) ipam.Sharing {
	if ask.SharingKey == "" {
		return ipam.Sharing{}
	}
	s := ipam.Sharing{Key: ask.SharingKey, Namespaces: ask.SharingNamespaces}
	for _, p := range svc.Spec.Ports {
		s.Ports = append(s.Ports, ipam.Port{Protocol: string(p.Protocol), Number: uint16(p.Port)}) //nolint:gosec // the API server has checked it
	}
	if svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		s.Backends = "Local " + svc.Namespace + " " + labels.Set(svc.Spec.Selector).String() // in the order of keys
		if len(svc.Spec.Selector) == 0 {                                                     // its endpoints are somebody's work
			s.Backends += svc.Name
		}
	}
	return s
}

// entries are holdings as they stand on a Service.
func entries(holdings []ipam.Holding) []allocation.Entry {
	all := make([]allocation.Entry, 0, len(holdings))
	for _, h := range holdings {
		all = append(all, allocation.Entry{Addr: h.Addr, Pool: h.Pool})
	}
	return all
}
