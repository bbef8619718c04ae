package speaker

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// The times of the checks.
const (
	checkEvery       = 10 * time.Second
	checkAgain       = 2 * time.Second // while the rules are not written, nothing could be tried, or a check fails
	checkTimeout     = time.Second
	checkTries       = 3
	apiServerService = "kubernetes"
)

// dialer makes a connection and ends it.
type dialer func(ctx context.Context, to netip.AddrPort) error

// connect is the dialer of the network that the process is in.
func connect(ctx context.Context, to netip.AddrPort) error {
	connection, err := (&net.Dialer{Timeout: checkTimeout}).DialContext(ctx, "tcp", to.String())
	if err != nil {
		return err
	}
	return connection.Close()
}

// target is a Service to which a connection is tried.
type target struct {
	name string
	to   []netip.AddrPort
}

// checked says whether a Service is one to which speakers try connections: the API server's, and their own.
func checked(svc *corev1.Service, namespace string) bool {
	return svc.Namespace == metav1.NamespaceDefault && svc.Name == apiServerService ||
		svc.Namespace == namespace && svc.Name == v1alpha1.SpeakerService
}

// targets returns what can be checked from this node, in the order of names. The speakers' own Service leads to this node alone, so it
// can be once its endpoint here is known; in the family of the node's address, on which the speaker listens.
func (s source) targets(ctx context.Context, self string, addr netip.Addr) ([]target, error) {
	var all []target
	for _, key := range []client.ObjectKey{
		{Namespace: metav1.NamespaceDefault, Name: apiServerService}, {Namespace: s.namespace, Name: v1alpha1.SpeakerService}} {
		var svc corev1.Service
		err := s.reader.Get(ctx, key, &svc)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading Service %s: %w", key, err)
		}
		if err != nil {
			continue
		}
		t := target{name: key.String(), to: addressesOf(&svc)}
		if key.Namespace == s.namespace {
			here, err := s.leadsTo(ctx, key, self)
			if err != nil {
				return nil, err
			}
			t.to = slices.DeleteFunc(t.to, func(to netip.AddrPort) bool { return !here || to.Addr().Is4() != addr.Is4() })
		}
		if len(t.to) > 0 {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b target) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// leadsTo says whether a Service has an endpoint on the node.
func (s source) leadsTo(ctx context.Context, service client.ObjectKey, node string) (bool, error) {
	var endpointSlices discoveryv1.EndpointSliceList
	err := s.reader.List(ctx, &endpointSlices, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name})
	if err != nil {
		return false, fmt.Errorf("listing EndpointSlices of Service %s: %w", service, err)
	}
	for _, es := range endpointSlices.Items {
		if nodesWith(es.Endpoints)[node] {
			return true, nil
		}
	}
	return false, nil
}

// addressesOf returns every TCP port of every ClusterIP, in order.
func addressesOf(svc *corev1.Service) []netip.AddrPort {
	var all []netip.AddrPort
	for _, ip := range svc.Spec.ClusterIPs {
		addr, err := netip.ParseAddr(ip)
		if err != nil { // None
			continue
		}
		for _, p := range svc.Spec.Ports {
			if p.Protocol == "" || p.Protocol == corev1.ProtocolTCP {
				all = append(all, netip.AddrPortFrom(addr, uint16(p.Port))) //nolint:gosec // the API holds it within a port's bounds
			}
		}
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return all
}

// check tries all targets at once, and returns the results in their order.
func check(ctx context.Context, targets []target, dial dialer) []v1alpha1.NodeCheck {
	var dials sync.WaitGroup
	checks := make([]v1alpha1.NodeCheck, 0, len(targets))
	failures := make([][]string, len(targets))
	for i, t := range targets {
		failures[i] = make([]string, len(t.to))
		for j, to := range t.to {
			dials.Go(func() { failures[i][j] = try(ctx, to, dial) })
		}
	}
	dials.Wait()
	for i, t := range targets {
		c := v1alpha1.NodeCheck{Name: t.name, Result: v1alpha1.CheckPassed}
		if failed := slices.DeleteFunc(failures[i], func(why string) bool { return why == "" }); len(failed) > 0 {
			c.Result = v1alpha1.CheckFailed
			c.Message = fmt.Sprintf("no connection to %s: see the log of kube-proxy on this node, whose rules lead there", strings.Join(failed, ", "))
		}
		checks = append(checks, c)
	}
	return checks
}

// try returns why no connection can be made; empty when one was. One of several endpoints may be down without anybody having noticed yet:
// each further connection may lead to another.
func try(ctx context.Context, to netip.AddrPort, dial dialer) string {
	var err error
	for range checkTries {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		err = dial(ctx, to)
		cancel()
		if err == nil {
			return ""
		}
	}
	return fmt.Sprintf("%s (%s)", to, cause(err))
}

// checkPause is how long after the checks they are made again.
func checkPause(rules v1alpha1.RulesState, checks []v1alpha1.NodeCheck) time.Duration {
	failed := slices.ContainsFunc(checks, func(c v1alpha1.NodeCheck) bool { return c.Result == v1alpha1.CheckFailed })
	if rules != v1alpha1.RulesWritten || failed || len(checks) == 0 {
		return checkAgain
	}
	return checkEvery
}
