package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// cluster is a real API server, without nodes and controllers, and Helm's own program for it.
type cluster struct {
	client.Client
	helm, kubeconfig string
}

func startCluster(t *testing.T) cluster {
	t.Helper()
	helm, err := filepath.Abs(filepath.Join(root, "bin/helm"))
	must(t, err)
	if _, err := os.Stat(helm); err != nil || os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("there is no bin/helm, or KUBEBUILDER_ASSETS is not set: `make test` builds helm, etcd and kube-apiserver, and sets it")
	}
	server := &envtest.Environment{}
	config, err := server.Start()
	must(t, err)
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin, err := server.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	must(t, err)
	text, err := admin.KubeConfig()
	must(t, err)
	c := cluster{helm: helm, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	must(t, os.WriteFile(c.kubeconfig, text, 0o600))
	c.Client, err = client.New(config, client.Options{})
	must(t, err)
	return c
}

// run runs Helm and returns what it prints.
func (c cluster) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.helm, args...)
	home := t.TempDir() // Helm's caches
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	printed, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, printed)
	}
	return string(printed)
}

// there says whether an object exists, and reads it.
func (c cluster) there(t *testing.T, group, version, kind, ns, name string) (*unstructured.Unstructured, bool) {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
	err := c.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, o)
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return o, err == nil
}

// says fails unless each of the texts is in what was printed.
func says(t *testing.T, printed string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(printed, text) {
			t.Errorf("helm does not print %q:\n%s", text, printed)
		}
	}
}

// TestHelm goes through a release's life: what users have written survives all of it, and an upgrade brings the kinds' new fields.
func TestHelm(t *testing.T) {
	c := startCluster(t)
	const crd = "clusternetworkings.networking.lanyard.dev"
	chart := filepath.Join(root, "dist/chart")
	says(t, c.run(t, "install", "lanyard", chart, "--namespace", namespace, "--create-namespace"),
		"STATUS: deployed", "kubectl label --overwrite namespace lanyard-system pod-security.kubernetes.io/enforce=privileged", "kubectl apply -f - <<EOF")

	samples, err := readSamples(filepath.Join(root, "config/samples"))
	must(t, err)
	for _, sample := range samples { // the cluster's network has one name: only one of them is there at a time
		o := &unstructured.Unstructured{Object: sample}
		must(t, client.IgnoreNotFound(c.Delete(t.Context(), o.DeepCopy())))
		must(t, c.Create(t.Context(), o))
	}

	next := filepath.Join(t.TempDir(), "chart")
	must(t, os.CopyFS(next, os.DirFS(chart)))
	must(t, edit(filepath.Join(next, "Chart.yaml"), map[string]string{"version": "0.2.0", "appVersion": "0.2.0"}))
	file := filepath.Join(next, "templates/customresourcedefinition-"+crd+".yaml")
	text, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file, []byte(strings.Replace(string(text), "kind: ClusterNetworking\n", "kind: ClusterNetworking\n    categories: [network]\n", 1)), 0o600))
	says(t, c.run(t, "upgrade", "lanyard", next, "--namespace", namespace, "--set", "manageKubeProxy=false"), "REVISION: 2", "leave spec.kubeProxy out")
	kind, _ := c.there(t, "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "", crd)
	if got, _, _ := unstructured.NestedStringSlice(kind.Object, "spec", "names", "categories"); len(got) != 1 {
		t.Errorf("an upgrade left the kind as it was: its categories are %v", got)
	}
	if _, still := c.there(t, "rbac.authorization.k8s.io", "v1", "Role", "kube-system", "lanyard-kube-proxy"); still {
		t.Error("the right to change kube-proxy outlives manageKubeProxy=false")
	}

	says(t, c.run(t, "uninstall", "lanyard", "--namespace", namespace), "These resources were kept due to the resource policy",
		"[CustomResourceDefinition] "+crd)
	for _, gone := range []struct{ group, kind, ns, name string }{
		{"apps", "Deployment", namespace, deployment}, {"rbac.authorization.k8s.io", "ClusterRole", "", "lanyard-manager"},
		{"rbac.authorization.k8s.io", "Role", "kube-system", "lanyard-manager"}, {"", "ServiceAccount", namespace, "lanyard-speaker"},
	} {
		if _, still := c.there(t, gone.group, "v1", gone.kind, gone.ns, gone.name); still {
			t.Errorf("%s %s is still there", gone.kind, gone.name)
		}
	}
	says(t, c.run(t, "install", "lanyard", chart, "--namespace", namespace), "STATUS: deployed")
	network, still := c.there(t, "networking.lanyard.dev", "v1alpha1", "ClusterNetworking", "", "cluster")
	if mode, _, _ := unstructured.NestedString(network.Object, "spec", "kubeProxy", "mode"); !still || mode != "nftables" {
		t.Errorf("of what was written, %v is left", network.Object)
	}
}

// TestHelmTakesOver what was installed by YAML.
func TestHelmTakesOver(t *testing.T) {
	c := startCluster(t)
	for _, o := range configured(t) {
		must(t, c.Create(t.Context(), o))
	}
	says(t, c.run(t, "upgrade", "--install", "lanyard", filepath.Join(root, "dist/chart"), "--namespace", namespace, "--take-ownership"), "STATUS: deployed")
	manager, _ := c.there(t, "apps", "v1", "Deployment", namespace, deployment)
	if got := manager.GetAnnotations()["meta.helm.sh/release-name"]; got != "lanyard" {
		t.Errorf("the Deployment belongs to the release %q", got)
	}
}
