package controllers

import (
	"context"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/dataplane"
	"github.com/lanyard-dev/lanyard/internal/endpoints"
)

const kubeadmKubeconfig = `apiVersion: v1
kind: Config
clusters:
- {name: default, cluster: {server: "https://k8s.example.com:6443"}}
contexts:
- {name: default, context: {cluster: default, user: default}}
current-context: default
`

// apiServers makes the slice that API servers write of themselves. The test's own has no address that a slice may have, and writes none.
func apiServers(ctx context.Context, addresses ...string) {
	GinkgoHelper()
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}}
	_, err := controllerutil.CreateOrUpdate(ctx, k8s, slice, func() error {
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: "kubernetes"}
		slice.AddressType = discoveryv1.AddressTypeIPv4
		slice.Endpoints = nil
		for _, a := range addresses {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
		}
		slice.Ports = []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(6443))}}
		return nil
	})
	Expect(err).NotTo(HaveOccurred())
}

// listed returns the list of API servers.
func listed(ctx context.Context) (string, error) {
	var cm corev1.ConfigMap
	err := k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: endpoints.ConfigMap}, &cm)
	return cm.Data[endpoints.Key], client.IgnoreNotFound(err)
}

var _ = Describe("the list of API servers", func() {
	const (
		two = "k8s.example.com:6443\n192.168.1.125:6443\n192.168.1.126:6443\n10.0.0.1:443\n"
		one = "k8s.example.com:6443\n192.168.1.126:6443\n10.0.0.1:443\n"
	)

	BeforeEach(func(ctx SpecContext) {
		list := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: endpoints.ConfigMap}}
		Expect(client.IgnoreNotFound(k8s.Delete(ctx, list))).To(Succeed())
		proxy := kubeProxy(ctx)
		change(ctx, proxy, func(cm *corev1.ConfigMap) { cm.Data["kubeconfig.conf"] = kubeadmKubeconfig })
		apiServers(ctx, "192.168.1.126", "192.168.1.125")
		DeferCleanup(func(ctx context.Context) {
			slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}}
			Expect(client.IgnoreNotFound(k8s.Delete(ctx, slice))).To(Succeed())
		})
	})

	It("is kept, with or without a ClusterNetworking", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		Eventually(listed).WithContext(ctx).Should(Equal(two))

		By("following the control planes")
		apiServers(ctx, "192.168.1.126")
		Eventually(listed).WithContext(ctx).Should(Equal(one))

		By("keeping the last one's address while it restarts")
		apiServers(ctx)
		Consistently(listed).WithContext(ctx).Should(Equal(one))

		By("mending an edit")
		change(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: endpoints.ConfigMap}}, func(cm *corev1.ConfigMap) {
			cm.Data = map[string]string{endpoints.Key: "192.168.1.126:6443\nrubbish\n", "note": "mine"}
		})
		Eventually(listed).WithContext(ctx).Should(Equal(one))

		By("leaving alone what else is in there")
		var cm corev1.ConfigMap
		Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: endpoints.ConfigMap}, &cm)).To(Succeed())
		Expect(cm.Data).To(HaveKeyWithValue("note", "mine"))

		By("making it anew when it is removed")
		apiServers(ctx, "192.168.1.126", "192.168.1.125")
		Eventually(listed).WithContext(ctx).Should(Equal(two))
		Expect(k8s.Delete(ctx, &cm)).To(Succeed())
		Eventually(listed).WithContext(ctx).Should(Equal(two))
	})

	It("takes over what a person wrote before Lanyard came", func(ctx SpecContext) {
		create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: endpoints.ConfigMap},
			Data:       map[string]string{endpoints.Key: "192.168.1.125:6443\n"},
		})
		DeferCleanup(startManager(false))
		Eventually(listed).WithContext(ctx).Should(Equal(two))
	})

	It("is left as it is while Lanyard is paused", func(ctx SpecContext) {
		cnet := tutorial(func(s *v1alpha1.ClusterNetworkingSpec) { s.ManagementState = v1alpha1.Paused })
		create(ctx, cnet)
		DeferCleanup(startManager(false))
		Consistently(listed).WithContext(ctx).Should(BeEmpty())
		change(ctx, cnet, func(c *v1alpha1.ClusterNetworking) { c.Spec.ManagementState = v1alpha1.Managed })
		Eventually(listed).WithContext(ctx).Should(Equal(two))
	})
})

// TestPodsHaveTheList: manager and speakers mount the ConfigMap that the manager writes where they read it, and start without it too.
func TestPodsHaveTheList(t *testing.T) {
	var manager appsv1.Deployment
	text, err := os.ReadFile("../config/manager/manager.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &manager); err != nil {
		t.Fatal(err)
	}
	objects, err := dataplane.Render(dataplane.Values{Namespace: namespace, KubeVersion: "v1.36.3", Image: "lanyard:test", MembershipKeys: map[string][]byte{"key": make([]byte, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	var speakers appsv1.DaemonSet
	for _, o := range objects {
		if o.GetKind() == "DaemonSet" {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &speakers); err != nil {
				t.Fatal(err)
			}
		}
	}
	type mount struct {
		Args   []string
		Mounts []corev1.VolumeMount
		Source []corev1.VolumeSource
	}
	want := mount{
		Args:   []string{"--api-servers-file=" + endpoints.MountPath + "/" + endpoints.Key},
		Mounts: []corev1.VolumeMount{{Name: "api-servers", MountPath: endpoints.MountPath, ReadOnly: true}},
		Source: []corev1.VolumeSource{{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: endpoints.ConfigMap}, Optional: new(true)}}},
	}
	for name, pod := range map[string]corev1.PodSpec{"the manager": manager.Spec.Template.Spec, "the speakers": speakers.Spec.Template.Spec} {
		var got mount
		for _, arg := range pod.Containers[0].Args {
			if arg == want.Args[0] {
				got.Args = append(got.Args, arg)
			}
		}
		for _, m := range pod.Containers[0].VolumeMounts {
			if m.Name == "api-servers" {
				got.Mounts = append(got.Mounts, m)
			}
		}
		for _, v := range pod.Volumes {
			if v.Name == "api-servers" {
				got.Source = append(got.Source, v.VolumeSource)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("of %s (-want +got):\n%s", name, diff)
		}
	}
}
