package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const root = "../.."

func configured(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects, err := build(filepath.Join(root, "config/default"), developmentImage)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// rendered returns what Helm would apply, and the notes that it would show.
func rendered(t *testing.T, values map[string]any) (objects []*unstructured.Unstructured, notes string) {
	t.Helper()
	chart, err := loader.Load(filepath.Join(root, "dist/chart"))
	if err != nil {
		t.Fatal(err)
	}
	release := chartutil.ReleaseOptions{Name: "lanyard", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			notes = text
			continue
		}
		for _, document := range documents(t, text) {
			if document.GetAnnotations()["helm.sh/hook"] == "" { // hooks are no part of what is installed
				objects = append(objects, document)
			}
		}
	}
	return objects, notes
}

// documents returns the objects of a file.
func documents(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(text, "\n---\n") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		object, err := decode(document)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		objects = append(objects, object)
	}
	return objects
}

// plain returns objects by their names, without what Helm marks its own by.
func plain(objects []*unstructured.Unstructured) map[string]map[string]any {
	byName := map[string]map[string]any{}
	for _, o := range objects {
		o = o.DeepCopy()
		labels, annotations := o.GetLabels(), o.GetAnnotations()
		for _, label := range []string{"app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "app.kubernetes.io/version", "helm.sh/chart"} {
			delete(labels, label)
		}
		delete(annotations, "helm.sh/resource-policy")
		if len(labels) == 0 {
			labels = nil
		}
		if len(annotations) == 0 {
			annotations = nil
		}
		o.SetLabels(labels)
		o.SetAnnotations(annotations)
		byName[identity(o)] = o.Object
	}
	return byName
}

func identity(o *unstructured.Unstructured) string {
	return strings.Join([]string{o.GetKind(), o.GetNamespace(), o.GetName()}, " ")
}

// TestEveryWayInstallsTheSame: one YAML, kustomize and Helm. The chart alone lacks the namespace, which Helm has to find there.
func TestEveryWayInstallsTheSame(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "dist/install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := plain(configured(t))
	if diff := cmp.Diff(want, plain(documents(t, string(text)))); diff != "" {
		t.Errorf("dist/install.yaml differs from config/default: make build-installer (-config +install.yaml):\n%s", diff)
	}
	delete(want, "Namespace  "+namespace)
	objects, _ := rendered(t, nil)
	if diff := cmp.Diff(want, plain(objects)); diff != "" {
		t.Errorf("dist/chart differs from config/default: make chart (-config +chart):\n%s", diff)
	}
}

// TestTheChartIsMadeFromConfig: what is committed is what `make chart` makes.
func TestTheChartIsMadeFromConfig(t *testing.T) {
	want, err := chartTemplates(configured(t))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "dist/chart/templates/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(text), generatedMark) {
			got[filepath.Base(file)] = string(text)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("make chart (-made +committed):\n%s", diff)
	}
}

func TestHelmLintFindsNothing(t *testing.T) {
	var found []string
	for _, m := range lint.AllWithKubeVersion(filepath.Join(root, "dist/chart"), nil, namespace, &chartutil.DefaultCapabilities.KubeVersion).Messages {
		if m.Severity > support.InfoSev {
			found = append(found, m.Error())
		}
	}
	if diff := cmp.Diff([]string(nil), found); diff != "" {
		t.Errorf("helm lint (-want +got):\n%s", diff)
	}
}

