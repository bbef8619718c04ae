package bundle

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	validator "github.com/operator-framework/api/pkg/validation/interfaces"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/model"
	"github.com/operator-framework/operator-registry/pkg/lib/bundle"
	"github.com/operator-framework/operator-registry/pkg/lib/config"
	"github.com/sirupsen/logrus"
	"sigs.k8s.io/yaml"
)

const root = "../.."

// validators are all that operator-framework/api has, but three: one is for the form before bundles, one for OperatorGroups, and the one for
// several architectures asks a container engine and a registry. TestArchitectures stands in for the last.
var validators = validator.Validators{
	validation.ClusterServiceVersionValidator,
	validation.CustomResourceDefinitionValidator,
	validation.BundleValidator,
	validation.OperatorHubV2Validator,
	validation.StandardCategoriesValidator,
	validation.StandardCapabilitiesValidator,
	validation.ObjectValidator,
	validation.CommunityOperatorValidator,
	validation.AlphaDeprecatedAPIsValidator,
	validation.GoodPracticesValidator,
}

// explained are the warnings that stay, each with its reason. One that is no longer found fails the test too.
var explained = map[string]string{
	"Kind=NodeNetworking: provided API should have an example annotation": "nobody writes a NodeNetworking: the speakers do, one for each node",
}

func TestEveryValidatorIsContent(t *testing.T) {
	read, err := manifests.GetBundleFromDir(filepath.Join(root, "bundle"))
	if err != nil {
		t.Fatal(err)
	}
	if read.CSV == nil || len(read.V1CRDs) != 2 {
		t.Fatalf("the bundle has the CSV %v and %d kinds", read.CSV, len(read.V1CRDs))
	}
	needless := map[string]bool{}
	for text := range explained {
		needless[text] = true
	}
	objects := append(read.ObjectsToValidate(), read)
	for _, result := range validators.Validate(objects...) {
		for _, e := range result.Errors {
			t.Errorf("%s: %s", result.Name, e.Error())
		}
		for _, w := range result.Warnings {
			known := false
			for text := range explained {
				if strings.Contains(w.Error(), text) {
					known = true
					delete(needless, text)
				}
			}
			if !known {
				t.Errorf("%s: %s", result.Name, w.Error())
			}
		}
	}
	for text := range needless {
		t.Errorf("nothing warns of %q any more: explain it no longer", text)
	}
}

// TestArchitectures: what the bundle says it runs on is what images are built for, and no node affinity says otherwise.
func TestArchitectures(t *testing.T) {
	read, err := manifests.GetBundleFromDir(filepath.Join(root, "bundle"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for label, value := range read.CSV.Labels {
		if strings.HasPrefix(label, "operatorframework.io/") {
			got[label] = value
		}
	}
	want := map[string]string{"operatorframework.io/arch.amd64": "supported", "operatorframework.io/arch.arm64": "supported", "operatorframework.io/os.linux": "supported"}
	if !maps.Equal(want, got) {
		t.Errorf("the CSV's labels are %v, want %v", got, want)
	}
	pod := read.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec
	if pod.Affinity != nil && pod.Affinity.NodeAffinity != nil {
		t.Errorf("the manager's node affinity is %v: the labels have to say the same", pod.Affinity.NodeAffinity)
	}
}

// TestTheBundleHasItsForm is `opm alpha bundle validate` without an image.
func TestTheBundleHasItsForm(t *testing.T) {
	form := bundle.NewImageValidator(nil, logrus.NewEntry(logrus.StandardLogger()), "none")
	if err := form.ValidateBundleFormat(filepath.Join(root, "bundle")); err != nil {
		t.Error(err)
	}
	if err := form.ValidateBundleContent(filepath.Join(root, "bundle/manifests")); err != nil {
		t.Error(err)
	}
}

// packaging runs the program that makes bundles and catalogs.
func packaging(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"run", "./internal/packaging"}, args...)...)
	cmd.Dir = root
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// versions makes bundles of the same sources, as if they were released one after the other, and returns their folders.
func versions(t *testing.T, all ...string) []string {
	t.Helper()
	folder := t.TempDir()
	var made []string
	for _, v := range all {
		made = append(made, filepath.Join(folder, v))
		if output, err := packaging(t, "bundle", "--version="+v, "--image=lanyard:"+v, "--output="+made[len(made)-1]); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
	}
	return made
}

// load reads a catalog as OLM's registry does.
func load(t *testing.T, folder string) model.Model {
	t.Helper()
	if err := config.Validate(context.Background(), os.DirFS(folder)); err != nil {
		t.Fatalf("%s: %v", folder, err)
	}
	read, err := declcfg.LoadFS(t.Context(), os.DirFS(folder))
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := declcfg.ConvertToModel(*read)
	if err != nil {
		t.Fatal(err)
	}
	return catalog
}

