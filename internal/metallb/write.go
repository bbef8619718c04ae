package metallb

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// Write returns a ClusterNetworking with this spec as YAML, below the remarks as comments.
func Write(spec v1alpha1.ClusterNetworkingSpec, remarks []string) (string, error) {
	var text strings.Builder
	text.WriteString("# What MetalLB is told, as Lanyard is told it. Read what is said about it here before you apply it.\n")
	for _, r := range remarks {
		fmt.Fprintf(&text, "# - %s\n", r)
	}
	doc, err := yaml.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "ClusterNetworking", "metadata": map[string]any{"name": v1alpha1.ClusterNetworkingName}, "spec": spec,
	})
	if err != nil {
		return "", fmt.Errorf("writing the ClusterNetworking: %w", err)
	}
	text.Write(doc)
	return text.String(), nil
}