// TestValues: each value changes what it names, and nothing else.
func TestValues(t *testing.T) {
	pod := []string{"spec", "template", "spec"}
	container := func(field string, value any) func(d map[string]any) {
		return func(d map[string]any) {
			containers, _, _ := unstructured.NestedSlice(d, append(pod, "containers")...)
			containers[0].(map[string]any)[field] = value
			must(t, unstructured.SetNestedSlice(d, containers, append(pod, "containers")...))
		}
	}
	set := func(value any, path ...string) func(d map[string]any) {
		return func(d map[string]any) { must(t, unstructured.SetNestedField(d, value, path...)) }
	}
	inPod := func(field string, value any) func(d map[string]any) {
		return set(value, append(slices.Clone(pod), field)...)
	}
	const servers = "--api-servers-file=/etc/lanyard/api-servers/endpoints"
	for name, tc := range map[string]struct {
		values string
		// missing are the objects that are left out.
		missing []string
		// change is what becomes of the Deployment.
		change func(d map[string]any)
	}{
		"another image, by tag":                         {values: "image: {repository: registry.example.com:5000/lanyard, tag: 1.2.3}", change: container("image", "registry.example.com:5000/lanyard:1.2.3")},
		"another image, by digest":                      {values: "image: {digest: 'sha256:" + strings.Repeat("0a", 32) + "'}", change: container("image", "lanyard@sha256:"+strings.Repeat("0a", 32))},
		"an image without a tag is the chart's version": {values: "image: {tag: ''}", change: container("image", "lanyard:0.1.0")},
		"a pull policy":                                 {values: "image: {pullPolicy: Always}", change: container("imagePullPolicy", "Always")},
		"pull secrets":                                  {values: "imagePullSecrets: [{name: registry}]", change: inPod("imagePullSecrets", []any{map[string]any{"name": "registry"}})},
		"one manager":                                   {values: "replicas: 1", change: set(int64(1), "spec", "replicas")},
		"a node selector":                               {values: "nodeSelector: {rack: '1'}", change: inPod("nodeSelector", map[string]any{"rack": "1"})},
		"no toleration":                                 {values: "tolerations: []", change: func(d map[string]any) { unstructured.RemoveNestedField(d, append(slices.Clone(pod), "tolerations")...) }},
		"no priority": {values: "priorityClassName: ''", change: func(d map[string]any) {
			unstructured.RemoveNestedField(d, append(slices.Clone(pod), "priorityClassName")...)
		}},
		"no affinity": {values: "affinity: {podAntiAffinity: null}", change: func(d map[string]any) {
			unstructured.RemoveNestedField(d, append(slices.Clone(pod), "affinity")...)
		}},
		"more memory": {values: "resources: {limits: {memory: 512Mi}}", change: container("resources", map[string]any{
			"requests": map[string]any{"cpu": "20m", "memory": "64Mi"}, "limits": map[string]any{"memory": "512Mi"}})},
		"labels of pods":      {values: "podLabels: {team: net}", change: set("net", "spec", "template", "metadata", "labels", "team")},
		"annotations of pods": {values: "podAnnotations: {note: hi}", change: set("hi", "spec", "template", "metadata", "annotations", "note")},
		"a talkative manager": {values: "logLevel: debug", change: container("args", []any{servers, "--zap-log-level=debug"})},
		"no metrics": {
			values:  "metrics: {enabled: false}",
			missing: []string{"ClusterRole  lanyard-metrics-auth", "ClusterRole  lanyard-metrics-reader", "ClusterRoleBinding  lanyard-metrics-auth"},
			change:  container("args", []any{servers, "--metrics-bind-address=0"}),
		},
		"no right to change kube-proxy": {
			values: "manageKubeProxy: false",
			missing: []string{"ClusterRoleBinding  lanyard-probe", "Role kube-system lanyard-kube-proxy", "Role lanyard-system lanyard-kube-proxy",
				"RoleBinding kube-system lanyard-kube-proxy", "RoleBinding lanyard-system lanyard-kube-proxy", "ServiceAccount lanyard-system lanyard-probe"},
			change: container("args", []any{servers, "--manage-kube-proxy=false"}),
		},
		"no CRDs": {
			values: "crds: {install: false}",
			missing: []string{"CustomResourceDefinition  clusternetworkings.networking.lanyard.dev",
				"CustomResourceDefinition  nodenetworkings.networking.lanyard.dev"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var values map[string]any
			must(t, yaml.Unmarshal([]byte(tc.values), &values))
			objects, _ := rendered(t, nil)
			want := plain(objects)
			for _, identity := range tc.missing {
				if want[identity] == nil {
					t.Errorf("by default, there is no %s", identity)
				}
				delete(want, identity)
			}
			if tc.change != nil {
				tc.change(want["Deployment "+namespace+" "+deployment])
			}
			objects, _ = rendered(t, values)
			if diff := cmp.Diff(want, plain(objects)); diff != "" {
				t.Errorf("with %s (-want +got):\n%s", tc.values, diff)
			}
		})
	}
}

// TestWithoutTheRightToChangeKubeProxy: nothing that is left lets the manager make pods, delete them, or write outside its namespace but what
// addresses need.
func TestWithoutTheRightToChangeKubeProxy(t *testing.T) {
	objects, _ := rendered(t, map[string]any{"manageKubeProxy": false})
	var got []string
	for _, o := range append(ofKind(objects, "Role"), ofKind(objects, "ClusterRole")...) {
		for _, rule := range rulesOf(o) {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					if strings.HasPrefix(resource, "pods") && !slices.Contains([]string{"get", "list", "watch"}, verb) ||
						o.GetNamespace() == "kube-system" && !slices.Contains([]string{"get", "list", "watch"}, verb) {
						got = append(got, strings.Join([]string{o.GetKind(), o.GetNamespace(), o.GetName(), verb, resource}, " "))
					}
				}
			}
		}
	}
	// What failureDetection.markPodsNotReady needs.
	if diff := cmp.Diff([]string{"ClusterRole  lanyard-manager patch pods/status"}, got); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
}