// TestCatalogsOfThreeVersions: each replaces the one before it, and whoever is further behind skips those between.
func TestCatalogsOfThreeVersions(t *testing.T) {
	output := t.TempDir()
	if text, err := packaging(t, append([]string{"catalog", "--output=" + output}, versions(t, "0.1.0", "0.2.0", "0.3.0")...)...); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, kind := range []string{"inline", "by-image"} {
		t.Run(kind, func(t *testing.T) {
			pkg := load(t, filepath.Join(output, kind))["lanyard"]
			if pkg == nil || pkg.DefaultChannel == nil || pkg.DefaultChannel.Name != "candidate" || len(pkg.Channels) != 1 {
				t.Fatalf("the catalog's package is %+v", pkg)
			}
			head, err := pkg.DefaultChannel.Head()
			if err != nil || head.Name != "lanyard.v0.3.0" {
				t.Errorf("who subscribes gets %v (%v)", head, err)
			}
			got := map[string][3]string{}
			for name, b := range pkg.DefaultChannel.Bundles {
				got[name] = [3]string{b.Replaces, b.SkipRange, b.Image}
				if inlined := len(b.Objects) > 0 && b.CsvJSON != ""; inlined != (kind == "inline") {
					t.Errorf("%s holds %d objects", name, len(b.Objects))
				}
			}
			want := map[string][3]string{
				"lanyard.v0.1.0": {"", "", "lanyard-bundle:v0.1.0"},
				"lanyard.v0.2.0": {"lanyard.v0.1.0", ">=0.1.0 <0.2.0", "lanyard-bundle:v0.2.0"},
				"lanyard.v0.3.0": {"lanyard.v0.2.0", ">=0.1.0 <0.3.0", "lanyard-bundle:v0.3.0"},
			}
			if kind == "inline" {
				for name, entry := range want {
					want[name] = [3]string{entry[0], entry[1], ""}
				}
			}
			for name, entry := range want {
				if got[name] != entry {
					t.Errorf("%s is %q, want %q", name, got[name], entry)
				}
			}
			if len(got) != len(want) {
				t.Errorf("the channel has %d entries", len(got))
			}
		})
	}
}

// TestACatalogIsRefused where OLM could not follow it.
func TestACatalogIsRefused(t *testing.T) {
	made := versions(t, "0.1.0", "0.2.0")
	output := t.TempDir()
	if text, err := packaging(t, "catalog", "--output="+output, made[1], made[0]); err == nil || !strings.Contains(text, "lanyard.v0.1.0 comes after lanyard.v0.2.0") {
		t.Errorf("newest first: error %v\n%s", err, text)
	}
	file := filepath.Join(made[1], "manifests/lanyard.clusterserviceversion.yaml")
	csv, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(csv), "name: lanyard-manager", "name: lanyard-controller")), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := packaging(t, "catalog", "--output="+output, made[0], made[1]); err == nil || !strings.Contains(text, "has the Deployment lanyard-manager, and lanyard.v0.2.0 has not") {
		t.Errorf("a renamed Deployment: error %v\n%s", err, text)
	}
}

// TestTheSubscriptionFits: what config/olm subscribes to is what the catalog offers, and OLM knows every field of it.
func TestTheSubscriptionFits(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "config/olm/lanyard.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var source v1alpha1.CatalogSource
	var group operatorsv1.OperatorGroup
	var subscription v1alpha1.Subscription
	objects := []any{&source, &group, &subscription}
	parts := strings.Split(string(text), "\n---\n")
	if len(parts) != len(objects) {
		t.Fatalf("config/olm/lanyard.yaml has %d objects", len(parts))
	}
	for i, part := range parts {
		if err := yaml.UnmarshalStrict([]byte(part), objects[i]); err != nil {
			t.Fatal(err)
		}
	}
	output := t.TempDir()
	if text, err := packaging(t, "catalog", "--output="+output, "bundle"); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	pkg := load(t, filepath.Join(output, "inline"))[subscription.Spec.Package]
	if pkg == nil || pkg.Channels[subscription.Spec.Channel] == nil {
		t.Errorf("the catalog has no channel %q of a package %q", subscription.Spec.Channel, subscription.Spec.Package)
	}
	if subscription.Spec.CatalogSource != source.Name || subscription.Spec.CatalogSourceNamespace != source.Namespace {
		t.Errorf("it subscribes to %s/%s", subscription.Spec.CatalogSourceNamespace, subscription.Spec.CatalogSource)
	}
	if group.Namespace != subscription.Namespace || len(group.Spec.TargetNamespaces) > 0 || group.Spec.Selector != nil {
		t.Errorf("its OperatorGroup is not for all namespaces: %+v in %s", group.Spec, group.Namespace)
	}
}
