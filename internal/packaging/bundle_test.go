package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// committedCSV is the CSV as far as the tests look at it.
type committedCSV struct {
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Spec struct {
		Install struct {
			Spec struct {
				Deployments []struct {
					Name string
					Spec map[string]any
				}
				Permissions, ClusterPermissions []permissions
			}
		}
		InstallModes []struct {
			Type      string
			Supported bool
		}
		CustomResourceDefinitions struct {
			Owned []struct {
				Name                               string
				SpecDescriptors, StatusDescriptors []descriptor
			}
		}
		RelatedImages []struct{ Name, Image string }
	}
}

func readCSV(t *testing.T) committedCSV {
	t.Helper()
	var csv committedCSV
	must(t, yaml.Unmarshal([]byte(committed(t, csvFile)), &csv))
	return csv
}

// TestTheBundleIsMadeFromConfig: what is committed is what `make bundle` makes.
func TestTheBundleIsMadeFromConfig(t *testing.T) {
	want, err := bundle(release{root: root, version: "0.1.0", image: developmentImage, channel: "candidate"})
	must(t, err)
	got := map[string]string{}
	folder := filepath.Join(root, "bundle")
	must(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(folder, path)
		got[name] = string(text)
		return err
	}))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("make bundle (-made +committed):\n%s", diff)
	}
}

// right is one thing that one ServiceAccount may do, in one namespace or in all.
type right struct{ account, where, verb, group, resource, name string }

// rights takes rules apart.
func rights(account, where string, rules []rbacv1.PolicyRule) map[right]bool {
	all := map[right]bool{}
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{"any"}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					for _, verb := range rule.Verbs {
						all[right{account, where, verb, group, resource, name}] = true
					}
				}
			}
		}
	}
	return all
}

// TestTheCSVAsksForConfigsRights: for no more and no less. What config/ grants in another namespace than Lanyard's, a CSV has to ask for everywhere.
func TestTheCSVAsksForConfigsRights(t *testing.T) {
	objects := configured(t)
	want := map[right]bool{}
	for _, binding := range append(ofKind(objects, "RoleBinding"), ofKind(objects, "ClusterRoleBinding")...) {
		where := "cluster"
		if binding.GetNamespace() == namespace {
			where = "own namespace"
		}
		kind, _, _ := unstructured.NestedString(binding.Object, "roleRef", "kind")
		name, _, _ := unstructured.NestedString(binding.Object, "roleRef", "name")
		subjects, _, _ := unstructured.NestedSlice(binding.Object, "subjects")
		rules := nodeProxier
		for _, role := range ofKind(objects, kind) {
			if role.GetName() == name && role.GetNamespace() == binding.GetNamespace() {
				rules = rulesOf(role)
			}
		}
		for _, s := range subjects {
			for r := range rights(s.(map[string]any)["name"].(string), where, rules) {
				want[r] = true
			}
		}
	}
	got := map[right]bool{}
	install := readCSV(t).Spec.Install.Spec
	for where, all := range map[string][]permissions{"own namespace": install.Permissions, "cluster": install.ClusterPermissions} {
		for _, p := range all {
			for r := range rights(p.ServiceAccountName, where, p.Rules) {
				got[r] = true
			}
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(right{})); diff != "" {
		t.Errorf("rights (-config +CSV):\n%s", diff)
	}
	if len(got) == 0 {
		t.Error("there are none")
	}
}

// TestTheCSVHasConfigsDeployment: the same manager, whoever installs it.
func TestTheCSVHasConfigsDeployment(t *testing.T) {
	manager, err := only(configured(t), "Deployment")
	must(t, err)
	got := readCSV(t).Spec.Install.Spec.Deployments
	if len(got) != 1 || got[0].Name != deployment {
		t.Fatalf("the CSV has the Deployments %v", got)
	}
	want, err := json.Marshal(manager.Object["spec"])
	must(t, err)
	have, err := json.Marshal(got[0].Spec)
	must(t, err)
	if diff := cmp.Diff(string(want), string(have)); diff != "" {
		t.Errorf("Deployment (-config +CSV):\n%s", diff)
	}
}

// TestTheBundleHasConfigsKinds: with every field and rule.
func TestTheBundleHasConfigsKinds(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "config/crd/bases/*.yaml"))
	must(t, err)
	if len(files) == 0 {
		t.Fatal("config/crd/bases is empty")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		want, err := decode(string(text))
		must(t, err)
		got, err := decode(committed(t, "manifests/"+want.GetName()+"_customresourcedefinition.yaml"))
		must(t, err)
		if diff := cmp.Diff(want.Object, got.Object); diff != "" {
			t.Errorf("%s (-config +bundle):\n%s", want.GetName(), diff)
		}
	}
}