// TestWhatStaysOfARelease: what users have written goes with its kind, so the kinds stay.
func TestWhatStaysOfARelease(t *testing.T) {
	objects, _ := rendered(t, nil)
	var got []string
	for _, o := range objects {
		if o.GetAnnotations()["helm.sh/resource-policy"] == "keep" {
			got = append(got, o.GetName())
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"clusternetworkings.networking.lanyard.dev", "nodenetworkings.networking.lanyard.dev"}, got); diff != "" {
		t.Errorf("what stays (-want +got):\n%s", diff)
	}
}

func TestBadValuesAreRefused(t *testing.T) {
	chart, err := loader.Load(filepath.Join(root, "dist/chart"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ values, want string }{
		"a value that does not exist":      {"replica: 1", "additional properties 'replica' not allowed"},
		"no manager":                       {"replicas: 0", "minimum: got 0, want 1"},
		"a digest of another kind":         {"image: {digest: 'md5:1'}", "does not match pattern"},
		"a pull policy that is none":       {"image: {pullPolicy: Sometimes}", "value must be one of"},
		"a switch that is a word":          {"manageKubeProxy: 'no'", "got string, want boolean"},
		"a pull secret that is only named": {"imagePullSecrets: [registry]", "got string, want object"},
	} {
		t.Run(name, func(t *testing.T) {
			var values map[string]any
			must(t, yaml.Unmarshal([]byte(tc.values), &values))
			_, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{Name: "lanyard"}, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: error %v, want one with %q", tc.values, err, tc.want)
			}
		})
	}
}

// TestEveryValueIsDocumented: in the schema, which knows no value that there is not.
func TestEveryValueIsDocumented(t *testing.T) {
	chart, err := loader.Load(filepath.Join(root, "dist/chart"))
	if err != nil {
		t.Fatal(err)
	}
	var schema schemaNode
	must(t, json.Unmarshal(chart.Schema, &schema))
	schema.compare(t, "", chart.Values)
}

type schemaNode struct {
	Description          string
	Properties           map[string]schemaNode
	AdditionalProperties any
}

func (s schemaNode) compare(t *testing.T, path string, values map[string]any) {
	for name, value := range values {
		known, ok := s.Properties[name]
		if !ok || known.Description == "" {
			t.Errorf("values.schema.json does not describe %s%s", path, name)
		}
		if inner, isMap := value.(map[string]any); isMap && len(known.Properties) > 0 {
			known.compare(t, path+name+".", inner)
		}
	}
	for name := range s.Properties {
		if _, ok := values[name]; !ok && name != "global" {
			t.Errorf("values.schema.json describes %s%s, which values.yaml does not have", path, name)
		}
	}
	if s.AdditionalProperties != false {
		t.Errorf("values.schema.json lets anything be set in %q", path)
	}
}

func TestNotes(t *testing.T) {
	for name, tc := range map[string]struct {
		values map[string]any
		want   []string
		not    []string
	}{
		"as it is installed by default": {
			want: []string{"kubectl apply -f - <<EOF", "kubectl describe clusternetworking cluster", "helm test lanyard --namespace lanyard-system --logs",
				"kubectl delete clusternetworking cluster", "configmap/lanyard-kube-proxy", "What stays: the CustomResourceDefinitions"},
			not: []string{"leave spec.kubeProxy out"},
		},
		"without the right to change kube-proxy": {
			values: map[string]any{"manageKubeProxy": false},
			want:   []string{"leave spec.kubeProxy out"}, not: []string{"configmap/lanyard-kube-proxy"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, notes := rendered(t, tc.values)
			for _, text := range tc.want {
				if !strings.Contains(notes, text) {
					t.Errorf("the notes do not say %q:\n%s", text, notes)
				}
			}
			for _, text := range tc.not {
				if strings.Contains(notes, text) {
					t.Errorf("the notes say %q:\n%s", text, notes)
				}
			}
		})
	}
}

func TestParseImage(t *testing.T) {
	for reference, want := range map[string]image{
		"lanyard:dev":                            {repository: "lanyard", tag: "dev"},
		"lanyard":                                {repository: "lanyard"},
		"registry.example.com:5000/lanyard":      {repository: "registry.example.com:5000/lanyard"},
		"registry.example.com:5000/lanyard:1":    {repository: "registry.example.com:5000/lanyard", tag: "1"},
		"registry.example.com/lanyard@sha256:0a": {repository: "registry.example.com/lanyard", digest: "sha256:0a"},
	} {
		if diff := cmp.Diff(want, parseImage(reference), cmp.AllowUnexported(image{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reference, diff)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
