package controllers

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

var _ = Describe("A bad object", func() {
	DescribeTable("is refused at apply, with the field, the value and the remedy",
		func(ctx SpecContext, spoil func(*v1alpha1.ClusterNetworking), says ...string) {
			bad := tutorial()
			spoil(bad)
			err := k8s.Create(ctx, bad)
			Expect(err).To(HaveOccurred())
			for _, text := range says {
				Expect(err.Error()).To(ContainSubstring(text))
			}
		},
		Entry("another name", func(c *v1alpha1.ClusterNetworking) { c.Name = "default" },
			`metadata.name: there is one ClusterNetworking in a cluster and its name is "cluster": rename this object to "cluster"`),
		Entry("an unknown mode", func(c *v1alpha1.ClusterNetworking) { c.Spec.KubeProxy = &v1alpha1.KubeProxySpec{Mode: "userspace"} },
			`spec.kubeProxy.mode: Unsupported value: "userspace": supported values: "iptables", "ipvs", "nftables"`),
		Entry("a malformed address", func(c *v1alpha1.ClusterNetworking) {
			c.Spec.IPPools[0].Addresses = []v1alpha1.AddressRange{"192.168.1.200-192.168.1.2100"}
		}, `spec.ipPools[0].addresses[0]: Invalid value`, `"192.168.1.200-192.168.1.2100" is neither a CIDR nor a range of two addresses: write it like 192.168.1.192/28 or 192.168.1.200-192.168.1.210, without spaces`),
		Entry("host bits in a CIDR", func(c *v1alpha1.ClusterNetworking) {
			c.Spec.IPPools[0].Addresses = []v1alpha1.AddressRange{"192.168.1.200/28"}
		}, `spec.ipPools[0].addresses[0]`, `"192.168.1.200/28" has host bits set: write the network with its first address, or a range FIRST-LAST for a part of it`),
		Entry("host bits in an IPv6 CIDR", func(c *v1alpha1.ClusterNetworking) {
			c.Spec.IPPools[0].Addresses = []v1alpha1.AddressRange{"fd00::1/120"}
		}, `spec.ipPools[0].addresses[0]`, `"fd00::1/120" has host bits set: write the network with its first address, or a range FIRST-LAST for a part of it`),
		Entry("a range from IPv4 to IPv6", func(c *v1alpha1.ClusterNetworking) {
			c.Spec.IPPools[0].Addresses = []v1alpha1.AddressRange{"192.168.1.200-fd00::210"}
		}, `spec.ipPools[0].addresses[0]`, `"192.168.1.200-fd00::210" mixes IPv4 and IPv6: both ends of a range are of one family`),
		Entry("three addresses", func(c *v1alpha1.ClusterNetworking) {
			c.Spec.IPPools[0].Addresses = []v1alpha1.AddressRange{"192.168.1.200-192.168.1.210-192.168.1.220"}
		}, `spec.ipPools[0].addresses[0]`, `is neither a CIDR nor a range of two addresses`),
		Entry("an IPv4 address written as IPv6", func(c *v1alpha1.ClusterNetworking) {
			c.Spec.IPPools[0].Addresses = []v1alpha1.AddressRange{"::ffff:192.168.1.200-::ffff:192.168.1.210"}
		}, `spec.ipPools[0].addresses[0]`, `is neither a CIDR nor a range of two addresses`),
		Entry("an address with a zone", func(c *v1alpha1.ClusterNetworking) {
			c.Spec.IPPools[0].Addresses = []v1alpha1.AddressRange{"fe80::1%eth0-fe80::2%eth0"}
		}, `spec.ipPools[0].addresses[0]`, `is neither a CIDR nor a range of two addresses`),
		Entry("a pool without addresses", func(c *v1alpha1.ClusterNetworking) { c.Spec.IPPools[0].Addresses = []v1alpha1.AddressRange{} },
			`spec.ipPools[0].addresses`),
		Entry("two pools of one name", func(c *v1alpha1.ClusterNetworking) { c.Spec.IPPools = append(c.Spec.IPPools, c.Spec.IPPools[0]) },
			`spec.ipPools[1]: Duplicate value`),
	)

	DescribeTable("that only contradicts itself becomes a condition within a second, and the last good one stays in force",
		func(ctx SpecContext, spoil func(*v1alpha1.ClusterNetworkingSpec), says string) {
			DeferCleanup(startManager(false))
			cnet := tutorial()
			create(ctx, cnet, loadBalancer("lb-before"))
			Eventually(addressOf("lb-before")).WithContext(ctx).Should(Equal("192.168.1.200"))
			good := cnet.Generation

			change(ctx, cnet, func(c *v1alpha1.ClusterNetworking) { spoil(&c.Spec) })
			Expect(good).To(Equal(int64(1)))
			Eventually(conditionOf("IPPoolsReady")).WithTimeout(time.Second).WithContext(ctx).Should(
				Equal("False InvalidConfiguration: " + says + "; the last good configuration (generation 1) stays in force"))
			create(ctx, loadBalancer("lb-during"))
			Eventually(addressOf("lb-during")).WithContext(ctx).Should(Equal("192.168.1.201"), "the last good pools go on serving")
			Expect(addressOf("lb-before")(ctx)).To(Equal("192.168.1.200"))

			change(ctx, cnet, func(c *v1alpha1.ClusterNetworking) { c.Spec = tutorial().Spec })
			Eventually(conditionOf("IPPoolsReady")).WithContext(ctx).Should(HavePrefix("True "))
		},
		Entry("a reversed range", func(s *v1alpha1.ClusterNetworkingSpec) {
			s.IPPools[0].Addresses = []v1alpha1.AddressRange{"192.168.1.210-192.168.1.200"}
		}, `spec.ipPools[0].addresses[0]: "192.168.1.210-192.168.1.200" ends before it begins: write 192.168.1.200-192.168.1.210`),
		Entry("overlapping pools", func(s *v1alpha1.ClusterNetworkingSpec) {
			s.IPPools = append(s.IPPools, v1alpha1.IPPool{Name: "other", Addresses: []v1alpha1.AddressRange{"192.168.1.208/28"}})
		}, `spec.ipPools[1].addresses[0]: "192.168.1.208/28" overlaps "192.168.1.200-192.168.1.210" of pool "lan-pool": an address belongs to one pool, so take it out of one of the two`),
		Entry("an advertisement of a pool that does not exist", func(s *v1alpha1.ClusterNetworkingSpec) {
			s.L2Advertisements[0].IPPools = []string{"lan-pol"}
		}, `spec.l2Advertisements[0].ipPools[0]: there is no pool "lan-pol": name one of spec.ipPools (lan-pool), or leave ipPools empty for every pool`),
		Entry("a node selector with a bad operator", func(s *v1alpha1.ClusterNetworkingSpec) {
			s.L2Advertisements[0].NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "rack", Operator: "Is"}}}
		}, `spec.l2Advertisements[0].nodeSelector: "Is" is not a valid label selector operator: mend the label or the operator, or leave nodeSelector out for every node`),
	)
})

