package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const (
	packageName = "lanyard"
	csvKind     = "ClusterServiceVersion"
	csvFile     = "manifests/lanyard.clusterserviceversion.yaml"
)

// inTheCSV are the kinds whose objects a ClusterServiceVersion holds or makes needless: the namespace is the one that it suggests.
var inTheCSV = []string{csvKind, "Deployment", "Namespace", "Role", "RoleBinding", "ClusterRoleBinding", "ServiceAccount"}

// notForOLM are kinds that a bundle must not hold: who wants their objects applies them from config/.
var notForOLM = []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}

// beside are the kinds of objects that stand in a bundle beside the CSV.
var beside = []string{"CustomResourceDefinition", "ClusterRole", "ConfigMap", "Service", "NetworkPolicy", "PodDisruptionBudget", "PriorityClass",
	"PrometheusRule", "ServiceMonitor", "PodMonitor"}

// bundle returns a bundle's files by their paths.
func bundle(r release) (map[string]string, error) {
	objects, err := build(filepath.Join(r.root, "config/manifests"), r.image)
	if err != nil {
		return nil, err
	}
	icon, err := os.ReadFile(filepath.Join(r.root, "config/manifests/icon.svg"))
	if err != nil {
		return nil, fmt.Errorf("reading the icon: %w", err)
	}
	samples, err := readSamples(filepath.Join(r.root, "config/samples"))
	if err != nil {
		return nil, err
	}
	csv, err := fillCSV(r, objects, icon, samples)
	if err != nil {
		return nil, fmt.Errorf("making the ClusterServiceVersion: %w", err)
	}
	files := map[string]string{
		"metadata/annotations.yaml": annotationsFile(r),
		"bundle.Dockerfile":         dockerfile(r),
	}
	if files[csvFile], err = encode(csv); err != nil {
		return nil, err
	}
	return files, addObjects(files, objects)
}

// addObjects writes down the objects that stand beside the CSV, each in a file of its own.
func addObjects(files map[string]string, objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		path := fmt.Sprintf("manifests/%s_%s.yaml", o.GetName(), strings.ToLower(o.GetKind()))
		switch kind := o.GetKind(); {
		case kind == "Configuration" && o.GroupVersionKind().Group == "scorecard.operatorframework.io":
			path = "tests/scorecard/config.yaml"
		case slices.Contains(inTheCSV, kind), slices.Contains(notForOLM, kind), kind == "ClusterRole" && bound(objects, o):
			continue
		case !slices.Contains(beside, kind):
			return fmt.Errorf("a bundle cannot hold %s %s: say what becomes of this kind", kind, o.GetName())
		}
		o = o.DeepCopy()
		o.SetNamespace("") // OLM puts it into its own
		text, err := encode(o.Object)
		if err != nil {
			return err
		}
		files[path] = text
	}
	return nil
}

// readSamples returns the objects of the samples, the tutorial's first.
func readSamples(folder string) ([]map[string]any, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var samples []map[string]any
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading a sample: %w", err)
		}
		var sample map[string]any
		if err := yaml.Unmarshal(text, &sample); err != nil {
			return nil, fmt.Errorf("reading the sample %s: %w", file, err)
		}
		if filepath.Base(file) == "tutorial.yaml" {
			samples = slices.Insert(samples, 0, sample)
		} else {
			samples = append(samples, sample)
		}
	}
	return samples, nil
}

// fillCSV adds to the CSV of config/manifests what is known from elsewhere.
func fillCSV(r release, objects []*unstructured.Unstructured, icon []byte, samples []map[string]any) (map[string]any, error) {
	csv, err := only(objects, csvKind)
	if err != nil {
		return nil, err
	}
	csv = csv.DeepCopy()
	csv.SetName(packageName + ".v" + r.version)
	if err := annotateCSV(csv, r, objects, samples); err != nil {
		return nil, err
	}
	install, err := installOf(objects)
	if err != nil {
		return nil, err
	}
	kinds, _, err := unstructured.NestedMap(csv.Object, "spec", "customresourcedefinitions")
	if err != nil {
		return nil, err
	}
	if err := describeKinds(kinds, objects); err != nil {
		return nil, err
	}
	for field, value := range map[string]any{
		"version":                   r.version,
		"icon":                      []map[string]string{{"base64data": base64.StdEncoding.EncodeToString(icon), "mediatype": "image/svg+xml"}},
		"install":                   map[string]any{"strategy": "deployment", "spec": install},
		"customresourcedefinitions": kinds,
		"relatedImages":             []map[string]string{{"name": "lanyard", "image": r.image}},
	} {
		csv.Object["spec"].(map[string]any)[field] = value
	}
	return csv.Object, nil
}

