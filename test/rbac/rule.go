package rbac

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Rule is what an account may do by one rule of a role.
type Rule struct {
	// Account is the ServiceAccount's name; empty where a role is bound to none, but is for people.
	Account string
	// Namespace is where it holds; empty: in the whole cluster.
	Namespace string
	// Role is the role that it is of.
	Role string
	rbacv1.PolicyRule
}

// What says what it allows: verbs, and the resources with their group and, in brackets, their names.
func (r Rule) What() string {
	var on []string
	for _, group := range r.APIGroups {
		for _, resource := range r.Resources {
			if group != "" {
				resource = group + "/" + resource
			}
			on = append(on, resource)
		}
	}
	text := strings.Join(r.Verbs, ", ") + ": " + strings.Join(append(on, r.NonResourceURLs...), ", ")
	if len(r.ResourceNames) > 0 {
		text += " [" + strings.Join(r.ResourceNames, ", ") + "]"
	}
	return text
}

// Single returns a rule's permissions one by one, each as text: "get nodes", "get apps/daemonsets kube-proxy", "get /metrics".
func (r Rule) Single() []string {
	names := r.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var all []string
	for _, verb := range r.Verbs {
		for _, url := range r.NonResourceURLs {
			all = append(all, verb+" "+url)
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, name := range names {
					all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", verb, strings.TrimPrefix(group+"/"+resource, "/"), name)))
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

// roleKey names a role.
type roleKey struct{ namespace, name string }

// Read returns the rules of every role in manifests, by account and place: those of a role that is bound to several accounts once for each. The roles
// of Kubernetes itself, which manifests bind and do not hold, have no rules here.
func Read(manifests []byte) ([]Rule, error) {
	roles := map[roleKey][]rbacv1.PolicyRule{}
	var (
		bindings []rbacv1.RoleBinding
		bound    = map[roleKey]bool{}
		all      []Rule
	)
	err := each(manifests, func(object runtime.Object) {
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			roles[roleKey{"", o.Name}] = o.Rules
		case *rbacv1.Role:
			roles[roleKey{o.Namespace, o.Name}] = o.Rules
		case *rbacv1.ClusterRoleBinding:
			bindings = append(bindings, rbacv1.RoleBinding{Subjects: o.Subjects, RoleRef: o.RoleRef})
		case *rbacv1.RoleBinding:
			bindings = append(bindings, *o)
		}
	})
	if err != nil {
		return nil, err
	}
	for _, b := range bindings {
		key := roleKey{"", b.RoleRef.Name}
		if b.RoleRef.Kind == "Role" {
			key.namespace = b.Namespace
		}
		bound[key] = true
		for _, s := range b.Subjects {
			for _, rule := range roles[key] {
				all = append(all, Rule{Account: s.Name, Namespace: b.Namespace, Role: b.RoleRef.Name, PolicyRule: rule})
			}
		}
	}
	for key, rules := range roles {
		for _, rule := range rules {
			if !bound[key] {
				all = append(all, Rule{Namespace: key.namespace, Role: key.name, PolicyRule: rule})
			}
		}
	}
	slices.SortFunc(all, func(a, b Rule) int { return strings.Compare(a.sortKey(), b.sortKey()) })
	return all, nil
}

func (r Rule) sortKey() string {
	return r.Account + "\x00" + r.Namespace + "\x00" + r.Role + "\x00" + r.What()
}

// each calls a function for each object of RBAC in manifests.
func each(manifests []byte, do func(runtime.Object)) error {
	scheme := runtime.NewScheme()
	if err := rbacv1.AddToScheme(scheme); err != nil {
		return fmt.Errorf("registering the kinds of RBAC: %w", err)
	}
	decoder := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(manifests)))
	defer documents.Close() //nolint:errcheck // it reads from memory
	buffer := make([]byte, len(manifests)+1)
	for {
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("splitting manifests: %w", err)
		}
		object, _, err := decoder.Decode(bytes.Clone(buffer[:n]), nil, nil)
		switch {
		case runtime.IsNotRegisteredError(err) || runtime.IsMissingKind(err): // some other kind, or a document of comments
		case err != nil:
			return fmt.Errorf("reading a manifest: %w", err)
		default:
			do(object)
		}
	}
}
