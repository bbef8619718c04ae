package controllers

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/conditions"
	"github.com/lanyard-dev/lanyard/internal/configuration"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// clusterNetworking returns the object; nil when there is none.
func clusterNetworking(ctx context.Context, c client.Reader) (*v1alpha1.ClusterNetworking, error) {
	var cnet v1alpha1.ClusterNetworking
	err := c.Get(ctx, singleton.NamespacedName, &cnet)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ClusterNetworking %q: %w", singleton.Name, err)
	}
	return &cnet, nil
}

// configurationInForce returns the configuration that addresses are allocated from and announced by; nil when there is none.
func configurationInForce(ctx context.Context, c client.Reader, namespace string) (*configuration.Configuration, error) {
	var cm corev1.ConfigMap
	err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: v1alpha1.ConfigurationConfigMap}, &cm)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the configuration in force: %w", err)
	}
	inForce, err := configuration.FromConfigMap(&cm)
	if err != nil {
		return nil, fmt.Errorf("%w (delete it, and it is made anew from the spec)", err)
	}
	return &inForce, nil
}

// check returns what is wrong in the spec beyond what the CRD's own rules can say.
func check(spec v1alpha1.ClusterNetworkingSpec) []conditions.Problem {
	_, poolProblems := ipam.ParsePools(poolTexts(spec.IPPools))
	var problems []conditions.Problem
	for _, p := range poolProblems {
		problems = append(problems, conditions.Problem{
			Field:   fmt.Sprintf("spec.ipPools[%d].%s[%d]", p.Pool, p.Field, p.Index),
			Message: p.Message,
		})
	}
	for i := range spec.IPPools {
		if _, problem := admissionOf(&spec.IPPools[i]); problem != nil {
			problems = append(problems, conditions.Problem{Field: fmt.Sprintf("spec.ipPools[%d].%s", i, problem.Field), Message: problem.Message})
		}
	}
	names := make([]string, 0, len(spec.IPPools))
	for _, p := range spec.IPPools {
		names = append(names, p.Name)
	}
	for i, ad := range spec.L2Advertisements {
		for j, name := range ad.IPPools {
			if !slices.Contains(names, name) {
				remedy := "add it to spec.ipPools, which is empty"
				if len(names) > 0 {
					remedy = fmt.Sprintf("name one of spec.ipPools (%s)", strings.Join(names, ", "))
				}
				problems = append(problems, conditions.Problem{
					Field:   fmt.Sprintf("spec.l2Advertisements[%d].ipPools[%d]", i, j),
					Message: fmt.Sprintf("there is no pool %q: %s, or leave ipPools empty for every pool", name, remedy),
				})
			}
		}
		problems = append(problems, checkSelectors(i, ad)...)
	}
	return problems
}

// checkSelectors reads the selectors of an advertisement as the speakers will.
func checkSelectors(index int, ad v1alpha1.L2Advertisement) []conditions.Problem {
	var problems []conditions.Problem
	if _, err := metav1.LabelSelectorAsSelector(ad.NodeSelector); err != nil {
		problems = append(problems, conditions.Problem{
			Field:   fmt.Sprintf("spec.l2Advertisements[%d].nodeSelector", index),
			Message: fmt.Sprintf("%v: mend the label or the operator, or leave nodeSelector out for every node", err),
		})
	}
	for j, glob := range ad.Interfaces {
		if _, err := path.Match(glob, ""); err != nil {
			problems = append(problems, conditions.Problem{
				Field:   fmt.Sprintf("spec.l2Advertisements[%d].interfaces[%d]", index, j),
				Message: fmt.Sprintf("%q is no pattern: write a name (eth0), or a glob with * and ? (bond*)", glob),
			})
		}
	}
	return problems
}
