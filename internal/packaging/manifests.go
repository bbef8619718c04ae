package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	// namespace is the one that config/ names, in place of which charts have the release's and OLM its own.
	namespace = "lanyard-system"
	// deployment is the manager's. OLM updates a Deployment in place as long as it keeps its name, and removes the old one with all that it owns
	// when it does not: the speakers among it.
	deployment = "lanyard-manager"
	// developmentImage is what config/ names.
	developmentImage = "lanyard:dev"
)

// build returns what `kustomize build` makes of a folder, in its order, with the image put in.
func build(folder, image string) ([]*unstructured.Unstructured, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, fmt.Errorf("building %s: %w", folder, err)
	}
	var objects []*unstructured.Unstructured
	for _, resource := range built.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			return nil, fmt.Errorf("writing %s of %s: %w", resource.CurId(), folder, err)
		}
		object, err := decode(strings.ReplaceAll(string(text), "image: "+developmentImage, "image: "+image))
		if err != nil {
			return nil, fmt.Errorf("reading %s of %s: %w", resource.CurId(), folder, err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

func decode(text string) (*unstructured.Unstructured, error) {
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	return object, object.UnmarshalJSON(asJSON)
}

// encode returns an object as YAML, its keys sorted: the same object is always the same text.
func encode(object map[string]any) (string, error) {
	text, err := yaml.Marshal(object)
	return string(text), err
}

// ofKind returns the objects of a kind.
func ofKind(objects []*unstructured.Unstructured, kind string) []*unstructured.Unstructured {
	var some []*unstructured.Unstructured
	for _, o := range objects {
		if o.GetKind() == kind {
			some = append(some, o)
		}
	}
	return some
}

// only returns the one object of a kind.
func only(objects []*unstructured.Unstructured, kind string) (*unstructured.Unstructured, error) {
	some := ofKind(objects, kind)
	if len(some) != 1 {
		return nil, fmt.Errorf("%d objects are of kind %s, not 1", len(some), kind)
	}
	return some[0], nil
}
