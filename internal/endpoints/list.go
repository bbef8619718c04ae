package endpoints

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// Sources are what the cluster knows of its API servers.
type Sources struct {
	// Kubeconfig is kube-proxy's own; empty when there is none.
	Kubeconfig string
	// Slices are the EndpointSlices of the Service default/kubernetes.
	Slices []discoveryv1.EndpointSlice
	// Service is default/kubernetes; nil when it is not there.
	Service *corev1.Service
	// Listed is what the list says now.
	Listed []Endpoint
}

// List returns the API servers' endpoints in the order in which they are worth trying: the one that kube-proxy itself uses, which every node
// has to reach anyway; each control plane's; the ClusterIP. Remarks speak of what is left out.
func List(s Sources) (list []Endpoint, remarks []string) {
	if s.Kubeconfig != "" {
		server, err := ServerURL(s.Kubeconfig)
		var e Endpoint
		if err == nil {
			e, err = urlEndpoint(server)
		}
		if err == nil {
			list = append(list, e)
		} else {
			remarks = append(remarks, fmt.Sprintf("kube-proxy's own API server is left out: %v", err))
		}
	}
	serving := servingEndpoints(s.Slices)
	if len(serving) == 0 {
		// An API server that ends takes its address out of the slice, and the last one leaves none. It comes back at the same address.
		serving = s.Listed
	}
	clusterIPs := serviceEndpoints(s.Service)
	for _, e := range serving {
		if !slices.Contains(list, e) && !slices.Contains(clusterIPs, e) {
			list = append(list, e)
		}
	}
	if room := maxEndpoints - len(clusterIPs); len(list) > room {
		list = list[:room]
	}
	return append(list, clusterIPs...), remarks
}

// ServerURL returns the server of a kubeconfig's current context, as it is written.
func ServerURL(kubeconfig string) (string, error) {
	config, err := clientcmd.Load([]byte(kubeconfig))
	if err != nil {
		return "", errors.New("its kubeconfig is no valid YAML of that kind")
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil || config.Clusters[current.Cluster] == nil {
		return "", fmt.Errorf("its kubeconfig's current-context %q names no cluster", config.CurrentContext)
	}
	return config.Clusters[current.Cluster].Server, nil
}

// urlEndpoint is the endpoint of an API server's URL. One with a path is a proxy's, which does not show the API servers' certificate.
func urlEndpoint(server string) (Endpoint, error) {
	u, err := url.Parse(server)
	if err != nil {
		return Endpoint{}, errors.New("the server is no URL")
	}
	if u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		return Endpoint{}, fmt.Errorf("the server %q is not of the form https://host:port", shorten(u.Redacted()))
	}
	return ParseEndpoint(net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")))
}

// servingEndpoints are each ready address and TCP port of the slices, sorted as numbers.
func servingEndpoints(found []discoveryv1.EndpointSlice) []Endpoint {
	var ports []netip.AddrPort
	for _, slice := range found {
		for _, endpoint := range slice.Endpoints {
			if endpoint.Conditions.Ready != nil && !*endpoint.Conditions.Ready {
				continue
			}
			for _, address := range endpoint.Addresses {
				ports = append(ports, withPorts(address, slice.Ports)...)
			}
		}
	}
	slices.SortFunc(ports, netip.AddrPort.Compare)
	return endpointsOf(slices.Compact(ports))
}

func endpointsOf(ports []netip.AddrPort) []Endpoint {
	var list []Endpoint
	for _, p := range ports {
		list = append(list, Endpoint{Host: p.Addr().String(), Port: p.Port()})
	}
	return list
}

// withPorts is the address with each TCP port. It leaves out what is no address: no API server writes a name, and a Service without an
// address says None.
func withPorts(address string, ports []discoveryv1.EndpointPort) []netip.AddrPort {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return nil
	}
	var list []netip.AddrPort
	for _, p := range ports {
		if p.Port != nil && (p.Protocol == nil || *p.Protocol == "" || *p.Protocol == corev1.ProtocolTCP) {
			list = append(list, netip.AddrPortFrom(addr.Unmap(), uint16(*p.Port))) //nolint:gosec // the API server refuses other numbers
		}
	}
	return list
}

// serviceEndpoints are the Service's own address with its TCP ports; none while it has no address.
func serviceEndpoints(service *corev1.Service) []Endpoint {
	if service == nil {
		return nil
	}
	var ports []discoveryv1.EndpointPort
	for _, p := range service.Spec.Ports {
		ports = append(ports, discoveryv1.EndpointPort{Port: &p.Port, Protocol: &p.Protocol})
	}
	return endpointsOf(withPorts(service.Spec.ClusterIP, ports))
}
