package main

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// rulesOf returns the rules of a Role or ClusterRole.
func rulesOf(role *unstructured.Unstructured) []rbacv1.PolicyRule {
	var typed rbacv1.ClusterRole // whose rules a Role has too
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(role.Object, &typed); err != nil {
		return nil
	}
	return typed.Rules
}
