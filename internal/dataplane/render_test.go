package dataplane

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestRenderGolden renders testdata/CASE.in.yaml, which holds Values, and compares with CASE.out.yaml. A case is added by adding a file.
func TestRenderGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no cases in testdata: %v", err)
	}
	for _, input := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(input), ".in.yaml"), func(t *testing.T) {
			text, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			var values Values
			if err := yaml.UnmarshalStrict(text, &values); err != nil {
				t.Fatal(err)
			}
			objects, err := Render(values)
			if err != nil {
				t.Fatal(err)
			}
			var documents []string
			for _, o := range objects {
				document, err := yaml.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				documents = append(documents, string(document))
			}
			got := strings.Join(documents, "---\n")
			golden := strings.TrimSuffix(input, ".in.yaml") + ".out.yaml"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatalf("%v; make it with: go test ./internal/dataplane -update", err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("rendered objects (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRenderedObjectsAreWhatTheAPIKnows decodes strictly: a misspelt field would be dropped by the API server without a word.
func TestRenderedObjectsAreWhatTheAPIKnows(t *testing.T) {
	objects, err := Render(Values{Namespace: "lanyard-system", KubeVersion: "v1.36.3", Image: "lanyard:test", MembershipKeys: map[string][]byte{"key": make([]byte, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]any{"DaemonSet": &appsv1.DaemonSet{}, "Secret": &corev1.Secret{}, "Service": &corev1.Service{}}
	for _, o := range objects {
		into, ok := known[o.GetKind()]
		if !ok {
			t.Fatalf("the chart renders a %s, which this test does not know", o.GetKind())
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, into, true); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

func TestRenderRefusesAnOldCluster(t *testing.T) {
	_, err := Render(Values{Namespace: "lanyard-system", KubeVersion: "v1.25.0", Image: "lanyard:test"})
	want := "the cluster runs Kubernetes v1.25.0 and the speakers need >=1.30.0-0: upgrade the cluster"
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}
