package metallb

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Group is the API group of MetalLB's objects.
const Group = "metallb.io"

// Kinds are those of MetalLB's objects, with their resources: the two that are read, and those that have no equivalent.
var Kinds = map[string]string{
	"IPAddressPool": "ipaddresspools", "L2Advertisement": "l2advertisements", "BGPAdvertisement": "bgpadvertisements",
	"BGPPeer": "bgppeers", "BFDProfile": "bfdprofiles", "Community": "communities",
}

// ReadYAML reads the objects of MetalLB's from YAML documents, and lists in them, in their order. Others are left out.
func ReadYAML(text []byte) ([]unstructured.Unstructured, error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	var all []unstructured.Unstructured
	for document := 1; ; document++ {
		var content map[string]any
		err := decoder.Decode(&content)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading document %d: %w", document, err)
		}
		object := unstructured.Unstructured{Object: content}
		if object.IsList() {
			list, err := object.ToList()
			if err != nil {
				return nil, fmt.Errorf("reading the list in document %d: %w", document, err)
			}
			all = append(all, ours(list.Items)...)
			continue
		}
		all = append(all, ours([]unstructured.Unstructured{object})...)
	}
}

func ours(objects []unstructured.Unstructured) []unstructured.Unstructured {
	var all []unstructured.Unstructured
	for _, o := range objects {
		if _, known := Kinds[o.GetKind()]; known && o.GroupVersionKind().Group == Group {
			all = append(all, o)
		}
	}
	return all
}
