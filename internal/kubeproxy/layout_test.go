package kubeproxy

import (
	cmpor "cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// layouts are the clusters of testdata/layouts.
func layouts(t *testing.T) map[string]Evidence {
	t.Helper()
	files, err := filepath.Glob("testdata/layouts/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d layouts, error %v", len(files), err)
	}
	all := map[string]Evidence{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".yaml")] = evidence(t, file, string(text))
	}
	return all
}

func evidence(t *testing.T, file, text string) Evidence {
	t.Helper()
	var e Evidence
	for _, document := range strings.Split(text, "---\n") {
		var (
			kind metav1.TypeMeta
			into any
			node corev1.Node
		)
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		switch kind.Kind {
		case "ConfigMap":
			e.ConfigMap = &corev1.ConfigMap{}
			into = e.ConfigMap
		case "DaemonSet":
			e.DaemonSet = &appsv1.DaemonSet{}
			into = e.DaemonSet
		case "Node":
			into = &node
		}
		if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if kind.Kind == "Node" {
			e.Nodes = append(e.Nodes, node)
		}
	}
	return e
}

// TestLayoutsGolden says of each cluster of testdata/layouts whether its kube-proxy is managed, and if not, what its users read. A cluster
// is added by a file there, and its line by -update.
func TestLayoutsGolden(t *testing.T) {
	var got strings.Builder
	all := layouts(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&got, "%s: %s\n", name, cmpor.Or(CheckLayout(all[name]).Message, "managed"))
	}
	compareGolden(t, "testdata/layouts/layouts.golden", got.String())
}

// TestNodesDoNotOutweighObjects: labels of nodes can be anybody's, and some clusters of kubeadm's have another's kubelet. Where the objects
// are kubeadm's own, no node refuses them.
func TestNodesDoNotOutweighObjects(t *testing.T) {
	for name, e := range layouts(t) {
		got := CheckLayout(Evidence{ConfigMap: kubeadmConfigMap(), DaemonSet: kubeadmDaemonSet(), Nodes: e.Nodes})
		if diff := cmp.Diff(Layout{Managed: true}, got); diff != "" {
			t.Errorf("kubeadm's objects with the nodes of %s (-want +got):\n%s", name, diff)
		}
	}
}

// kubeadmConfigMap is kube-proxy's ConfigMap as kubeadm makes it.
func kubeadmConfigMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name},
		Data:       map[string]string{ConfigKey: head, "kubeconfig.conf": "apiVersion: v1\nkind: Config\n"},
	}
}

// kubeadmDaemonSet is what kubeadm's DaemonSet has to do with it.
func kubeadmDaemonSet() *appsv1.DaemonSet {
	volume := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: Name}}}
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name}}
	ds.Spec.Template.Spec = corev1.PodSpec{
		NodeSelector: map[string]string{corev1.LabelOSStable: "linux"},
		Containers: []corev1.Container{{Name: Name, Command: []string{
			"/usr/local/bin/kube-proxy", "--config=/var/lib/kube-proxy/config.conf", "--hostname-override=$(NODE_NAME)"}}},
		Volumes: []corev1.Volume{{Name: "lib-modules"}, {Name: Name, VolumeSource: volume}},
	}
	return ds
}

