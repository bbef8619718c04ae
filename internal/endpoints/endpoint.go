package endpoints

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The list's ConfigMap, in the manager's namespace, its key, and where pods have it.
const (
	ConfigMap = "lanyard-api-servers"
	// Key holds an endpoint on each line, in the order in which they are tried.
	Key = "endpoints"
	// MountPath is the folder of the pods' mount. It is optional: before the first pass of the first manager there is no list.
	MountPath = "/etc/lanyard/api-servers"
)

// maxEndpoints is how many endpoints a list has: kube-proxy's own server, seven control planes (etcd's advice), and the ClusterIP. Each that
// is dead costs whoever connects a second.
const maxEndpoints = 9

// Endpoint is where an API server listens.
type Endpoint struct {
	// Host is an IP address in its canonical form, or a DNS name.
	Host string
	// Port is the TCP port.
	Port uint16
}

func (e Endpoint) String() string { return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))) }

// ParseEndpoint reads host:port, with an IPv6 address in brackets. The error says what is wrong with it.
func ParseEndpoint(text string) (Endpoint, error) {
	host, digits, err := net.SplitHostPort(text)
	if err != nil {
		return Endpoint{}, fmt.Errorf("%q is no host:port", shorten(text))
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || port == 0 {
		return Endpoint{}, fmt.Errorf("%q has no port between 1 and 65535", shorten(text))
	}
	addr, err := netip.ParseAddr(host)
	switch {
	case err == nil && (addr.IsUnspecified() || addr.IsMulticast() || addr.Zone() != ""):
		// A zone names an interface of one node; the list is for all of them.
		return Endpoint{}, fmt.Errorf("%q has an address that no API server can be reached at", shorten(text))
	case err == nil:
		return Endpoint{Host: addr.Unmap().String(), Port: uint16(port)}, nil
	}
	name := strings.ToLower(host)
	if len(validation.IsDNS1123Subdomain(name)) > 0 || endsInNumber(name) {
		return Endpoint{}, fmt.Errorf("%q has neither an IP address nor a DNS name", shorten(text))
	}
	return Endpoint{Host: name, Port: uint16(port)}, nil
}

// endsInNumber catches mistyped addresses: no top-level domain is a number (RFC 3696, section 2).
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	return strings.Trim(last, "0123456789") == ""
}

// shorten keeps messages readable whatever is in the file.
func shorten(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Parse reads a list. Empty lines mean nothing; remarks speak of lines that are skipped. It never fails: who has edited the list by hand
// must not have cut anybody off.
func Parse(text string) (list []Endpoint, remarks []string) {
	number, surplus := 0, 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		e, err := ParseEndpoint(line)
		switch {
		case err != nil && len(remarks) < maxEndpoints:
			remarks = append(remarks, fmt.Sprintf("line %d: %v", number, err))
		case err != nil || slices.Contains(list, e):
		case len(list) == maxEndpoints:
			surplus++
		default:
			list = append(list, e)
		}
	}
	if surplus > 0 {
		remarks = append(remarks, fmt.Sprintf("%d endpoints after the first %d are left out", surplus, maxEndpoints))
	}
	return list, remarks
}

// Format writes a list as Parse reads it.
func Format(list []Endpoint) string {
	var text strings.Builder
	for _, e := range list {
		text.WriteString(e.String() + "\n")
	}
	return text.String()
}

// Order is in which order the endpoints of a list are tried: first the one that answered last, then as listed, and the in-cluster one, which
// needs kube-proxy, at the end, whether the list has it or not. That one is never preferred for having answered: a list that appears after
// the program's start should be used.
func Order(list []Endpoint, answered, inCluster Endpoint) []Endpoint {
	order := slices.DeleteFunc(slices.Clone(list), func(e Endpoint) bool { return e == inCluster })
	slices.SortStableFunc(order, func(a, b Endpoint) int {
		return cmp.Compare(rank(a, answered), rank(b, answered))
	})
	return append(order, inCluster)
}

func rank(e, first Endpoint) int {
	if e == first {
		return 0
	}
	return 1
}
