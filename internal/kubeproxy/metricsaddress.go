package kubeproxy

import (
	"net/netip"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// MetricsAddress returns the address and port at which a kube-proxy with this configuration is asked from its own node: where it serves its
// metrics. A document that cannot be read, or names what kube-proxy would not take, gives the default.
func MetricsAddress(document string) string {
	_, values, err := parse(document)
	if err != nil {
		return byDefault.String()
	}
	address, _ := values["metricsBindAddress"].(string)
	bind, _ := values["bindAddress"].(string)
	at, err := withPort(address)
	switch {
	case address == "": // its loopback, in the family of bindAddress
		at = byDefault
		if host, err := netip.ParseAddr(bind); err == nil && !host.Unmap().Is4() {
			at = netip.AddrPortFrom(netip.IPv6Loopback(), byDefault.Port())
		}
	case err != nil:
		return byDefault.String()
	}
	if at.Addr().IsUnspecified() { // on [::] it takes connections to 127.0.0.1 too
		at = netip.AddrPortFrom(byDefault.Addr(), at.Port())
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()).String()
}

// servedAt is what a metricsBindAddress means: the loopback when none is named, in the family of bindAddress. Either loopback stands for that
// here.
func servedAt(text string) string {
	at, err := withPort(text)
	switch {
	case text == "", err == nil && at == netip.AddrPortFrom(netip.IPv6Loopback(), byDefault.Port()):
		return byDefault.String()
	case err != nil:
		return text
	}
	return at.String()
}

// byDefault is where kube-proxy serves its metrics when nothing is said.
var byDefault = netip.MustParseAddrPort(v1alpha1.KubeProxyMetricsAddress)

// withPort reads a metricsBindAddress that is named: kube-proxy adds the port to an address without one.
func withPort(text string) (netip.AddrPort, error) {
	if host, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(host, byDefault.Port()), nil
	}
	return netip.ParseAddrPort(text)
}