func TestCheckLayout(t *testing.T) {
	const advice = "; Lanyard leaves kube-proxy alone: change it where this cluster's installer keeps it, and remove spec.kubeProxy"
	linux := corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
	elsewhere := Layout{Message: "DaemonSet kube-system/kube-proxy does not read config.conf from ConfigMap kube-proxy (its command should have " +
		"--config=/var/lib/kube-proxy/config.conf)" + advice}
	lost := Layout{Message: "ConfigMap kube-system/kube-proxy has lost its key config.conf, without which no kube-proxy starts: put it back, from a backup " +
		"or with `kubeadm init phase addon kube-proxy --config FILE` and the file that `kubeadm init` was given. Lanyard leaves kube-proxy alone until then"}
	lose := func(cm *corev1.ConfigMap) *corev1.ConfigMap {
		delete(cm.Data, ConfigKey)
		return cm
	}
	for name, tc := range map[string]struct {
		configMap func(*corev1.ConfigMap) *corev1.ConfigMap
		daemonSet func(*appsv1.DaemonSet) *appsv1.DaemonSet
		nodes     []corev1.Node
		nowhere   bool
		forbidden bool
		want      Layout
	}{
		"kubeadm's objects, while no node is known": {want: Layout{Managed: true}},
		"the flag among the arguments": {
			daemonSet: func(ds *appsv1.DaemonSet) *appsv1.DaemonSet {
				c := &ds.Spec.Template.Spec.Containers[0]
				c.Command, c.Args = c.Command[:1], c.Command[1:]
				return ds
			},
			want: Layout{Managed: true},
		},
		"a sidecar before kube-proxy": {
			daemonSet: func(ds *appsv1.DaemonSet) *appsv1.DaemonSet {
				pod := &ds.Spec.Template.Spec
				pod.Containers = append([]corev1.Container{{Name: "kube-rbac-proxy"}}, pod.Containers...)
				return ds
			},
			want: Layout{Managed: true},
		},
		"no DaemonSet, and nothing that says why": {
			daemonSet: func(*appsv1.DaemonSet) *appsv1.DaemonSet { return nil },
			want: Layout{Message: "there is no DaemonSet kube-system/kube-proxy: this cluster runs without kube-proxy, or its kube-proxy is no " +
				"pod of a DaemonSet" + advice},
		},
		"flags and no ConfigMap": {
			configMap: func(*corev1.ConfigMap) *corev1.ConfigMap { return nil },
			want:      Layout{Message: "there is no ConfigMap kube-system/kube-proxy: kube-proxy gets its settings elsewhere" + advice},
		},
		"a ConfigMap that holds only a kubeconfig, which nobody reads a configuration from": {
			configMap: func(cm *corev1.ConfigMap) *corev1.ConfigMap {
				cm.Data = map[string]string{"kubeconfig": "kind: Config"}
				return cm
			},
			daemonSet: func(ds *appsv1.DaemonSet) *appsv1.DaemonSet {
				ds.Spec.Template.Spec.Containers[0].Command = []string{"kube-proxy", "--config=/var/lib/kube-proxy-config/config"}
				return ds
			},
			want: elsewhere,
		},
		"kubeadm's ConfigMap that has lost the configuration": {configMap: lose, nodes: []corev1.Node{linux}, want: lost},
		"the same on a node that looks like another installer's": {
			configMap: lose, nodes: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
				corev1.LabelOSStable: "linux", "kops.k8s.io/instancegroup": "nodes"}}}}, want: lost},
		"a ConfigMap that has lost the configuration, and is another's": {
			configMap: func(cm *corev1.ConfigMap) *corev1.ConfigMap {
				cm.Labels = map[string]string{"addonmanager.kubernetes.io/mode": "Reconcile"}
				return lose(cm)
			},
			want: Layout{Message: "this is a kube-proxy that the addon-manager applies: it writes back what its manifest says. Lanyard leaves kube-proxy " +
				"alone: change the manifest in /etc/kubernetes/addons on each control plane node, and remove spec.kubeProxy"},
		},
		"flags beside a ConfigMap that nobody reads": {
			daemonSet: func(ds *appsv1.DaemonSet) *appsv1.DaemonSet {
				ds.Spec.Template.Spec.Containers[0].Command = []string{"kube-proxy", "--proxy-mode=ipvs"}
				return ds
			},
			want: elsewhere,
		},
		"the file from another ConfigMap, as where each worker pool has its own": {
			daemonSet: func(ds *appsv1.DaemonSet) *appsv1.DaemonSet {
				ds.Spec.Template.Spec.Volumes[1].ConfigMap.Name = "kube-proxy-workers-4f2a"
				return ds
			},
			want: elsewhere,
		},
		"one node of several that runs kube-proxy is enough": {nodes: []corev1.Node{{}, linux}, want: Layout{Managed: true}},
		"a nodeSelector that no node has, and nothing that says why": {
			daemonSet: func(ds *appsv1.DaemonSet) *appsv1.DaemonSet {
				ds.Spec.Template.Spec.NodeSelector["non-calico"] = "true"
				return ds
			},
			nodes: []corev1.Node{linux},
			want: Layout{Message: "the nodeSelector of DaemonSet kube-system/kube-proxy selects none of the nodes " +
				"(kubernetes.io/os=linux,non-calico=true): kube-proxy is turned off" + advice},
		},
		"a nodeAffinity that no node meets": {
			daemonSet: func(ds *appsv1.DaemonSet) *appsv1.DaemonSet {
				ds.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
				return ds
			},
			nodes: []corev1.Node{linux}, nowhere: true,
			want: Layout{Message: "the nodeAffinity, with the nodeSelector, of DaemonSet kube-system/kube-proxy selects none of the nodes " +
				"(kubernetes.io/os=linux): kube-proxy is turned off" + advice},
		},
		"whoever owns only the DaemonSet writes no configuration back": {
			daemonSet: func(ds *appsv1.DaemonSet) *appsv1.DaemonSet {
				ds.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "base:apps/DaemonSet:kube-system/kube-proxy"}
				return ds
			},
			want: Layout{Managed: true},
		},
		"whoever owns another key writes no configuration back": {
			configMap: func(cm *corev1.ConfigMap) *corev1.ConfigMap {
				cm.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "argocd-controller",
					FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:kubeconfig.conf":{}}}`)}}
				return cm
			},
			want: Layout{Managed: true},
		},
		"kubeadm's objects, where Lanyard may not change kube-proxy": {
			forbidden: true,
			want: Layout{Message: "Lanyard was installed without the right to change kube-proxy, and leaves it alone: remove spec.kubeProxy, or give the " +
				"right (manageKubeProxy=true in the chart's values; else config/rbac as it is, and no --manage-kube-proxy=false)"},
		},
		"what the addon-manager makes once, it leaves to its users": {
			configMap: func(cm *corev1.ConfigMap) *corev1.ConfigMap {
				cm.Labels = map[string]string{"addonmanager.kubernetes.io/mode": "EnsureExists"}
				return cm
			},
			want: Layout{Managed: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cm, ds := kubeadmConfigMap(), kubeadmDaemonSet()
			if tc.configMap != nil {
				cm = tc.configMap(cm)
			}
			if tc.daemonSet != nil {
				ds = tc.daemonSet(ds)
			}
			if diff := cmp.Diff(tc.want, CheckLayout(Evidence{ConfigMap: cm, DaemonSet: ds, Nodes: tc.nodes, Nowhere: tc.nowhere, Forbidden: tc.forbidden})); diff != "" {
				t.Errorf("layout (-want +got):\n%s", diff)
			}
		})
	}
}