// annotateCSV adds the annotations that depend on the release.
func annotateCSV(csv *unstructured.Unstructured, r release, objects []*unstructured.Unstructured, samples []map[string]any) error {
	examples, err := json.MarshalIndent(samples, "", "  ")
	if err != nil {
		return err
	}
	ns, err := only(objects, "Namespace")
	if err != nil {
		return err
	}
	template, err := json.Marshal(ns.Object)
	if err != nil {
		return err
	}
	annotations := csv.GetAnnotations()
	annotations["alm-examples"] = string(examples)
	annotations["containerImage"] = r.image
	annotations["operatorframework.io/suggested-namespace"] = namespace
	annotations["operatorframework.io/suggested-namespace-template"] = string(template)
	csv.SetAnnotations(annotations)
	return nil
}

// installOf returns what OLM makes besides the CSV: the Deployment, and the rights.
func installOf(objects []*unstructured.Unstructured) (map[string]any, error) {
	manager, err := only(objects, "Deployment")
	if err != nil {
		return nil, err
	}
	own, cluster, err := csvPermissions(objects)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"deployments":        []map[string]any{{"name": manager.GetName(), "label": manager.GetLabels(), "spec": manager.Object["spec"]}},
		"permissions":        own,
		"clusterPermissions": cluster,
	}, nil
}

// describeKinds adds descriptors to the kinds that the CSV owns.
func describeKinds(kinds map[string]any, objects []*unstructured.Unstructured) error {
	owned, ok := kinds["owned"].([]any)
	crds := ofKind(objects, "CustomResourceDefinition")
	if !ok || len(owned) != len(crds) {
		return fmt.Errorf("it owns %d kinds of %d", len(owned), len(crds))
	}
	for _, each := range owned {
		kind, ok := each.(map[string]any)
		if !ok {
			return errors.New("a kind that it owns is no object")
		}
		place := slices.IndexFunc(crds, func(o *unstructured.Unstructured) bool { return o.GetName() == kind["name"] })
		if place < 0 {
			return fmt.Errorf("there is no CRD %v", kind["name"])
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(crds[place].Object, &crd); err != nil {
			return fmt.Errorf("reading the CRD %s: %w", crds[place].GetName(), err)
		}
		if err := describeKind(kind, &crd); err != nil {
			return err
		}
	}
	return nil
}

// bundleLabels are what the bundle says of itself, in its metadata and on its image, in the order in which they are written.
func bundleLabels(r release) [][2]string {
	const prefix = "operators.operatorframework.io."
	return [][2]string{
		{prefix + "bundle.mediatype.v1", "registry+v1"},
		{prefix + "bundle.manifests.v1", "manifests/"},
		{prefix + "bundle.metadata.v1", "metadata/"},
		{prefix + "bundle.package.v1", packageName},
		{prefix + "bundle.channels.v1", r.channel},
		{prefix + "bundle.channel.default.v1", r.channel},
		{prefix + "metrics.project_layout", "go.kubebuilder.io/v4"},
		{prefix + "test.mediatype.v1", "scorecard+v1"},
		{prefix + "test.config.v1", "tests/scorecard/"},
	}
}

func annotationsFile(r release) string {
	var b strings.Builder
	b.WriteString("annotations:\n")
	for _, l := range bundleLabels(r) {
		fmt.Fprintf(&b, "  %s: %s\n", l[0], l[1])
	}
	return b.String()
}

func dockerfile(r release) string {
	var b strings.Builder
	b.WriteString("# The bundle as an image: docker build -f bundle/bundle.Dockerfile bundle\nFROM scratch\n\n")
	for _, l := range bundleLabels(r) {
		fmt.Fprintf(&b, "LABEL %s=%s\n", l[0], l[1])
	}
	b.WriteString("\nCOPY manifests /manifests/\nCOPY metadata /metadata/\nCOPY tests/scorecard /tests/scorecard/\n")
	return b.String()
}

// writeBundle makes a bundle's folder anew. One that is there already is what is upgraded: nothing is written that OLM could not upgrade it to.
func writeBundle(r release, folder string) error {
	files, err := bundle(r)
	if err != nil {
		return err
	}
	before, err := os.ReadFile(filepath.Join(folder, csvFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading the bundle that is there: %w", err)
	}
	if err == nil {
		if err := checkSuccession(string(before), files[csvFile]); err != nil {
			return err
		}
	}
	for _, part := range []string{"manifests", "metadata", "tests"} { // whose files are all made here
		if err := os.RemoveAll(filepath.Join(folder, part)); err != nil {
			return fmt.Errorf("removing the bundle that is there: %w", err)
		}
	}
	return writeFiles(folder, files)
}

func writeFiles(folder string, files map[string]string) error {
	for name, text := range files {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("making a folder: %w", err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing a file: %w", err)
		}
	}
	return nil
}