// TestEveryImageIsListed: who mirrors what the bundle lists can install it without a way to the registry.
func TestEveryImageIsListed(t *testing.T) {
	csv := readCSV(t)
	listed := map[string]bool{}
	for _, i := range csv.Spec.RelatedImages {
		listed[i.Image] = true
	}
	used := map[string]bool{csv.Metadata.Annotations["containerImage"]: true}
	for _, d := range csv.Spec.Install.Spec.Deployments {
		for _, part := range []string{"containers", "initContainers"} {
			containers, _, _ := unstructured.NestedSlice(map[string]any{"spec": d.Spec}, "spec", "template", "spec", part)
			for _, c := range containers {
				used[c.(map[string]any)["image"].(string)] = true
			}
		}
	}
	if diff := cmp.Diff(listed, used); diff != "" {
		t.Errorf("images (-listed +used):\n%s", diff)
	}
}

func TestInstallModes(t *testing.T) {
	got := map[string]bool{}
	for _, m := range readCSV(t).Spec.InstallModes {
		got[m.Type] = m.Supported
	}
	want := map[string]bool{"OwnNamespace": false, "SingleNamespace": false, "MultiNamespace": false, "AllNamespaces": true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("install modes (-want +got):\n%s", diff)
	}
}

// TestTheSuggestedNamespaceLetsSpeakersStart: it is the one of config/, with its labels.
func TestTheSuggestedNamespaceLetsSpeakersStart(t *testing.T) {
	ns, err := only(configured(t), "Namespace")
	must(t, err)
	got, err := decode(readCSV(t).Metadata.Annotations["operatorframework.io/suggested-namespace-template"])
	must(t, err)
	if diff := cmp.Diff(ns.Object, got.Object); diff != "" {
		t.Errorf("namespace (-config +CSV):\n%s", diff)
	}
	if got.GetLabels()["pod-security.kubernetes.io/enforce"] != "privileged" {
		t.Errorf("its labels are %v", got.GetLabels())
	}
}

// TestEveryFieldHasADescriptor, with a description, and no descriptor is without a field.
func TestEveryFieldHasADescriptor(t *testing.T) {
	for _, owned := range readCSV(t).Spec.CustomResourceDefinitions.Owned {
		var crd map[string]any
		must(t, yaml.Unmarshal([]byte(committed(t, "manifests/"+owned.Name+"_customresourcedefinition.yaml")), &crd))
		versions, _, _ := unstructured.NestedSlice(crd, "spec", "versions")
		schema, _, _ := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties")
		for part, descriptors := range map[string][]descriptor{"spec": owned.SpecDescriptors, "status": owned.StatusDescriptors} {
			want, got := map[string]bool{}, map[string]bool{}
			if top, ok := schema[part].(map[string]any); ok {
				paths(want, "", top)
			}
			for _, d := range descriptors {
				got[d.Path] = true
				if d.DisplayName == "" || d.Description == "" {
					t.Errorf("the descriptor of %s %s.%s says nothing: %+v", owned.Name, part, d.Path, d)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s of %s (-fields +descriptors):\n%s", part, owned.Name, diff)
			}
		}
	}
}

func paths(all map[string]bool, prefix string, schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	for name, each := range properties {
		inner := each.(map[string]any)
		all[prefix+name] = true
		paths(all, prefix+name+".", inner)
		if items, ok := inner["items"].(map[string]any); ok {
			paths(all, prefix+name+"[0].", items)
		}
	}
}

func TestDisplayName(t *testing.T) {
	for field, want := range map[string]string{
		"ipPools": "IP Pools", "l2Advertisements": "L2 Advertisements", "strictARP": "Strict ARP", "mac": "MAC", "allocatedIPs": "Allocated IPs",
		"excludeCIDRs": "Exclude CIDRs", "tcpBeLiberal": "TCP Be Liberal", "allocatedIPsOmitted": "Allocated IPs Omitted", "name": "Name",
		"clusterCIDR": "Cluster CIDR", "looseARP": "Loose ARP",
	} {
		if got := displayName(field); got != want {
			t.Errorf("%s is called %q, want %q", field, got, want)
		}
	}
}

// TestExamplesAreAccepted: the API server takes each example as it is, and drops none of its fields.
func TestExamplesAreAccepted(t *testing.T) {
	var examples []map[string]any
	must(t, json.Unmarshal([]byte(readCSV(t).Metadata.Annotations["alm-examples"]), &examples))
	samples, err := readSamples(filepath.Join(root, "config/samples"))
	must(t, err)
	if diff := cmp.Diff(samples, examples); diff != "" {
		t.Errorf("examples (-config/samples +CSV):\n%s", diff)
	}
	for i, example := range examples {
		if errs := refusals(t, example); len(errs) > 0 {
			t.Errorf("example %d is refused: %v", i, errs)
		}
	}
	bad := map[string]any{"apiVersion": "networking.lanyard.dev/v1alpha1", "kind": "ClusterNetworking", "metadata": map[string]any{"name": "other"},
		"spec": map[string]any{"ipPool": []any{}, "managementState": "Off"}}
	got := refusals(t, bad)
	for _, want := range []string{"spec.ipPool is no field", "spec.managementState: Unsupported value", `its name is "cluster"`} {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("the check does not find %q, only %v", want, got)
		}
	}
}

