package main

import (
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// holder is who has an address.
type holder struct {
	IP string `json:"ip"`
	// Pool is empty when none has the address.
	Pool string `json:"ipPool,omitempty"`
	// Services are those that show it.
	Services []string `json:"services,omitempty"`
	// Announced are the nodes that answer for it, with interface and hardware address.
	Announced []place `json:"announced,omitempty"`
	// Foreign is which host on the LAN has it that is no node.
	Foreign *v1alpha1.QuarantinedIP `json:"foreign,omitempty"`
	// Nodes are the nodes that have it on an interface.
	Nodes []place `json:"nodes,omitempty"`
}

// place is a node's interface.
type place struct {
	Node      string `json:"node"`
	Interface string `json:"interface"`
	MAC       string `json:"mac"`
}

func (p place) String() string { return fmt.Sprintf("%s on %s, with %s", p.Node, p.Interface, p.MAC) }

// poolOf returns the pool that gives an address; empty when none does. One that cannot be read, of which a condition tells, gives none.
func poolOf(pools []v1alpha1.IPPool, addr netip.Addr) string {
	for _, p := range pools {
		parsed, problems := ipam.ParsePools([]ipam.PoolText{{Name: p.Name, Addresses: texts(p.Addresses), Exclude: texts(p.Exclude)}})
		if len(problems) == 0 && within(parsed[0].Ranges, addr) && !within(parsed[0].Exclude, addr) {
			return p.Name
		}
	}
	return ""
}

func texts[T ~string](typed []T) []string {
	all := make([]string, 0, len(typed))
	for _, t := range typed {
		all = append(all, string(t))
	}
	return all
}

func within(ranges []ipam.Range, addr netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(r ipam.Range) bool { return r.Contains(addr) })
}

// whoHas returns who has an address, as far as the cluster and the speakers know.
func whoHas(addr netip.Addr, cnet v1alpha1.ClusterNetworking, services []corev1.Service, reports []v1alpha1.NodeNetworking) holder {
	h := holder{IP: addr.String(), Pool: poolOf(cnet.Spec.IPPools, addr)}
	for _, svc := range services {
		for _, i := range svc.Status.LoadBalancer.Ingress {
			if a, err := netip.ParseAddr(i.IP); err == nil && a == addr {
				h.Services = append(h.Services, svc.Namespace+"/"+svc.Name)
			}
		}
	}
	slices.Sort(h.Services)
	for _, q := range cnet.Status.QuarantinedIPs {
		if q.IP == h.IP {
			h.Foreign = &q
		}
	}
	for _, r := range reports {
		for _, a := range r.Status.Announced {
			if a.IP == h.IP {
				h.Announced = append(h.Announced, place{r.Name, a.Interface, a.MAC})
			}
		}
		for _, i := range r.Status.Interfaces {
			for _, text := range i.Addresses {
				if p, err := netip.ParsePrefix(text); err == nil && p.Addr() == addr {
					h.Nodes = append(h.Nodes, place{r.Name, i.Name, i.MAC})
				}
			}
		}
	}
	byNode := func(a, b place) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Interface, b.Interface))
	}
	slices.SortFunc(h.Announced, byNode)
	slices.SortFunc(h.Nodes, byNode)
	return h
}

// sentences say it.
func (h holder) sentences() []string {
	var all []string
	if len(h.Services) > 0 {
		all = append(all, fmt.Sprintf("%s is that of Service %s (%s)", h.IP, strings.Join(h.Services, " and "), h.inPool()))
	}
	for _, p := range h.Announced {
		all = append(all, "it is answered for by "+p.String())
	}
	if len(h.Services) > 0 && len(h.Announced) == 0 {
		all = append(all, "no node answers for it: kubectl describe clusternetworking cluster says why")
	}
	for _, p := range h.Nodes {
		all = append(all, fmt.Sprintf("%s is an address of node %s", h.IP, p))
	}
	if q := h.Foreign; q != nil {
		all = append(all, fmt.Sprintf("a host that is no node has %s, %s: %s has heard it on %s since %s", h.IP, q.MAC, q.Node, q.Interface, q.Since.UTC().Format(time.RFC3339)))
	}
	if len(all) == 0 {
		all = append(all, fmt.Sprintf("nobody that the cluster knows of has %s (%s)", h.IP, h.inPool()))
	}
	return all
}

func (h holder) inPool() string {
	if h.Pool == "" {
		return "it is in no pool"
	}
	return "pool " + h.Pool
}

// print writes the sentences, one a line.
func (h holder) print(to io.Writer) error {
	if _, err := fmt.Fprintln(to, strings.Join(h.sentences(), "\n")); err != nil {
		return fmt.Errorf("printing who has %s: %w", h.IP, err)
	}
	return nil
}
