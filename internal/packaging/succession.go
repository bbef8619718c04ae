package main

import (
	"errors"
	"fmt"
	"reflect"

	"sigs.k8s.io/yaml"
)

// version is what matters of a CSV when OLM upgrades from one to another.
type version struct {
	Metadata struct{ Name string }
	Spec     struct {
		Version string
		Install struct {
			Spec struct {
				Deployments []struct {
					Name string
					Spec struct{ Selector map[string]any }
				}
			}
		}
		CustomResourceDefinitions struct {
			Owned []struct{ Name, Kind, Version string }
		}
	}
}

func readVersion(csv string) (version, error) {
	var v version
	if err := yaml.Unmarshal([]byte(csv), &v); err != nil {
		return v, fmt.Errorf("reading a ClusterServiceVersion: %w", err)
	}
	return v, nil
}

// checkSuccession says what would break if OLM went from one CSV to another.
func checkSuccession(before, after string) error {
	old, err := readVersion(before)
	if err != nil {
		return err
	}
	next, err := readVersion(after)
	if err != nil {
		return err
	}
	return errors.Join(old.deploymentsLost(next), old.kindsLost(next))
}

// deploymentsLost compares Deployments. OLM updates one in place when it finds it by its name. It removes one that the new CSV does not have, and
// Kubernetes removes with it what it owns.
func (v version) deploymentsLost(next version) error {
	var all []error
	for _, d := range v.Spec.Install.Spec.Deployments {
		found := false
		for _, n := range next.Spec.Install.Spec.Deployments {
			if n.Name != d.Name {
				continue
			}
			found = true
			if !reflect.DeepEqual(d.Spec.Selector, n.Spec.Selector) {
				all = append(all, fmt.Errorf("the selector of Deployment %s differs between %s and %s: Kubernetes refuses that in a Deployment which is "+
					"there, so keep it", d.Name, v.Metadata.Name, next.Metadata.Name))
			}
		}
		if !found {
			all = append(all, fmt.Errorf("%s has the Deployment %s, and %s has not: OLM would remove it, and with it the DaemonSet that it owns, so that "+
				"no speaker answers for any address until new ones run; keep the name", v.Metadata.Name, d.Name, next.Metadata.Name))
		}
	}
	return errors.Join(all...)
}

// kindsLost compares the kinds that the CSVs own. Objects that users have written stay, but OLM takes their kind for nobody's.
func (v version) kindsLost(next version) error {
	var all []error
	for _, o := range v.Spec.CustomResourceDefinitions.Owned {
		found := false
		for _, n := range next.Spec.CustomResourceDefinitions.Owned {
			found = found || n == o
		}
		if !found {
			all = append(all, fmt.Errorf("%s owns %s of version %s, and %s does not: go on serving it", v.Metadata.Name, o.Kind, o.Version, next.Metadata.Name))
		}
	}
	return errors.Join(all...)
}
