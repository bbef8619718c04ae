package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	_ "embed" // the manifests

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/test/bench/failover/wire"
)

// bench is what is measured, and with what.
type bench struct {
	options
	api     client.WithWatch
	store   store
	product product
	// nodes are by name, those that are control planes too.
	nodes []node
	// vip is the address that is probed each millisecond, of the Service that has it, and others are those of the other Services.
	vip     netip.Addr
	service string
	others  []netip.Addr
	// without is the node that has no backend; placed says that the backends have been placed so.
	without string
	placed  bool
}

// node is one of the cluster's.
type node struct {
	name         string
	mac          wire.MAC
	addr         netip.Addr
	controlPlane bool
}

func newBench(ctx context.Context, o options, s store) (*bench, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	config.QPS = -1 // it is the products that are measured
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("registering API kinds: %w", err)
	}
	b := &bench{options: o, store: s}
	if b.api, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("making the client: %w", err)
	}
	return b, b.meet(ctx)
}

// meet learns the nodes and their hardware addresses.
func (b *bench) meet(ctx context.Context) error {
	var list corev1.NodeList
	if err := b.api.List(ctx, &list); err != nil {
		return fmt.Errorf("listing the nodes: %w", err)
	}
	for _, n := range list.Items {
		text, err := b.lab.on(ctx, n.Name, "cat", "/sys/class/net/eth0/address")
		if err != nil {
			return fmt.Errorf("asking %s for its hardware address: %w", n.Name, err)
		}
		mac, err := wire.ParseMAC(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("asking %s for its hardware address: %w", n.Name, err)
		}
		met := node{name: n.Name, mac: mac}
		for _, a := range n.Status.Addresses {
			if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
				met.addr = addr
			}
		}
		_, met.controlPlane = n.Labels["node-role.kubernetes.io/control-plane"]
		b.nodes = append(b.nodes, met)
	}
	return nil
}

// nodeOf names the node with a hardware address.
func (b *bench) nodeOf(mac wire.MAC) string {
	if i := slices.IndexFunc(b.nodes, func(n node) bool { return n.mac == mac }); i >= 0 {
		return b.nodes[i].name
	}
	return mac.String()
}

// The pools: the tutorial's, and one for many addresses, in a subnet that every host of the LAN gets an address in.
const (
	poolForOne  = "192.168.1.200-192.168.1.210"
	poolForMany = "10.200.8.0/22"
	manyBits    = 16
)

// workstation is the host that measures.
const workstation = "k8s-ops"

// workstationAddr is its address.
var workstationAddr = netip.MustParseAddr("192.168.1.122")

// widen gives a host an address in the subnet of the pool for many, if there are many. Its last byte is that of its other address.
func (b *bench) widen(ctx context.Context, host string) error {
	if b.vips == 1 {
		return nil
	}
	addr := workstationAddr
	if i := slices.IndexFunc(b.nodes, func(n node) bool { return n.name == host }); i >= 0 {
		addr = b.nodes[i].addr
	}
	wide := fmt.Sprintf("10.200.0.%d/%d", addr.As4()[3], manyBits)
	if _, err := b.lab.on(ctx, host, "ip", "address", "replace", wide, "dev", "eth0"); err != nil {
		return fmt.Errorf("giving %s an address in the subnet of the many: %w", host, err)
	}
	return nil
}

//go:embed manifests/echo.yaml
var echoManifest string

// prepare installs the product, the backends and the Services, on a cluster that may hold whatever an earlier benchmark left.
func (b *bench) prepare(ctx context.Context) error {
	b.placed = false
	if _, err := b.lab.kubectl(ctx, "delete", "namespace", "bench", "--ignore-not-found"); err != nil {
		return err
	}
	for _, p := range everyProduct {
		if p.name != b.product.name {
			if err := p.remove(ctx, b); err != nil {
				return fmt.Errorf("removing %s: %w", p.name, err)
			}
		}
	}
	pool := poolForOne
	if b.vips > 1 {
		pool = poolForMany
	}
	for _, n := range b.nodes {
		if err := errors.Join(b.widen(ctx, n.name), b.excludeControlPlane(ctx, n)); err != nil {
			return err
		}
	}
	if err := b.widen(ctx, workstation); err != nil {
		return err
	}
	if err := errors.Join(b.product.install(ctx, b), b.product.give(ctx, b, pool)); err != nil {
		return fmt.Errorf("installing %s: %w", b.product.name, err)
	}
	if err := b.installedReady(ctx); err != nil {
		return err
	}
	if err := b.lab.apply(ctx, echoManifest+services(b.vips)); err != nil {
		return err
	}
	if err := b.place(ctx, ""); err != nil {
		return err
	}
	return await(ctx, "the addresses", 5*time.Minute, b.learnVIPs)
}

