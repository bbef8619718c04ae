package controllers

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

var _ = Describe("kube-proxy's ConfigMap", func() {
	current := func(ctx context.Context) (*corev1.ConfigMap, error) {
		var cm corev1.ConfigMap
		return &cm, k8s.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "kube-proxy"}, &cm)
	}

	It("is never written without the section kubeProxy", func(ctx SpecContext) {
		before := kubeProxy(ctx)
		DeferCleanup(startManager(false))
		create(ctx, tutorial())
		Eventually(conditionOf("KubeProxyReady")).WithContext(ctx).Should(Equal("True NotManaged: spec.kubeProxy is absent: kube-proxy is not touched"))
		Consistently(current).WithContext(ctx).Should(HaveField("ResourceVersion", before.ResourceVersion))
	})

	It("is not written for a mode that is left open", func(ctx SpecContext) {
		before := kubeProxy(ctx)
		DeferCleanup(startManager(false))
		create(ctx, tutorial(func(s *v1alpha1.ClusterNetworkingSpec) { s.KubeProxy = &v1alpha1.KubeProxySpec{} }))
		Eventually(conditionOf("KubeProxyReady")).WithContext(ctx).Should(HavePrefix("True Ready: "))
		Expect(conditionOf("KubeProxyDeprecated")(ctx)).To(HavePrefix("True ModeLeftOpen: config.conf leaves the mode open: "))
		Consistently(current).WithContext(ctx).Should(HaveField("ResourceVersion", before.ResourceVersion))
	})

	It("changes in nothing but the declared fields, once every node has shown that it can run them", func(ctx SpecContext) {
		before := kubeProxy(ctx)
		able(ctx, "w1", "nftables")
		DeferCleanup(startManager(false))
		create(ctx, tutorial(func(s *v1alpha1.ClusterNetworkingSpec) {
			s.KubeProxy = &v1alpha1.KubeProxySpec{Mode: v1alpha1.ProxyModeNFTables}
		}))
		Eventually(current).WithContext(ctx).ShouldNot(HaveField("ResourceVersion", before.ResourceVersion))
		after, err := current(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(after.Data["config.conf"]).To(Equal(strings.Replace(kubeadmConfig, `mode: ""`, "mode: nftables", 1)))
		Expect(after.Data["kubeconfig.conf"]).To(Equal("kept"))
		Expect(after.Annotations).To(Equal(before.Annotations), "kubeadm's hash is not signed anew: the configuration is a user's now")
		Consistently(current).WithContext(ctx).Should(HaveField("ResourceVersion", after.ResourceVersion), "it is written once")
	})

	It("is left as it is, byte for byte, where a node cannot run what is asked for", func(ctx SpecContext) {
		before := kubeProxy(ctx)
		able(ctx, "w1", "nftables", "iptables")
		DeferCleanup(startManager(false))
		create(ctx, tutorial(func(s *v1alpha1.ClusterNetworkingSpec) {
			s.KubeProxy = &v1alpha1.KubeProxySpec{Mode: v1alpha1.ProxyModeIPVS}
		}))
		Eventually(conditionOf("KubeProxyReady")).WithContext(ctx).Should(And(HavePrefix("False PreflightFailed: "),
			ContainSubstring("w1"), ContainSubstring("ipvs not supported"), ContainSubstring("Nothing was written")))
		Consistently(current).WithContext(ctx).Should(HaveField("ResourceVersion", before.ResourceVersion))
	})

	It("is not written while paused, and what would be done is said", func(ctx SpecContext) {
		before := kubeProxy(ctx)
		DeferCleanup(startManager(false))
		create(ctx, tutorial(func(s *v1alpha1.ClusterNetworkingSpec) {
			s.ManagementState, s.KubeProxy = v1alpha1.Paused, &v1alpha1.KubeProxySpec{Mode: v1alpha1.ProxyModeNFTables}
		}))
		Eventually(conditionOf("KubeProxyReady")).WithContext(ctx).Should(Equal(`False Paused: 0 of 0 nodes run mode nftables; paused; would ` +
			`write mode: "" → nftables. Set spec.managementState to Managed to go on`))
		Consistently(current).WithContext(ctx).Should(HaveField("ResourceVersion", before.ResourceVersion))
	})

	It("is not waited for on a node that the DaemonSet's affinity leaves out", func(ctx SpecContext) {
		kubeProxy(ctx)
		const edge = "node-role.kubernetes.io/edge"
		change(ctx, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy"}}, func(ds *appsv1.DaemonSet) {
			ds.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: edge, Operator: corev1.NodeSelectorOpDoesNotExist}}}}}}}
		})
		create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}},
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge", Labels: map[string]string{edge: ""}}})
		DeferCleanup(startManager(false))
		create(ctx, tutorial(func(s *v1alpha1.ClusterNetworkingSpec) {
			s.ManagementState, s.KubeProxy = v1alpha1.Paused, &v1alpha1.KubeProxySpec{Mode: v1alpha1.ProxyModeNFTables}
		}))
		Eventually(conditionOf("KubeProxyReady")).WithContext(ctx).Should(HavePrefix("False Paused: 0 of 1 nodes run mode nftables; "))
	})

	It("is not written while the roll is paused, and the plan is in the status", func(ctx SpecContext) {
		before := kubeProxy(ctx)
		able(ctx, "w1", "nftables")
		DeferCleanup(startManager(false))
		create(ctx, tutorial(func(s *v1alpha1.ClusterNetworkingSpec) {
			s.KubeProxy = &v1alpha1.KubeProxySpec{Mode: v1alpha1.ProxyModeNFTables, Rollout: v1alpha1.KubeProxyRollout{State: v1alpha1.RolloutPaused}}
		}))
		Eventually(func(ctx context.Context) (string, error) {
			var cnet v1alpha1.ClusterNetworking
			err := k8s.Get(ctx, singleton.NamespacedName, &cnet)
			return cnet.Status.KubeProxy.PlannedDiff, err
		}).WithContext(ctx).Should(Equal(`mode: "" → nftables`))
		Consistently(current).WithContext(ctx).Should(HaveField("ResourceVersion", before.ResourceVersion))
	})

	It("is not written without the section, but strictARP is missed where a node runs ipvs", func(ctx SpecContext) {
		before := kubeProxy(ctx)
		started := metav1.Now().Rfc3339Copy()
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy-w1", Labels: map[string]string{"k8s-app": "kube-proxy"}},
			Spec:       corev1.PodSpec{NodeName: "w1", Containers: []corev1.Container{{Name: "kube-proxy", Image: "kube-proxy"}}},
		}
		report := &v1alpha1.NodeNetworking{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}
		create(ctx, node, pod, report)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "kube-proxy",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}}}
		Expect(k8s.Status().Update(ctx, pod)).To(Succeed())
		report.Status.KubeProxy = v1alpha1.NodeKubeProxy{Mode: "ipvs", StartTime: &started}
		Expect(k8s.Status().Update(ctx, report)).To(Succeed())
		DeferCleanup(startManager(false))
		create(ctx, tutorial())
		Eventually(conditionOf("KubeProxyReady")).WithContext(ctx).Should(HavePrefix("False StrictARPMissing: ConfigMap kube-system/kube-proxy: " +
			"config.conf has ipvs.strictARP: false, and kube-proxy runs in mode ipvs on w1"))
		Consistently(current).WithContext(ctx).Should(HaveField("ResourceVersion", before.ResourceVersion))
	})

	It("gets back what it had, once the object is gone that asked for that, and its Events tell", func(ctx SpecContext) {
		cm := kubeProxy(ctx)
		change(ctx, cm, func(c *corev1.ConfigMap) {
			c.Data["config.conf"] = strings.Replace(kubeadmConfig, `mode: ""`, "mode: nftables", 1)
		})
		settings, err := kubeproxy.Read(kubeadmConfig)
		Expect(err).NotTo(HaveOccurred())
		data, err := ledgerData(kubeproxy.Ledger{Original: &kubeproxy.Revision{Document: kubeadmConfig, Settings: settings},
			OnDelete: v1alpha1.OnDeleteRestore, Touched: []kubeproxy.Path{kubeproxy.PathMode}})
		Expect(err).NotTo(HaveOccurred())
		ledger := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.KubeProxyLedger}, Data: data}
		create(ctx, ledger)
		able(ctx, "w1", "nftables", "iptables")
		DeferCleanup(startManager(false))
		Eventually(current).WithContext(ctx).Should(HaveField("Data", HaveKeyWithValue("config.conf", MatchRegexp(`(?m)^mode: ("")?(iptables)?$`))))
		Eventually(func(ctx context.Context) ([]string, error) {
			var all eventsv1.EventList
			err := k8s.List(ctx, &all, client.InNamespace("kube-system"))
			var told []string
			for _, e := range all.Items {
				told = append(told, e.Regarding.Kind+" "+e.Regarding.Name+" "+e.Action+": "+e.Note)
			}
			return told, err
		}).WithContext(ctx).Should(ContainElement(MatchRegexp("^ConfigMap kube-proxy [A-Za-z]+: .* writing mode: nftables → ")))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(ledger), ledger)).To(Succeed())
		Expect(ledger.Data).To(HaveKeyWithValue("restore", "pending"), "w1 runs nftables still")
	})

	It("is left alone, and named, when it cannot be read", func(ctx SpecContext) {
		cm := kubeProxy(ctx)
		change(ctx, cm, func(c *corev1.ConfigMap) { c.Data["config.conf"] = "kind: [" })
		DeferCleanup(startManager(false))
		create(ctx, tutorial(func(s *v1alpha1.ClusterNetworkingSpec) {
			s.KubeProxy = &v1alpha1.KubeProxySpec{Mode: v1alpha1.ProxyModeNFTables}
		}))
		Eventually(conditionOf("KubeProxyReady")).WithContext(ctx).Should(
			HavePrefix("False InvalidConfiguration: ConfigMap kube-system/kube-proxy: config.conf is not YAML"))
		Expect(current(ctx)).To(HaveField("ResourceVersion", cm.ResourceVersion))
	})

	It("is left alone where somebody writes it back, though it looks like kubeadm's", func(ctx SpecContext) {
		cm := kubeProxy(ctx)
		change(ctx, cm, func(c *corev1.ConfigMap) { c.Labels = map[string]string{"k0s.k0sproject.io/stack": "kubeproxy"} })
		DeferCleanup(startManager(false))
		create(ctx, tutorial(func(s *v1alpha1.ClusterNetworkingSpec) {
			s.KubeProxy = &v1alpha1.KubeProxySpec{Mode: v1alpha1.ProxyModeNFTables}
		}))
		Eventually(conditionOf("KubeProxyReady")).WithContext(ctx).Should(HavePrefix("False UnmanagedLayout: this is k0s: "))
		Expect(current(ctx)).To(HaveField("ResourceVersion", cm.ResourceVersion))
	})

	It("is not looked for on a cluster that its nodes show to be another installer's", func(ctx SpecContext) {
		create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1", Labels: map[string]string{"kops.k8s.io/instancegroup": "nodes"}}})
		DeferCleanup(startManager(false))
		create(ctx, tutorial(func(s *v1alpha1.ClusterNetworkingSpec) {
			s.KubeProxy = &v1alpha1.KubeProxySpec{Mode: v1alpha1.ProxyModeNFTables}
		}))
		Eventually(conditionOf("KubeProxyReady")).WithContext(ctx).Should(HavePrefix("False UnmanagedLayout: this is kOps: "))
	})

	It("is not looked for on a cluster without kubeadm's kube-proxy", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		create(ctx, tutorial(func(s *v1alpha1.ClusterNetworkingSpec) {
			s.KubeProxy = &v1alpha1.KubeProxySpec{Mode: v1alpha1.ProxyModeNFTables}
		}))
		Eventually(conditionOf("KubeProxyReady")).WithContext(ctx).Should(HavePrefix(
			"False UnmanagedLayout: there is no DaemonSet kube-system/kube-proxy: this cluster runs without kube-proxy"))
	})
})
