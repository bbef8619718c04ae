package main

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// permissions are what a CSV asks for one ServiceAccount, as it is written there.
type permissions struct {
	ServiceAccountName string              `json:"serviceAccountName"`
	Rules              []rbacv1.PolicyRule `json:"rules"`
}

// nodeProxier are the rules of Kubernetes' own ClusterRole system:node-proxier, as of 1.36. A CSV cannot bind a role that is there already, so it
// repeats them. Older versions know fewer kinds, and a rule for an unknown kind does nothing.
var nodeProxier = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"endpoints", "services"}, Verbs: []string{"list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
	{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"servicecidrs"}, Verbs: []string{"list", "watch"}},
	{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list", "watch"}},
}

// rulesOf returns the rules of a Role or ClusterRole.
func rulesOf(role *unstructured.Unstructured) []rbacv1.PolicyRule {
	var typed rbacv1.ClusterRole // whose rules a Role has too
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(role.Object, &typed); err != nil {
		return nil
	}
	return typed.Rules
}

// csvPermissions sorts what the bindings grant by ServiceAccount into what a CSV asks for in its own namespace, and in the whole cluster. OLM
// makes Roles in no other namespace than the CSV's: what is granted in another one has to be asked for the whole cluster.
func csvPermissions(objects []*unstructured.Unstructured) (own, cluster []permissions, err error) {
	inOwn, inCluster := map[string][]rbacv1.PolicyRule{}, map[string][]rbacv1.PolicyRule{}
	bindings := append(ofKind(objects, "ClusterRoleBinding"), ofKind(objects, "RoleBinding")...)
	for _, o := range bindings {
		var binding rbacv1.RoleBinding // a ClusterRoleBinding's fields are the same
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &binding); err != nil {
			return nil, nil, fmt.Errorf("reading %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		rules, err := granted(objects, binding)
		if err != nil {
			return nil, nil, err
		}
		for _, s := range binding.Subjects {
			if s.Kind != rbacv1.ServiceAccountKind || s.Namespace != namespace {
				return nil, nil, fmt.Errorf("%s %s binds %s %s: a CSV asks for its own ServiceAccounts alone", o.GetKind(), o.GetName(), s.Kind, s.Name)
			}
			if binding.Namespace == namespace {
				inOwn[s.Name] = append(inOwn[s.Name], rules...)
			} else {
				inCluster[s.Name] = append(inCluster[s.Name], rules...)
			}
		}
	}
	return sorted(inOwn), sorted(inCluster), nil
}

// granted returns the rules of the role that a binding names.
func granted(objects []*unstructured.Unstructured, binding rbacv1.RoleBinding) ([]rbacv1.PolicyRule, error) {
	ref := binding.RoleRef
	for _, role := range ofKind(objects, ref.Kind) {
		if role.GetName() == ref.Name && role.GetNamespace() == binding.Namespace {
			return rulesOf(role), nil
		}
	}
	if ref.Name == "system:node-proxier" {
		return nodeProxier, nil
	}
	return nil, fmt.Errorf("the binding %s names %s %s, which config/ does not have", binding.Name, ref.Kind, ref.Name)
}

func sorted(byAccount map[string][]rbacv1.PolicyRule) []permissions {
	var all []permissions
	for account, rules := range byAccount {
		all = append(all, permissions{account, rules})
	}
	slices.SortFunc(all, func(a, b permissions) int {
		if a.ServiceAccountName < b.ServiceAccountName {
			return -1
		}
		return 1
	})
	return all
}

// bound says whether a role is granted by one of the bindings.
func bound(objects []*unstructured.Unstructured, role *unstructured.Unstructured) bool {
	for _, binding := range append(ofKind(objects, "ClusterRoleBinding"), ofKind(objects, "RoleBinding")...) {
		kind, _, _ := unstructured.NestedString(binding.Object, "roleRef", "kind")
		name, _, _ := unstructured.NestedString(binding.Object, "roleRef", "name")
		if kind == role.GetKind() && name == role.GetName() && (role.GetNamespace() == "" || role.GetNamespace() == binding.GetNamespace()) {
			return true
		}
	}
	return false
}