// refusals are what the API server would say against an object: unknown fields, the schema, and the rules in CEL.
func refusals(t *testing.T, object map[string]any) []string {
	t.Helper()
	file := fmt.Sprintf("manifests/%ss.networking.lanyard.dev_customresourcedefinition.yaml", strings.ToLower(object["kind"].(string)))
	var crd apiextensionsv1.CustomResourceDefinition
	must(t, yaml.Unmarshal([]byte(committed(t, file)), &crd))
	var props apiextensions.JSONSchemaProps
	must(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &props, nil))
	schema, err := structural.NewStructural(&props)
	must(t, err)
	validator, _, err := validation.NewSchemaValidator(&props)
	must(t, err)
	var all []string
	for _, e := range validation.ValidateCustomResource(nil, object, validator) {
		all = append(all, e.Error())
	}
	rules := cel.NewValidator(schema, true, celconfig.PerCallLimit)
	errs, _ := rules.Validate(t.Context(), field.NewPath(""), schema, object, nil, celconfig.RuntimeCELCostBudget)
	for _, e := range errs {
		all = append(all, e.Error())
	}
	copied := (&unstructured.Unstructured{Object: object}).DeepCopy().Object
	for _, path := range pruning.PruneWithOptions(copied, schema, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		all = append(all, path+" is no field")
	}
	return all
}

// TestTheBundleSaysTheSameOfItselfEverywhere: metadata, image and project.
func TestTheBundleSaysTheSameOfItselfEverywhere(t *testing.T) {
	var metadata struct{ Annotations map[string]string }
	must(t, yaml.Unmarshal([]byte(committed(t, "metadata/annotations.yaml")), &metadata))
	labels := map[string]string{}
	for line := range strings.Lines(committed(t, "bundle.Dockerfile")) {
		if label, ok := strings.CutPrefix(strings.TrimSpace(line), "LABEL "); ok {
			name, value, _ := strings.Cut(label, "=")
			labels[name] = value
		}
	}
	if diff := cmp.Diff(metadata.Annotations, labels); diff != "" {
		t.Errorf("labels (-annotations.yaml +bundle.Dockerfile):\n%s", diff)
	}
	text, err := os.ReadFile(filepath.Join(root, "PROJECT"))
	must(t, err)
	var project struct{ ProjectName string }
	must(t, yaml.Unmarshal(text, &project))
	if got := labels["operators.operatorframework.io.bundle.package.v1"]; got != project.ProjectName {
		t.Errorf("the package is called %q, the project %q", got, project.ProjectName)
	}
}
