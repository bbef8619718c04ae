package speaker

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/configuration"
	"github.com/lanyard-dev/lanyard/internal/ipam"
	"github.com/lanyard-dev/lanyard/internal/membership"
)

// source reads the cluster from the informers' caches, which go on answering when the API server does not.
type source struct {
	reader    client.Reader
	namespace string
	// digests spare reading again what has not changed; nil: everything is read.
	digests *digests
}

// settings are a configuration with its pools read.
type settings struct {
	configuration.Configuration
	pools []ipam.Pool
	away  map[string]bool
}

// configuration returns the configuration in force; nil when there is none yet.
func (s source) configuration(ctx context.Context) (*settings, error) {
	var cm corev1.ConfigMap
	err := s.reader.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: v1alpha1.ConfigurationConfigMap}, &cm)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	if err != nil {
		return nil, nil
	}
	c, err := configuration.FromConfigMap(&cm)
	if err != nil {
		return nil, err
	}
	pools, err := poolsOf(c)
	if err != nil {
		return nil, err
	}
	away := map[string]bool{}
	for _, node := range strings.Fields(cm.Data[v1alpha1.AwayKey]) {
		away[node] = true
	}
	return &settings{Configuration: c, pools: pools, away: away}, nil
}

// snapshot reads what is decided from.
func (s source) snapshot(ctx context.Context, self string, in settings, members map[string]membership.Member) (snapshot, error) {
	snap := snapshot{self: self, pools: in.pools, advertisements: in.L2Advertisements, away: in.away, members: members}
	var (
		services       corev1.ServiceList
		endpointSlices discoveryv1.EndpointSliceList
		nodes          corev1.NodeList
	)
	for what, list := range map[string]client.ObjectList{"Services": &services, "EndpointSlices": &endpointSlices, "Nodes": &nodes} {
		// Nothing is written to what is listed: a thousand Services need not be copied in each pass.
		if err := s.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return snapshot{}, fmt.Errorf("listing %s: %w", what, err)
		}
	}
	snap.services = s.digests.services(services.Items, endpointSlices.Items, in.LoadBalancerClass)
	for i := range nodes.Items {
		snap.nodes = append(snap.nodes, nodeOf(&nodes.Items[i]))
	}
	return snap, nil
}

// poolsOf parses the pools of a configuration.
func poolsOf(c configuration.Configuration) ([]ipam.Pool, error) {
	var texts []ipam.PoolText
	for _, p := range c.IPPools {
		text := ipam.PoolText{Name: p.Name}
		for _, a := range p.Addresses {
			text.Addresses = append(text.Addresses, string(a))
		}
		for _, a := range p.Exclude {
			text.Exclude = append(text.Exclude, string(a))
		}
		for _, r := range p.Reservations {
			text.Reservations = append(text.Reservations, ipam.ReservationText{Address: r.Address, For: r.Service.Namespace + "/" + r.Service.Name})
		}
		texts = append(texts, text)
	}
	pools, problems := ipam.ParsePools(texts)
	if len(problems) > 0 {
		return nil, fmt.Errorf("the configuration holds a bad pool: %s", problems[0].Message)
	}
	return pools, nil
}

// peers are the other nodes' addresses, by name.
func (s source) peers(ctx context.Context, self string, port uint16) (map[string]netip.AddrPort, error) {
	var nodes corev1.NodeList
	if err := s.reader.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	peers := map[string]netip.AddrPort{}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		for _, a := range n.Status.Addresses {
			addr, err := netip.ParseAddr(a.Address)
			if _, known := peers[n.Name]; a.Type == corev1.NodeInternalIP && err == nil && n.Name != self && !known {
				peers[n.Name] = netip.AddrPortFrom(addr, port)
			}
		}
	}
	return peers, nil
}

func nodeOf(n *corev1.Node) node {
	facts := node{name: n.Name, labels: n.Labels}
	for _, a := range n.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); a.Type == corev1.NodeInternalIP && err == nil {
			facts.addrs = append(facts.addrs, addr)
		}
	}
	if port := n.Status.DaemonEndpoints.KubeletEndpoint.Port; len(facts.addrs) > 0 && port > 0 && port <= math.MaxUint16 {
		facts.kubelet = netip.AddrPortFrom(facts.addrs[0], uint16(port))
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionTrue {
			facts.networkUnavailable = true
		}
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown { // as the node controller sets it after 40 s or more
			facts.unreachable = true
		}
	}
	return facts
}
