package metallb

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// pool is an IPAddressPool (v1beta1), as far as it is read.
type pool struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Addresses         []string `json:"addresses"`
		AutoAssign        *bool    `json:"autoAssign"`
		AvoidBuggyIPs     bool     `json:"avoidBuggyIPs"`
		ServiceAllocation *struct {
			Priority           int32                  `json:"priority"`
			Namespaces         []string               `json:"namespaces"`
			NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors"`
			ServiceSelectors   []metav1.LabelSelector `json:"serviceSelectors"`
		} `json:"serviceAllocation"`
	} `json:"spec"`
}

// advertisement is an L2Advertisement (v1beta1), as far as it is read.
type advertisement struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		IPAddressPools         []string               `json:"ipAddressPools"`
		IPAddressPoolSelectors []metav1.LabelSelector `json:"ipAddressPoolSelectors"`
		NodeSelectors          []metav1.LabelSelector `json:"nodeSelectors"`
		Interfaces             []string               `json:"interfaces"`
		ServiceSelectors       []metav1.LabelSelector `json:"serviceSelectors"`
		PreferredNodeSelectors []any                  `json:"preferredNodeSelectors"`
	} `json:"spec"`
}

// Import returns what MetalLB is told as the spec of one ClusterNetworking, and remarks about what is different there or has no equivalent: each
// names the object. The error is of objects that cannot be read.
func Import(objects []unstructured.Unstructured) (v1alpha1.ClusterNetworkingSpec, []string, error) {
	var (
		i     importer
		pools []pool
		ads   []advertisement
	)
	for _, o := range objects {
		switch o.GetKind() {
		case "IPAddressPool":
			var p pool
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &p); err != nil {
				return v1alpha1.ClusterNetworkingSpec{}, nil, fmt.Errorf("reading IPAddressPool %s: %w", o.GetName(), err)
			}
			pools = append(pools, p)
		case "L2Advertisement":
			var ad advertisement
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &ad); err != nil {
				return v1alpha1.ClusterNetworkingSpec{}, nil, fmt.Errorf("reading L2Advertisement %s: %w", o.GetName(), err)
			}
			ads = append(ads, ad)
		default:
			i.remark(o.GetKind(), o.GetName(), "has no equivalent: Lanyard announces addresses by ARP and NDP, not by BGP")
		}
	}
	i.priorities = prioritiesOf(pools)
	for _, p := range pools {
		i.spec.IPPools = append(i.spec.IPPools, i.pool(p))
	}
	for _, ad := range ads {
		i.spec.L2Advertisements = append(i.spec.L2Advertisements, i.advertisement(ad, pools)...)
	}
	i.unannounced()
	return i.spec, i.remarks, nil
}

// importer is the state of Import.
type importer struct {
	spec    v1alpha1.ClusterNetworkingSpec
	remarks []string
	// priorities are Lanyard's for MetalLB's.
	priorities map[int32]int32
}

func (i *importer) remark(kind, name, format string, args ...any) {
	i.remarks = append(i.remarks, fmt.Sprintf("%s %s: ", kind, name)+fmt.Sprintf(format, args...))
}

// prioritiesOf turns the priorities around: MetalLB's lowest goes first, and 0 last; Lanyard's highest goes first.
func prioritiesOf(pools []pool) map[int32]int32 {
	set := map[int32]bool{}
	for _, p := range pools {
		if p.Spec.ServiceAllocation != nil && p.Spec.ServiceAllocation.Priority > 0 {
			set[p.Spec.ServiceAllocation.Priority] = true
		}
	}
	turned := map[int32]int32{}
	for rank, priority := range slices.Backward(slices.Sorted(maps.Keys(set))) {
		turned[priority] = int32(10 * (len(set) - rank)) //nolint:gosec // as many as there are pools
	}
	return turned
}

