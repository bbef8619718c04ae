package laststate

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxAge is how old a state may be. An outage that somebody works on is over within a day. A node that was off for longer has missed so much
// that it had better wait for the API server: each address that was freed meanwhile could be somebody else's.
const MaxAge = 24 * time.Hour

// Origin is whose state it is.
type Origin struct {
	// Node is the node's name. Disks are cloned.
	Node string `json:"node"`
	// Cluster identifies the cluster. Nodes are taken out of one and into another under the same name.
	Cluster string `json:"cluster"`
}

// State is what a speaker decides from.
type State struct {
	Origin
	// AsOf is when it was last known to be what the API server says.
	AsOf metav1.Time `json:"asOf"`
	// Speakers are the nodes whose speakers were in the group, this one's not included: who starts anew and hears none of them is cut off.
	Speakers       []string                    `json:"speakers,omitempty"`
	Services       []corev1.Service            `json:"services,omitempty"`
	EndpointSlices []discoveryv1.EndpointSlice `json:"endpointSlices,omitempty"`
	Nodes          []corev1.Node               `json:"nodes,omitempty"`
	// Configurations are the ConfigMap with the configuration in force, or none.
	Configurations []corev1.ConfigMap `json:"configurations,omitempty"`
}

// Check says why a state is of no use to somebody at a time; nil when it is. A clock that was set back a little is no reason.
func (s State) Check(of Origin, now time.Time) error {
	switch age := now.Sub(s.AsOf.Time); {
	case s.Node != of.Node:
		return fmt.Errorf("it is node %q's, and this is %q", s.Node, of.Node)
	case s.Cluster != of.Cluster:
		return fmt.Errorf("it is another cluster's")
	case age > MaxAge:
		return fmt.Errorf("it is %s old, and after %s too much may have changed", age.Round(time.Minute), MaxAge)
	case age < -MaxAge:
		return fmt.Errorf("it is from %s, and the node's clock says %s: one of them is wrong", s.AsOf.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}
