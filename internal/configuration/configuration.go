package configuration

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// Configuration is what addresses are allocated from and announced by. The manager writes it only from a spec that passed every
// check, so what is stored is always good: a spec that contradicts itself leaves the stored one in force.
//
//	ClusterNetworking.spec ──check──▶ Configuration ──ConfigMap──▶ allocator, speakers
type Configuration struct {
	// Generation is the generation of the ClusterNetworking that it was made from.
	Generation int64 `json:"generation"`
	// LoadBalancerClass is that of the Services that are ours; empty: those without one.
	LoadBalancerClass string `json:"loadBalancerClass,omitempty"`
	// IPPools are the pools that Services get addresses from.
	IPPools []v1alpha1.IPPool `json:"ipPools,omitempty"`
	// L2Advertisements say what is announced, and from where.
	L2Advertisements []v1alpha1.L2Advertisement `json:"l2Advertisements,omitempty"`
	// FailureDetection says what is done for Services when a node is lost. It is left out where nothing is, so that speakers which do not know the
	// field go on reading.
	FailureDetection v1alpha1.FailureDetectionSpec `json:"failureDetection,omitzero"`
	// KubeProxyMetricsAddress is the address and port at which speakers ask kube-proxy on their nodes. Empty means
	// v1alpha1.KubeProxyMetricsAddress; a manager leaves it out then, so that speakers which do not know the field go on reading.
	KubeProxyMetricsAddress string `json:"kubeProxyMetricsAddress,omitempty"`
}

// FromObject returns the configuration that a ClusterNetworking asks for. It checks nothing. Where kube-proxy is asked is no part of the
// object.
func FromObject(cnet *v1alpha1.ClusterNetworking) Configuration {
	c := Configuration{
		Generation:        cnet.Generation,
		LoadBalancerClass: cnet.Spec.LoadBalancerClass,
		IPPools:           slices.Clone(cnet.Spec.IPPools),
		L2Advertisements:  cnet.Spec.L2Advertisements,
	}
	for i := range c.IPPools { // what the API server fills in is left out too, for the same speakers
		if c.IPPools[i].Allocation == v1alpha1.AllocationAutomatic {
			c.IPPools[i].Allocation = ""
		}
	}
	if cnet.Spec.FailureDetection.MarkPodsNotReady == v1alpha1.MarkPodsNotReadyEnabled {
		c.FailureDetection = cnet.Spec.FailureDetection
	}
	return c
}

// FromConfigMap returns the configuration that the manager stored.
func FromConfigMap(cm *corev1.ConfigMap) (Configuration, error) {
	c, err := Decode(cm.Data[v1alpha1.ConfigurationKey])
	if err != nil {
		return Configuration{}, fmt.Errorf("reading ConfigMap %s/%s: %w", cm.Namespace, cm.Name, err)
	}
	return c, nil
}

// Encode returns the configuration as the YAML document that Decode reads.
func (c Configuration) Encode() (string, error) {
	doc, err := yaml.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encoding the configuration: %w", err)
	}
	return string(doc), nil
}

// Decode reads a configuration that Encode wrote. A field that it does not know is an error: it comes from a newer manager, and
// acting on half of a configuration is worse than keeping the one before.
func Decode(doc string) (Configuration, error) {
	var c Configuration
	if err := yaml.UnmarshalStrict([]byte(doc), &c); err != nil {
		return Configuration{}, fmt.Errorf("decoding the configuration: %w", err)
	}
	return c, nil
}