func (i *importer) pool(p pool) v1alpha1.IPPool {
	imported := v1alpha1.IPPool{Name: i.name("IPAddressPool", p.Name)}
	for _, text := range p.Spec.Addresses {
		imported.Addresses = append(imported.Addresses, v1alpha1.AddressRange(i.addresses(p, text)))
	}
	if p.Spec.AutoAssign != nil && !*p.Spec.AutoAssign {
		imported.Allocation = v1alpha1.AllocationOnRequest
	}
	if p.Spec.AvoidBuggyIPs {
		i.avoidBuggy(p, &imported)
	}
	a := p.Spec.ServiceAllocation
	if a == nil {
		return imported
	}
	imported.Priority = i.priorities[a.Priority]
	if len(a.Namespaces)+len(a.NamespaceSelectors)+len(a.ServiceSelectors) > 0 {
		imported.AllowedServices = &v1alpha1.AllowedServices{
			Namespaces:        a.Namespaces,
			NamespaceSelector: i.one("IPAddressPool", p.Name, "serviceAllocation.namespaceSelectors", a.NamespaceSelectors),
			Selector:          i.one("IPAddressPool", p.Name, "serviceAllocation.serviceSelectors", a.ServiceSelectors),
		}
	}
	if len(a.NamespaceSelectors) > 0 {
		i.remark("IPAddressPool", p.Name, "namespaces that nobody matches open the pool for everybody there, and close it here")
	}
	return imported
}

// one returns the one selector of a list of alternatives, of which Lanyard has one.
func (i *importer) one(kind, name, field string, selectors []metav1.LabelSelector) *metav1.LabelSelector {
	if len(selectors) == 0 {
		return nil
	}
	if len(selectors) > 1 {
		i.remark(kind, name, "%s has %d alternatives, of which the first is taken: give the others' a label in common and select that, "+
			"or split the pool", field, len(selectors))
	}
	return &selectors[0]
}

// name returns a name that Lanyard accepts.
func (i *importer) name(kind, name string) string {
	accepted := strings.ReplaceAll(name, ".", "-")
	if len(accepted) > 63 {
		accepted = strings.Trim(accepted[:63], "-")
	}
	if accepted != name {
		i.remark(kind, name, "is called %s here: change annotations that name it", accepted)
	}
	return accepted
}

// addresses returns a range or a CIDR as Lanyard accepts it. Text that is neither stays, and is refused with a reason when it is applied.
func (i *importer) addresses(p pool, text string) string {
	if first, last, isRange := strings.Cut(text, "-"); isRange {
		return strings.TrimSpace(first) + "-" + strings.TrimSpace(last)
	}
	prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
	if err != nil {
		return text
	}
	if masked := prefix.Masked(); masked != prefix {
		i.remark("IPAddressPool", p.Name, "%s has host bits set: it is %s, as it is for MetalLB", text, masked)
		return masked.String()
	}
	return prefix.String()
}

// excludesAtMost is how many entries spec.ipPools[].exclude takes.
const excludesAtMost = 32

// avoidBuggy excludes the IPv4 addresses that end in 0 and 255.
func (i *importer) avoidBuggy(p pool, imported *v1alpha1.IPPool) {
	for _, text := range imported.Addresses {
		first, last, ok := endsOf(string(text))
		if !ok || !first.Is4() {
			continue
		}
		for a := first; a.IsValid() && !last.Less(a); {
			b := a.As4()
			if b[3] == 0 || b[3] == 255 {
				if len(imported.Exclude) == excludesAtMost {
					i.remark("IPAddressPool", p.Name, "avoidBuggyIPs: only the first %d addresses that end in 0 or 255 are excluded", excludesAtMost)
					return
				}
				imported.Exclude = append(imported.Exclude, v1alpha1.ExcludedRange(a.String()))
			}
			if b[3] != 0 && b[3] != 255 { // to the next one that matters
				b[3] = 254
			}
			a = netip.AddrFrom4(b).Next()
		}
	}
	i.remark("IPAddressPool", p.Name, "avoidBuggyIPs: the network and broadcast addresses of your nodes' subnets are never given out here, so that exclude is "+
		"needed only for old clients")
}

