package kubeproxy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
		Containers: []corev1.Container{{Name: Name, Command: []string{
			"/usr/local/bin/kube-proxy", "--config=/var/lib/kube-proxy/config.conf", "--hostname-override=$(NODE_NAME)"}}},
		Volumes: []corev1.Volume{{Name: "lib-modules"}, {Name: Name, VolumeSource: volume}},
	}
	return ds
}

func TestCheckLayout(t *testing.T) {
	const advice = "; Lanyard leaves kube-proxy alone: change it where this cluster's installer keeps it, and remove spec.kubeProxy"
	elsewhere := Layout{Message: "DaemonSet kube-system/kube-proxy does not read config.conf from ConfigMap kube-proxy (its command should have " +
		"--config=/var/lib/kube-proxy/config.conf)" + advice}
	for name, tc := range map[string]struct {
		configMap func(*corev1.ConfigMap) *corev1.ConfigMap
		daemonSet func(*appsv1.DaemonSet) *appsv1.DaemonSet
		want      Layout
	}{
		"kubeadm's, and kind's and Cluster API's, which are the same": {want: Layout{Managed: true}},
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
		"no DaemonSet, as on k3s, RKE2, kOps, or where Cilium replaces kube-proxy and kubeadm's ConfigMap is left": {
			daemonSet: func(*appsv1.DaemonSet) *appsv1.DaemonSet { return nil },
			want: Layout{Message: "there is no DaemonSet kube-system/kube-proxy: this cluster runs without kube-proxy, or its kube-proxy is no " +
				"pod of a DaemonSet" + advice},
		},
		"flags and no ConfigMap, as on Talos": {
			configMap: func(*corev1.ConfigMap) *corev1.ConfigMap { return nil },
			want:      Layout{Message: "there is no ConfigMap kube-system/kube-proxy: kube-proxy gets its settings elsewhere" + advice},
		},
		"a ConfigMap that holds only a kubeconfig, as on EKS": {
			configMap: func(cm *corev1.ConfigMap) *corev1.ConfigMap {
				cm.Data = map[string]string{"kubeconfig": "kind: Config"}
				return cm
			},
			want: Layout{Message: "ConfigMap kube-system/kube-proxy has no key config.conf" + advice},
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
	} {
		t.Run(name, func(t *testing.T) {
			cm, ds := kubeadmConfigMap(), kubeadmDaemonSet()
			if tc.configMap != nil {
				cm = tc.configMap(cm)
			}
			if tc.daemonSet != nil {
				ds = tc.daemonSet(ds)
			}
			if diff := cmp.Diff(tc.want, CheckLayout(cm, ds)); diff != "" {
				t.Errorf("layout (-want +got):\n%s", diff)
			}
		})
	}
}
