package kubeproxy

import (
	"cmp"
	"net/netip"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// MetricsAddress returns the address and port at which a kube-proxy with this configuration is asked from its own node: where it serves its
// metrics. A document that cannot be read, or names what kube-proxy would not take, gives the default.
func MetricsAddress(document string) string {
	asked := netip.MustParseAddrPort(v1alpha1.KubeProxyMetricsAddress)
	_, values, err := parse(document)
	if err != nil {
		return asked.String()
	}
	address, _ := values["metricsBindAddress"].(string)
	bind, _ := values["bindAddress"].(string)
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		// kube-proxy adds the port to an address without one, and has its loopback in the family of bindAddress.
		host, err := netip.ParseAddr(cmp.Or(address, bind))
		switch {
		case err != nil:
			return asked.String()
		case address == "" && host.Is4(), address == "" && host.Is4In6():
			host = asked.Addr()
		case address == "":
			host = netip.IPv6Loopback()
		}
		at = netip.AddrPortFrom(host, asked.Port())
	}
	if at.Addr().IsUnspecified() { // on [::] it takes connections to 127.0.0.1 too
		at = netip.AddrPortFrom(asked.Addr(), at.Port())
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()).String()
}

// servedAt is what a metricsBindAddress means: kube-proxy adds the port to an address without one, and serves on the loopback in the family
// of bindAddress when none is named. Either loopback stands for that here.
func servedAt(text string) string {
	byDefault := netip.MustParseAddrPort(v1alpha1.KubeProxyMetricsAddress)
	at, err := netip.ParseAddrPort(text)
	if host, noPort := netip.ParseAddr(text); noPort == nil {
		at, err = netip.AddrPortFrom(host, byDefault.Port()), nil
	}
	switch {
	case text == "", err == nil && at == netip.AddrPortFrom(netip.IPv6Loopback(), byDefault.Port()):
		return byDefault.String()
	case err != nil:
		return text
	}
	return at.String()
}
