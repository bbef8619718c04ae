package ipam

import (
	"fmt"
	"slices"
)

// Port is a port of a Service. Two Services that share an address have none in common.
type Port struct {
	Protocol string
	Number   uint16
}

func (p Port) String() string { return fmt.Sprintf("%s %d", p.Protocol, p.Number) }

// Sharing says with whom a Service shares an address.
type Sharing struct {
	// Key has to be the same for all that share an address; empty: it shares with nobody.
	Key   string
	Ports []Port
	// Backends are the pods that have to be on the node which answers: the selector, where externalTrafficPolicy is Local; empty where any node
	// will do. They have to be the same for all, as one node answers for all.
	Backends string
	// Namespaces are those besides its own with which it shares; "*" is every one. Both sides have to name the other.
	Namespaces []string
}

// allows says whether the Service agrees to share with one of the namespace.
func (s Sharing) allows(own, namespace string) bool {
	return own == namespace || slices.Contains(s.Namespaces, namespace) || slices.Contains(s.Namespaces, "*")
}

// obstacle says why two Services cannot share an address; empty when they can.
func obstacle(a, b *Request) string {
	switch {
	case a.Sharing.Key == "" && b.Sharing.Key == "":
		return ""
	case a.Sharing.Key != b.Sharing.Key:
		return "their sharing keys differ"
	case !a.Sharing.allows(a.namespace(), b.namespace()), !b.Sharing.allows(b.namespace(), a.namespace()):
		return "both have to name each other's namespace to share across namespaces"
	}
	return clash(a, b)
}

// clash says why two Services of one key cannot be served at one address.
func clash(a, b *Request) string {
	if a.Sharing.Backends != b.Sharing.Backends {
		return "with externalTrafficPolicy Local both need it, and the same selector"
	}
	for _, p := range a.Sharing.Ports {
		if slices.Contains(b.Sharing.Ports, p) {
			return "both have port " + p.String()
		}
	}
	return ""
}

// shares says whether a Service may come to another's address.
func shares(a, b *Request) bool { return a.Sharing.Key != "" && obstacle(a, b) == "" }

// staysWith says whether two Services that show the same address both keep it. Whose namespace they are in does not matter any more: MetalLB does not
// ask, and what it gave stays.
func staysWith(a, b *Request) bool {
	return a.Sharing.Key != "" && a.Sharing.Key == b.Sharing.Key && clash(a, b) == ""
}
