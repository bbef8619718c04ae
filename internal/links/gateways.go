package links

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// Gateways returns the routers that this host sends to what it has no subnet for, in order.
func Gateways() ([]netip.Addr, error) {
	routes, err := whole(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	var gateways []netip.Addr
	for _, r := range routes {
		anywhere := r.Dst == nil
		if r.Dst != nil {
			ones, _ := r.Dst.Mask.Size()
			anywhere = ones == 0
		}
		if gateway, ok := netip.AddrFromSlice(r.Gw); ok && anywhere {
			gateways = append(gateways, gateway.Unmap())
		}
	}
	slices.SortFunc(gateways, netip.Addr.Compare)
	return slices.Compact(gateways), nil
}
