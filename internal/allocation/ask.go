package allocation

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// The annotations that ask for something: ours, MetalLB's of today with the same meaning, and MetalLB's from before, which most files carry.
var (
	poolKeys    = []string{v1alpha1.IPPoolAnnotation, "metallb.io/address-pool", "metallb.universe.tf/address-pool"}
	addressKeys = []string{v1alpha1.IPsAnnotation, "metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs"}
	sharingKeys = []string{v1alpha1.SharingKeyAnnotation, "metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip"}
)

// Ask is what a Service asks for.
type Ask struct {
	// Addrs are the addresses that it asks for, at most one of each family; none: any.
	Addrs []netip.Addr
	// Pool is the pool that it asks for; empty: any.
	Pool string
	// SharingKey is that of the Services with which it shares an address; empty: with none. SharingNamespaces are the namespaces besides its own
	// in which they may be.
	SharingKey        string
	SharingNamespaces []string
}

// AskOf reads what the Service asks for, in annotations and in spec.loadBalancerIP. The error says what contradicts itself or cannot be read, and
// what to write instead.
func AskOf(svc *corev1.Service) (ask Ask, err error) {
	if ask.Pool, _, err = annotated(svc, poolKeys); err != nil {
		return Ask{}, err
	}
	if ask.SharingKey, _, err = annotated(svc, sharingKeys); err != nil {
		return Ask{}, err
	}
	ask.SharingNamespaces = list(svc.Annotations[v1alpha1.SharingNamespacesAnnotation])
	text, key, err := annotated(svc, addressKeys)
	if err != nil {
		return Ask{}, err
	}
	inAnnotation, err := addressesIn(text, "annotation "+key)
	if err != nil {
		return Ask{}, err
	}
	inSpec, err := addressesIn(svc.Spec.LoadBalancerIP, "spec.loadBalancerIP")
	switch {
	case err != nil:
		return Ask{}, err
	case len(inSpec) == 0:
		ask.Addrs = inAnnotation
	case len(inAnnotation) == 0 || slices.Equal(inAnnotation, inSpec):
		ask.Addrs = inSpec
	default:
		return Ask{}, fmt.Errorf("annotation %s asks for %s, and spec.loadBalancerIP for %s: leave one of the two", key, text, svc.Spec.LoadBalancerIP)
	}
	return ask, nil
}

// annotated returns the value of the annotation that is there of those with one meaning, and under which key it stands.
func annotated(svc *corev1.Service, keys []string) (value, key string, err error) {
	for _, k := range keys {
		v := strings.TrimSpace(svc.Annotations[k])
		switch {
		case v == "":
		case value == "":
			value, key = v, k
		case v != value:
			return "", "", fmt.Errorf("annotations %s (%q) and %s (%q) contradict each other: leave one of the two", key, value, k, v)
		}
	}
	return value, key, nil
}

// list reads values with commas between them.
func list(text string) (values []string) {
	for _, value := range strings.Split(text, ",") {
		if value = strings.TrimSpace(value); value != "" {
			values = append(values, value)
		}
	}
	return values
}

// addressesIn reads at most one address of each family.
func addressesIn(text, where string) ([]netip.Addr, error) {
	var addrs []netip.Addr
	for _, one := range list(text) {
		a, err := netip.ParseAddr(one)
		if err != nil || a.Zone() != "" {
			return nil, fmt.Errorf("%s holds %q, which is no address: write one, like 192.168.1.200, or one of each family with a comma between them", where, one)
		}
		a = a.Unmap()
		if slices.ContainsFunc(addrs, func(other netip.Addr) bool { return other.Is4() == a.Is4() }) {
			return nil, fmt.Errorf("%s asks for two addresses of one family (%s): a Service has one of each", where, text)
		}
		addrs = append(addrs, a)
	}
	return addrs, nil
}