// endsOf returns the first and the last address of a range or a CIDR.
func endsOf(text string) (first, last netip.Addr, ok bool) {
	if from, to, isRange := strings.Cut(text, "-"); isRange {
		a, errFrom := netip.ParseAddr(from)
		b, errTo := netip.ParseAddr(to)
		return a, b, errFrom == nil && errTo == nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return first, last, false
	}
	bytes := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ = netip.AddrFromSlice(bytes)
	return p.Addr(), last, true
}

// advertisement returns one for each of the node selectors, which are alternatives.
func (i *importer) advertisement(ad advertisement, pools []pool) []v1alpha1.L2Advertisement {
	imported := v1alpha1.L2Advertisement{Name: i.name("L2Advertisement", ad.Name), Interfaces: ad.Spec.Interfaces, IPPools: i.poolsOf(ad, pools)}
	if all := len(ad.Spec.IPAddressPools)+len(ad.Spec.IPAddressPoolSelectors) == 0; !all && len(imported.IPPools) == 0 {
		i.remark("L2Advertisement", ad.Name, "is left out: none of the pools that it names is there")
		return nil
	}
	if len(ad.Spec.ServiceSelectors) > 0 {
		i.remark("L2Advertisement", ad.Name, "serviceSelectors has no equivalent: every Service with an address of its pools is announced")
	}
	if len(ad.Spec.PreferredNodeSelectors) > 0 {
		i.remark("L2Advertisement", ad.Name, "preferredNodeSelectors has no equivalent: addresses are spread evenly, and stay where they are")
	}
	switch len(ad.Spec.NodeSelectors) {
	case 0:
		return []v1alpha1.L2Advertisement{imported}
	case 1:
		imported.NodeSelector = &ad.Spec.NodeSelectors[0]
		return []v1alpha1.L2Advertisement{imported}
	}
	var all []v1alpha1.L2Advertisement
	for n := range ad.Spec.NodeSelectors {
		one := imported
		one.Name, one.NodeSelector = fmt.Sprintf("%s-%d", imported.Name, n+1), &ad.Spec.NodeSelectors[n]
		all = append(all, one)
	}
	return all
}

// poolsOf returns the pools that an advertisement names or selects, by their names here; none for all.
func (i *importer) poolsOf(ad advertisement, pools []pool) []string {
	var names []string
	note := func(p pool) {
		if name := (&importer{}).name("", p.Name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range ad.Spec.IPAddressPools {
		at := slices.IndexFunc(pools, func(p pool) bool { return p.Name == name })
		if at < 0 {
			i.remark("L2Advertisement", ad.Name, "there is no IPAddressPool %s: it is left out", name)
			continue
		}
		note(pools[at])
	}
	for n := range ad.Spec.IPAddressPoolSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&ad.Spec.IPAddressPoolSelectors[n])
		if err != nil {
			i.remark("L2Advertisement", ad.Name, "ipAddressPoolSelectors[%d] cannot be read, and is left out: %v", n, err)
			continue
		}
		for _, p := range pools {
			if selector.Matches(labels.Set(p.Labels)) {
				note(p)
			}
		}
	}
	return names
}

// unannounced remarks the pools that no advertisement announces.
func (i *importer) unannounced() {
	for _, p := range i.spec.IPPools {
		if !slices.ContainsFunc(i.spec.L2Advertisements, func(ad v1alpha1.L2Advertisement) bool {
			return len(ad.IPPools) == 0 || slices.Contains(ad.IPPools, p.Name)
		}) {
			i.remark("IPAddressPool", p.Name, "no L2Advertisement announces it: its addresses are given out, and nobody answers for them")
		}
	}
	slices.SortStableFunc(i.remarks, func(a, b string) int { return cmp.Compare(kindOf(a), kindOf(b)) })
}

// kindOf is the kind of object that a remark is about.
func kindOf(remark string) string {
	kind, _, _ := strings.Cut(remark, " ")
	return kind
}
