package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AddressRange is a CIDR ("192.168.1.192/28") or a range, both ends included ("192.168.1.200-192.168.1.210"), of IPv4 or of IPv6
// ("fd00:192:168:1::200-fd00:192:168:1::210").
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=79
// +kubebuilder:validation:XValidation:rule="self.contains('-') ? isIP(self.substring(0, self.indexOf('-'))) && isIP(self.substring(self.indexOf('-') + 1)) : isCIDR(self)",messageExpression="'\"' + self + '\" is neither a CIDR nor a range of two addresses: write it like 192.168.1.192/28 or 192.168.1.200-192.168.1.210, without spaces'"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self) == cidr(self).masked()",messageExpression="'\"' + self + '\" has host bits set: write the network with its first address, or a range FIRST-LAST for a part of it'"
// +kubebuilder:validation:XValidation:rule="!self.contains('-') || self.substring(0, self.indexOf('-')).contains(':') == self.substring(self.indexOf('-') + 1).contains(':')",messageExpression="'\"' + self + '\" mixes IPv4 and IPv6: both ends of a range are of one family'"
type AddressRange string

// IPPool is a named set of addresses.
type IPPool struct {
	// Name identifies the pool in advertisements, status and annotations.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// Addresses are the ranges and CIDRs of the pool, every address of which can be given to a Service. They may not overlap,
	// within a pool or across pools.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Addresses []AddressRange `json:"addresses"`

	// Exclude are addresses, ranges and CIDRs of the pool that are given to nobody. A Service that has one keeps it.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Exclude []ExcludedRange `json:"exclude,omitempty"`

	// Allocation is Automatic to give the pool's addresses to every Service that it admits, or OnRequest to give them to those alone that ask for
	// the pool, or for one of its addresses, in an annotation.
	// +optional
	// +kubebuilder:default=Automatic
	Allocation IPPoolAllocation `json:"allocation,omitempty"`

	// Priority orders the pools that a Service can get its address from: the highest goes first, of equal ones the first in the list. Pools whose
	// allowedServices name the Service go before pools that are for everybody.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`

	// AllowedServices says which Services the pool admits. Omitted means every one. A Service that has one of the pool's addresses keeps it when
	// this changes.
	// +optional
	AllowedServices *AllowedServices `json:"allowedServices,omitempty"`

	// Reservations keep addresses for Services, which need not exist yet. Such a Service gets its address before any other, whether the pool
	// admits it or not.
	// +optional
	// +listType=map
	// +listMapKey=address
	// +kubebuilder:validation:MaxItems=256
	Reservations []Reservation `json:"reservations,omitempty"`

	// ReuseAfterSeconds is how long an address that a Service has given back is kept from other Services: clients and caches may still know it as
	// that Service's. A manager that starts anew knows of no such addresses.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	ReuseAfterSeconds int32 `json:"reuseAfterSeconds,omitempty"`
}

// ExcludedRange is an address, a range, both ends included, or a CIDR.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=79
// +kubebuilder:validation:XValidation:rule="self.contains('-') ? isIP(self.substring(0, self.indexOf('-'))) && isIP(self.substring(self.indexOf('-') + 1)) : isCIDR(self) || isIP(self)",messageExpression="'\"' + self + '\" is neither an address nor a range nor a CIDR: write it like 192.168.1.205, 192.168.1.205-192.168.1.207 or 192.168.1.192/28, without spaces'"
type ExcludedRange string

// IPPoolAllocation says who gets addresses of a pool.
//
// +kubebuilder:validation:Enum=Automatic;OnRequest
type IPPoolAllocation string

// The allocations.
const (
	AllocationAutomatic IPPoolAllocation = "Automatic"
	AllocationOnRequest IPPoolAllocation = "OnRequest"
)

// AllowedServices says which Services a pool admits: those in one of the namespaces, if any are named or selected, that the selector matches, if there
// is one. A selector that matches nothing closes the pool.
type AllowedServices struct {
	// Namespaces are namespaces by name.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`

	// NamespaceSelector selects further namespaces by their labels.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// Selector selects Services by their labels.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// Reservation keeps an address for a Service.
type Reservation struct {
	// Address is one of the pool's.
	// +required
	// +kubebuilder:validation:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="isIP(self)",messageExpression="'\"' + self + '\" is no address: write one, like 192.168.1.200'"
	Address string `json:"address"`

	// Service is whom it is for.
	// +required
	Service ServiceReference `json:"service"`
}

// ServiceReference names a Service.
type ServiceReference struct {
	// Namespace is the Service's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Name is the Service's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
}