var _ = Describe("The data plane", func() {
	speakers := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.SpeakerDaemonSet}}
	get := func(ctx context.Context) (*appsv1.DaemonSet, error) {
		var ds appsv1.DaemonSet
		return &ds, k8s.Get(ctx, client.ObjectKeyFromObject(speakers), &ds)
	}

	It("comes back when it is deleted, and heals when it is edited", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		create(ctx, tutorial())
		Eventually(get).WithContext(ctx).Should(HaveField("Spec.Template.Spec.Containers", HaveLen(1)))
		Expect(k8s.Delete(ctx, speakers.DeepCopy())).To(Succeed())
		Eventually(get).WithContext(ctx).Should(HaveField("DeletionTimestamp", BeNil()))

		edited, err := get(ctx)
		Expect(err).NotTo(HaveOccurred())
		change(ctx, edited, func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.Containers[0].Image = "somebody/else" })
		Eventually(get).WithContext(ctx).Should(HaveField("Spec.Template.Spec.Containers", ContainElement(HaveField("Image", "lanyard:test"))))
	})

	It("has a Service by which speakers try their node's rules, which comes back when it is deleted", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		create(ctx, tutorial())
		probed := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.SpeakerService}}
		exists := func(ctx context.Context) error { return k8s.Get(ctx, client.ObjectKeyFromObject(probed), probed) }
		Eventually(exists).WithContext(ctx).Should(Succeed())
		Expect(probed.Spec.ClusterIP).NotTo(BeEmpty())
		Expect(probed.Spec.InternalTrafficPolicy).To(HaveValue(Equal(corev1.ServiceInternalTrafficPolicyLocal)))
		Expect(k8s.Delete(ctx, probed.DeepCopy())).To(Succeed())
		Eventually(exists).WithContext(ctx).Should(Succeed())
	})

	It("tells the speakers where kube-proxy is asked, as its configuration changes", func(ctx SpecContext) {
		cm := kubeProxy(ctx)
		DeferCleanup(startManager(false))
		create(ctx, tutorial())
		told := func(ctx context.Context) (string, error) {
			c, err := configurationInForce(ctx, k8s, namespace)
			if err != nil || c == nil {
				return "nothing", err
			}
			return c.KubeProxyMetricsAddress, nil
		}
		Eventually(told).WithContext(ctx).Should(BeEmpty(), "it is the default")
		change(ctx, cm, func(cm *corev1.ConfigMap) { cm.Data["config.conf"] += "metricsBindAddress: 0.0.0.0:20249\n" })
		Eventually(told).WithContext(ctx).Should(Equal("127.0.0.1:20249"))
	})

	It("removes what it made and no longer renders, and nothing else", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		old := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lanyard-of-an-older-version", Labels: speakerLabels()}}
		others := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "somebody-elses"}}
		create(ctx, old, others, tutorial())
		Eventually(func(ctx context.Context) error { return k8s.Get(ctx, client.ObjectKeyFromObject(old), old) }).WithContext(ctx).
			Should(MatchError(ContainSubstring("not found")))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(others), others)).To(Succeed())
	})

	It("does not overwrite an object of somebody else's that has its name", func(ctx SpecContext) {
		foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.MembershipSecret}, StringData: map[string]string{"theirs": "kept"}}
		Expect(client.IgnoreNotFound(k8s.Delete(ctx, foreign.DeepCopy()))).To(Succeed())
		create(ctx, foreign)
		DeferCleanup(startManager(false))
		create(ctx, tutorial())
		Eventually(conditionOf("SpeakersReady")).WithContext(ctx).Should(Equal("False ApplyFailed: Secret lanyard-system/lanyard-membership exists and was not made by Lanyard " +
			"(it lacks the label app.kubernetes.io/managed-by=lanyard): rename or delete it; it is tried again"))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)).To(Succeed())
		Expect(foreign.Data).To(HaveKeyWithValue("theirs", []byte("kept")))
		ds, err := get(ctx)
		Expect(err).NotTo(HaveOccurred())
		Consistently(get).WithContext(ctx).Should(HaveField("Generation", ds.Generation), "a key that cannot be written rolls no speaker again and again")
	})

	It("has its status mended when somebody edits it", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		cnet := tutorial()
		create(ctx, cnet)
		Eventually(conditionOf("IPPoolsReady")).WithContext(ctx).Should(HavePrefix("True "))
		for range 20 { // the first edits may be mended by passes that the start causes anyway
			Expect(k8s.Status().Patch(ctx, cnet, client.RawPatch(types.MergePatchType, []byte(`{"status":{"speakers":{"summary":"9/9"}}}`)))).To(Succeed())
			Eventually(func(ctx context.Context) (string, error) {
				err := k8s.Get(ctx, client.ObjectKeyFromObject(cnet), cnet)
				return cnet.Status.Speakers.Summary, err
			}).WithContext(ctx).Should(Equal("0/0"))
		}
	})

	It("writes nothing at all while the object is paused", func(ctx SpecContext) {
		cm := kubeProxy(ctx)
		DeferCleanup(startManager(false))
		cnet := tutorial()
		create(ctx, cnet, loadBalancer("lb-paused"))
		Eventually(addressOf("lb-paused")).WithContext(ctx).Should(Equal("192.168.1.200"))
		change(ctx, cnet, func(c *v1alpha1.ClusterNetworking) {
			c.Spec.ManagementState = v1alpha1.Paused
			c.Spec.KubeProxy = &v1alpha1.KubeProxySpec{Mode: v1alpha1.ProxyModeNFTables}
			c.Spec.Speaker.LogLevel = v1alpha1.LogLevelDebug
		})
		Eventually(conditionOf("Progressing")).WithContext(ctx).Should(HavePrefix("False Paused: "))
		ds, err := get(ctx)
		Expect(err).NotTo(HaveOccurred())
		create(ctx, loadBalancer("lb-waits"))
		Consistently(func(g Gomega, ctx context.Context) {
			g.Expect(addressOf("lb-waits")(ctx)).To(BeEmpty())
			g.Expect(addressOf("lb-paused")(ctx)).To(Equal("192.168.1.200"))
			now, err := get(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.ResourceVersion).To(Equal(ds.ResourceVersion))
			var proxy corev1.ConfigMap
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(cm), &proxy)).To(Succeed())
			g.Expect(proxy.ResourceVersion).To(Equal(cm.ResourceVersion))
		}).WithContext(ctx).Should(Succeed())

		change(ctx, cnet, func(c *v1alpha1.ClusterNetworking) { c.Spec.ManagementState = v1alpha1.Managed })
		Eventually(addressOf("lb-waits")).WithContext(ctx).Should(Equal("192.168.1.201"))
	})
})
