package allocation

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// Entry is an address and the pool that it comes from; the pool is empty when none holds it any more.
type Entry struct {
	Addr netip.Addr
	Pool string
}

// Ours says whether the Service is one that we serve: a load balancer of the class that is ours, without one where that is empty; or one that has
// addresses of ours, whatever is ours now: nobody else answers for them.
func Ours(svc *corev1.Service, class string) bool {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return false
	}
	return ptr.Deref(svc.Spec.LoadBalancerClass, "") == class || len(Addresses(svc)) > 0 && WrittenByUs(svc)
}

// Addresses returns the addresses in the Service's status. A host name, as cloud load balancers have, is none.
func Addresses(svc *corev1.Service) []netip.Addr {
	var all []netip.Addr
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(ingress.IP); err == nil {
			all = append(all, a)
		}
	}
	return all
}

// WrittenByUs says whether our manager wrote the addresses in the Service's status. managedFields tell, which a tenant cannot write through
// the Service's own resource; an annotation would not do.
func WrittenByUs(svc *corev1.Service) bool {
	return slices.ContainsFunc(svc.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == v1alpha1.FieldManager && m.Subresource == "status" && m.FieldsV1 != nil &&
			strings.Contains(m.FieldsV1.GetRawString(), `"f:ingress"`)
	})
}

// Remembered returns what the Service's annotation remembers. What does not read as an address is left out: it is a hint, not a title.
func Remembered(svc *corev1.Service) []Entry {
	var all []Entry
	for _, text := range strings.Split(svc.Annotations[v1alpha1.AllocatedAnnotation], ",") {
		address, pool, _ := strings.Cut(text, "=")
		if a, err := netip.ParseAddr(address); err == nil {
			all = append(all, Entry{Addr: a, Pool: pool})
		}
	}
	return all
}

// Text is the annotation that remembers the entries ("192.168.1.200=lan-pool"). An address without a pool stands alone.
func Text(entries []Entry) string {
	var texts []string
	for _, e := range entries {
		text := e.Addr.String()
		if e.Pool != "" {
			text += "=" + e.Pool
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ",")
}
