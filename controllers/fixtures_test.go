package controllers

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// tutorial is the tutorial's network.
func tutorial(change ...func(*v1alpha1.ClusterNetworkingSpec)) *v1alpha1.ClusterNetworking {
	cnet := &v1alpha1.ClusterNetworking{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster"},
		Spec: v1alpha1.ClusterNetworkingSpec{
			IPPools:          []v1alpha1.IPPool{{Name: "lan-pool", Addresses: []v1alpha1.AddressRange{"192.168.1.200-192.168.1.210"}}},
			L2Advertisements: []v1alpha1.L2Advertisement{{Name: "lan-l2", IPPools: []string{"lan-pool"}}},
		},
	}
	for _, c := range change {
		c(&cnet.Spec)
	}
	return cnet
}

// loadBalancer is a Service that asks for an address.
func loadBalancer(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeLoadBalancer,
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt(80)}},
		},
	}
}

// create makes objects and removes them after the spec.
func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, o := range objects {
		Expect(k8s.Create(ctx, o)).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			Expect(client.IgnoreNotFound(k8s.Delete(ctx, o, client.GracePeriodSeconds(0)))).To(Succeed()) // no kubelet ends a pod
		})
	}
}

// change edits an object as it is now.
func change[T client.Object](ctx context.Context, object T, edit func(T)) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) error {
		if err := k8s.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		edit(object)
		return k8s.Update(ctx, object)
	}).WithContext(ctx).Should(Succeed())
}

// addressOf returns the addresses that a Service shows.
func addressOf(name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var svc corev1.Service
		if err := k8s.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, &svc); err != nil {
			return "", err
		}
		var shown []string
		for _, i := range svc.Status.LoadBalancer.Ingress {
			shown = append(shown, i.IP)
		}
		return strings.Join(shown, " "), nil
	}
}

// conditionOf returns a condition of the ClusterNetworking as "Status Reason: Message", once its status speaks of the spec's generation.
func conditionOf(kind string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var cnet v1alpha1.ClusterNetworking
		if err := k8s.Get(ctx, client.ObjectKey{Name: "cluster"}, &cnet); err != nil {
			return "", err
		}
		c := meta.FindStatusCondition(cnet.Status.Conditions, kind)
		if c == nil || c.ObservedGeneration != cnet.Generation {
			return "not observed yet", nil
		}
		return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), nil
	}
}

// kubeadmConfig is kube-proxy's configuration as kubeadm writes it, shortened, with a comment and a setting of a user's.
const kubeadmConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
clientConnection:
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
clusterCIDR: 10.244.0.0/16
conntrack:
  maxPerCore: 0 # nested nodes cannot write nf_conntrack_max
  min: 0
futureField: kept
ipvs:
  scheduler: ""
  strictARP: false
kind: KubeProxyConfiguration
mode: ""
`

// kubeProxy makes kubeadm's kube-proxy: ConfigMap and DaemonSet.
func kubeProxy(ctx context.Context) *corev1.ConfigMap {
	GinkgoHelper()
	labels := map[string]string{"k8s-app": "kube-proxy"}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy", Annotations: map[string]string{"kubeadm.kubernetes.io/component-config.hash": "sha256:0"}},
		Data:       map[string]string{"config.conf": kubeadmConfig, "kubeconfig.conf": "kept"},
	}
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "kube-proxy", Image: "kube-proxy", Command: []string{"/usr/local/bin/kube-proxy", "--config=/var/lib/kube-proxy/config.conf"}}},
					Volumes: []corev1.Volume{{Name: "kube-proxy", VolumeSource: corev1.VolumeSource{
						ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-proxy"}}}}},
				},
			},
		},
	}
	create(ctx, cm, ds)
	return cm
}
