package controllers

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// foreignersOf returns the addresses that speakers have heard foreign hosts claim, one host for each, in order. A node of the cluster whose
// speaker is not heard is none: its hardware address is known.
func foreignersOf(nodes []v1alpha1.NodeNetworking, pools []ipam.Pool) []v1alpha1.QuarantinedIP {
	ours := map[string]bool{}
	for _, n := range nodes {
		for _, i := range n.Status.Interfaces {
			ours[i.MAC] = true
		}
	}
	var all []v1alpha1.QuarantinedIP
	for _, n := range nodes {
		for _, f := range n.Status.Foreign {
			addr, err := netip.ParseAddr(f.IP)
			pool, belongs := ipam.PoolOf(pools, addr)
			if err != nil || ours[f.MAC] || !belongs {
				continue
			}
			all = append(all, v1alpha1.QuarantinedIP{IP: f.IP, IPPool: pool, MAC: f.MAC, Node: n.Name, Interface: f.Interface, Since: f.Since})
		}
	}
	slices.SortFunc(all, func(a, b v1alpha1.QuarantinedIP) int {
		return cmp.Or(netip.MustParseAddr(a.IP).Compare(netip.MustParseAddr(b.IP)), a.Since.Compare(b.Since.Time), strings.Compare(a.Node, b.Node))
	})
	return slices.CompactFunc(all, func(a, b v1alpha1.QuarantinedIP) bool { return a.IP == b.IP })
}

// hostOf says which foreign host has an address, as a person would.
func hostOf(q v1alpha1.QuarantinedIP) string {
	return fmt.Sprintf("the host %s on the LAN, which %s hears on %s", q.MAC, q.Node, q.Interface)
}

// quarantined are sentences about the addresses that foreign hosts have and no Service: of the others the Services' clashes speak.
func quarantined(foreign []v1alpha1.QuarantinedIP, plan *ipam.Result) []string {
	held := map[string]bool{}
	if plan != nil {
		for _, h := range holdingsOf(plan.Assignments) {
			held[h.Addr.String()] = true
		}
	}
	var all []string
	for _, q := range foreign {
		if !held[q.IP] {
			all = append(all, fmt.Sprintf("%s (%s, has it)", q.IP, hostOf(q)))
		}
	}
	return all
}

// hosts are foreign hosts, by address, that were told of.
type hosts map[string]string

// untoldHosts returns the foreign hosts that were not told of yet, and all that will have been.
func untoldHosts(before hosts, foreign []v1alpha1.QuarantinedIP) (fresh []v1alpha1.QuarantinedIP, told hosts) {
	told = make(hosts, len(foreign))
	for _, q := range foreign {
		if before[q.IP] != q.MAC {
			fresh = append(fresh, q)
		}
		told[q.IP] = q.MAC
	}
	return fresh, told
}

// verifiedBy returns the addresses for which speakers have asked the LAN, and nobody answered. Text that is no range verifies nothing.
func verifiedBy(nodes []v1alpha1.NodeNetworking) []ipam.Range {
	var all []ipam.Range
	for _, n := range nodes {
		for _, text := range n.Status.Free {
			if r, err := ipam.ParseRange(text); err == nil {
				all = append(all, r)
			}
		}
	}
	return all
}

// everywhere are all addresses.
var everywhere = []ipam.Range{
	{First: netip.IPv4Unspecified(), Last: netip.AddrFrom4([4]byte{255, 255, 255, 255})},
	{First: netip.IPv6Unspecified(), Last: netip.AddrFrom16([16]byte(bytes.Repeat([]byte{255}, 16)))},
}

// linksOf returns the subnets of the nodes' interfaces: there the LAN can be asked about an address. While no speaker has reported, that may be
// anywhere.
func linksOf(nodes []v1alpha1.NodeNetworking) []ipam.Range {
	if len(nodes) == 0 {
		return everywhere
	}
	var all []ipam.Range
	for _, n := range nodes {
		for _, i := range n.Status.Interfaces {
			if i.Carrier != v1alpha1.CarrierUp {
				continue
			}
			for _, p := range prefixesOf(i) {
				if r, err := ipam.ParseRange(p.Masked().String()); err == nil && !slices.Contains(all, r) {
					all = append(all, r)
				}
			}
		}
	}
	return all
}
