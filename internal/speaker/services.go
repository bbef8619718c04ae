package speaker

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-dev/lanyard/internal/allocation"
)

// digests keeps what Services say, as read with a class, for as long as they do not change: a pass over a thousand would spend half its time reading
// them.
type digests struct {
	class string
	known map[types.UID]*digest
}

// digest is what a revision of a Service says.
type digest struct {
	revision string
	service
	// ours says whether it is a load balancer of the class, or has addresses of ours, and shows any.
	ours bool
}

// of returns a Service's digest. One that no API server has given a revision is read each time.
func (d *digests) of(svc *corev1.Service, class string) *digest {
	if d == nil || svc.UID == "" || svc.ResourceVersion == "" {
		return digestOf(svc, class)
	}
	if known := d.known[svc.UID]; known == nil || known.revision != svc.ResourceVersion {
		d.known[svc.UID] = digestOf(svc, class)
	}
	return d.known[svc.UID]
}

// digestOf reads a Service.
func digestOf(svc *corev1.Service, class string) *digest {
	d := &digest{revision: svc.ResourceVersion}
	if !allocation.Ours(svc, class) {
		return d
	}
	d.service = service{
		name:  svc.Namespace + "/" + svc.Name,
		local: svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal,
		addrs: allocation.Addresses(svc),
	}
	d.ours = len(d.addrs) > 0
	if d.ours && allocation.WrittenByUs(svc) {
		d.draining = poolsRemembered(svc, d.addrs)
	}
	return d
}

// begin makes room for the digests of so many Services. Of those with another class nothing is known, and most of too many are of Services that
// are gone.
func (d *digests) begin(class string, services int) {
	if d != nil && (d.known == nil || d.class != class || len(d.known) > 2*services) {
		*d = digests{class: class, known: make(map[types.UID]*digest, services)}
	}
}

// services returns the load balancers of a class, none where it is empty, that show addresses, in the order of names.
func (d *digests) services(services []corev1.Service, endpointSlices []discoveryv1.EndpointSlice, class string) []service {
	d.begin(class, len(services))
	found := make([]*digest, 0, len(services))
	local := map[string][]discoveryv1.Endpoint{}
	for i := range services {
		s := d.of(&services[i], class)
		if !s.ours {
			continue
		}
		if found = append(found, s); s.local {
			local[s.name] = nil
		}
	}
	for i := range endpointSlices {
		es := &endpointSlices[i]
		if len(local) == 0 {
			break
		}
		name := es.Namespace + "/" + es.Labels[discoveryv1.LabelServiceName]
		if endpoints, wanted := local[name]; wanted {
			local[name] = append(endpoints, es.Endpoints...)
		}
	}
	slices.SortFunc(found, func(a, b *digest) int { return strings.Compare(a.name, b.name) })
	all := make([]service, 0, len(found))
	for _, f := range found {
		s := f.service
		if s.local {
			s.endpoints = nodesWith(local[s.name])
		}
		all = append(all, s)
	}
	return all
}

// poolsRemembered returns the pool that each address came from, as the Service's annotation remembers it.
func poolsRemembered(svc *corev1.Service, addrs []netip.Addr) map[netip.Addr]string {
	pools := map[netip.Addr]string{}
	for _, a := range addrs {
		pools[a] = ""
	}
	for _, e := range allocation.Remembered(svc) {
		if _, has := pools[e.Addr]; has {
			pools[e.Addr] = e.Pool
		}
	}
	return pools
}

// nodesWith returns the nodes with a ready endpoint; when none is ready anywhere, those whose endpoint still serves while it ends, as
// kube-proxy does (KEP-1669).
func nodesWith(endpoints []discoveryv1.Endpoint) map[string]bool {
	ready, serving := map[string]bool{}, map[string]bool{}
	for _, e := range endpoints {
		if e.NodeName == nil {
			continue
		}
		if e.Conditions.Ready == nil || *e.Conditions.Ready {
			ready[*e.NodeName] = true
		}
		if e.Conditions.Serving != nil && *e.Conditions.Serving {
			serving[*e.NodeName] = true
		}
	}
	if len(ready) > 0 {
		return ready
	}
	return serving
}
