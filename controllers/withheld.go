package controllers

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// withheld reads which addresses are given to nobody, whatever the pools say.
func (r *AddressesReconciler) withheld(ctx context.Context, reports []v1alpha1.NodeNetworking) ([]ipam.Withheld, error) {
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil { // they are large, and only read
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	cidrs, err := r.serviceCIDRs.list(ctx)
	if err != nil {
		return nil, err
	}
	return withheldFrom(reports, nodes.Items, cidrs), nil
}

// serviceCIDRs are the cluster's networks for ClusterIPs, as far as they can be asked for: Kubernetes has an object for each from 1.33 on. They
// change about never, so that they are read once.
type serviceCIDRs struct {
	live client.Reader
	read bool
	all  []string
}

func (s *serviceCIDRs) list(ctx context.Context) ([]string, error) {
	if s.read {
		return s.all, nil
	}
	var list networkingv1.ServiceCIDRList
	err := s.live.List(ctx, &list)
	if err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("listing ServiceCIDRs: %w", err)
	}
	s.read, s.all = true, nil
	for _, c := range list.Items {
		s.all = append(s.all, c.Spec.CIDRs...)
	}
	return s.all, nil
}

// withheldFrom returns the addresses that have a meaning on the nodes' subnets, the routers, and the networks of pods and ClusterIPs, each once, in
// order. Text that is no prefix or address withholds nothing.
func withheldFrom(reports []v1alpha1.NodeNetworking, nodes []corev1.Node, serviceCIDRs []string) []ipam.Withheld {
	why := map[ipam.Range]string{}
	note := func(r ipam.Range, what string) {
		if known, twice := why[r]; !twice || what < known { // the same, in whatever order the nodes come
			why[r] = what
		}
	}
	for _, report := range reports {
		for _, iface := range report.Status.Interfaces {
			for _, p := range prefixesOf(iface) {
				special(p, note)
			}
		}
		for _, text := range report.Status.Gateways {
			if a, err := netip.ParseAddr(text); err == nil {
				note(ipam.Range{First: a, Last: a}, "the router of node "+report.Name)
			}
		}
	}
	for _, n := range nodes {
		for _, text := range n.Spec.PodCIDRs {
			if r, err := ipam.ParseRange(text); err == nil {
				note(r, fmt.Sprintf("in the pod network %s of node %s", text, n.Name))
			}
		}
	}
	for _, text := range serviceCIDRs {
		if r, err := ipam.ParseRange(text); err == nil {
			note(r, "in the network of ClusterIPs "+text)
		}
	}
	var all []ipam.Withheld
	for r, what := range why {
		all = append(all, ipam.Withheld{Range: r, Why: what})
	}
	slices.SortFunc(all, func(a, b ipam.Withheld) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// prefixesOf are the addresses of an interface with their subnets. Text that is no prefix is none.
func prefixesOf(iface v1alpha1.NodeInterface) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range iface.Addresses {
		if p, err := netip.ParsePrefix(text); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// special notes the addresses of a subnet that no host has: network and broadcast address (RFC 919, RFC 922), and the anycast address of its
// routers (RFC 4291, section 2.6.1). A subnet of one or two addresses has none (RFC 3021, RFC 6164).
func special(p netip.Prefix, note func(ipam.Range, string)) {
	if p.Addr().BitLen()-p.Bits() < 2 {
		return
	}
	subnet, err := ipam.ParseRange(p.Masked().String())
	switch {
	case err != nil: // an IPv4 subnet written as IPv6
	case p.Addr().Is4():
		note(ipam.Range{First: subnet.First, Last: subnet.First}, "the network address of "+p.Masked().String())
		note(ipam.Range{First: subnet.Last, Last: subnet.Last}, "the broadcast address of "+p.Masked().String())
	default:
		note(ipam.Range{First: subnet.First, Last: subnet.First}, "the address of all routers of "+p.Masked().String())
	}
}

// overlaps are sentences about what the pools have in common with withheld networks, by which they are smaller than they look.
func overlaps(pools []ipam.Pool, withheld []ipam.Withheld) []string {
	var all []string
	for _, p := range pools {
		for _, w := range withheld {
			if left := ipam.Subtract(p.Ranges, []ipam.Range{w.Range}); !slices.Equal(left, p.Ranges) {
				all = append(all, fmt.Sprintf("pool %s never gives %s (%s)", p.Name, w.Text(), w.Why))
			}
		}
	}
	return all
}

// podNetworksChanged lets nodes through that come and go, and that get a pod network.
var podNetworksChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, was := e.ObjectOld.(*corev1.Node)
		after, is := e.ObjectNew.(*corev1.Node)
		return !was || !is || !slices.Equal(before.Spec.PodCIDRs, after.Spec.PodCIDRs)
	},
}