// excludeControlPlane keeps addresses off the node that the benchmark itself needs: the API server must outlive every fault.
func (b *bench) excludeControlPlane(ctx context.Context, n node) error {
	if n.controlPlane {
		return exclude(ctx, b, n.name)
	}
	return include(ctx, b, n.name)
}

// services are the manifests of so many Services. The first one has a port for connections too. The backends of those that are not probed stay where
// they are: a thousand EndpointSlices that change with each placement keep every kube-proxy busy for minutes.
func services(n int) string {
	var all strings.Builder
	for i := range n {
		ports, backends := fmt.Sprintf("{name: probe, protocol: UDP, port: %d}", wire.Port), "echo"
		if i == 0 {
			ports += fmt.Sprintf(", {name: page, protocol: TCP, port: %d}", wire.Port)
		}
		if i > sampled {
			backends = "still"
		}
		fmt.Fprintf(&all, "---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: bench}\nspec: {type: LoadBalancer, "+
			"externalTrafficPolicy: Cluster, allocateLoadBalancerNodePorts: false, selector: {app: %s}, ports: [%s]}\n", serviceName(i), backends, ports)
	}
	return all.String()
}

func serviceName(i int) string { return fmt.Sprintf("echo-%d", i) }

// learnVIPs reads the Services' addresses in the order of the Services, once each has one.
func (b *bench) learnVIPs(ctx context.Context) error {
	var list corev1.ServiceList
	if err := b.api.List(ctx, &list, client.InNamespace("bench")); err != nil {
		return fmt.Errorf("listing the Services: %w", err)
	}
	addrs := map[string]netip.Addr{}
	for _, s := range list.Items {
		if len(s.Status.LoadBalancer.Ingress) != 1 {
			return fmt.Errorf("the Service %s has no address", s.Name)
		}
		addr, err := netip.ParseAddr(s.Status.LoadBalancer.Ingress[0].IP)
		if err != nil {
			return fmt.Errorf("reading the address of the Service %s: %w", s.Name, err)
		}
		addrs[s.Name] = addr
	}
	if len(list.Items) != b.vips {
		return fmt.Errorf("there are %d Services, want %d", len(list.Items), b.vips)
	}
	b.service, b.others = serviceName(0), nil
	b.vip = addrs[b.service]
	for i := 1; i < b.vips; i++ {
		b.others = append(b.others, addrs[serviceName(i)])
	}
	return nil
}

const echoLabel = "bench.lanyard.dev/echo"

// place has a backend on every node but one, and waits until they are ready.
func (b *bench) place(ctx context.Context, without string) error {
	if b.placed && b.without == without {
		return nil
	}
	b.placed = false
	for _, n := range b.nodes {
		value := "yes"
		if n.name == without {
			value = "no"
		}
		if _, err := b.lab.kubectl(ctx, "label", "node", n.name, "--overwrite", echoLabel+"="+value); err != nil {
			return fmt.Errorf("placing the backends: %w", err)
		}
	}
	b.without, b.placed = without, true
	return await(ctx, "the backends", 2*time.Minute, func(ctx context.Context) error {
		return daemonSetReady(ctx, b.api, client.ObjectKey{Namespace: "bench", Name: "echo"})
	})
}

// backends are the nodes that should have one.
func (b *bench) backends(without string) []string {
	var all []string
	for _, n := range b.nodes {
		if n.name != without {
			all = append(all, n.name)
		}
	}
	slices.Sort(all)
	return all
}
