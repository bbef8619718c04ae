package controllers

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// dualStack adds a pool of IPv6 addresses to the tutorial's network.
func dualStack(s *v1alpha1.ClusterNetworkingSpec) {
	s.IPPools = append(s.IPPools, v1alpha1.IPPool{Name: "lan-pool6", Addresses: []v1alpha1.AddressRange{"fd00:0192:0168:0001:0000:0000:0000:0200-fd00:0192:0168:0001:0000:0000:0000:0210"}})
	s.L2Advertisements[0].IPPools = nil
}

// wanting is a Service that asks for addresses of these families.
func wanting(name string, policy corev1.IPFamilyPolicy, wanted ...corev1.IPFamily) *corev1.Service {
	svc := loadBalancer(name)
	svc.Spec.IPFamilyPolicy, svc.Spec.IPFamilies = ptr.To(policy), wanted
	return svc
}

var _ = Describe("Families", func() {
	const v4, v6 = "192.168.1.200", "fd00:192:168:1::200"

	DescribeTable("are those that a Service asks for, in its order",
		func(ctx SpecContext, svc *corev1.Service, want string) {
			DeferCleanup(startManager(false))
			create(ctx, tutorial(dualStack), svc)
			Eventually(addressOf(svc.Name)).WithContext(ctx).Should(Equal(want))
			Consistently(addressOf(svc.Name)).WithContext(ctx).Should(Equal(want))
		},
		Entry("nothing said: the cluster's first", loadBalancer("lb-plain"), v4),
		Entry("IPv4 alone", wanting("lb-four", corev1.IPFamilyPolicySingleStack, corev1.IPv4Protocol), v4),
		Entry("IPv6 alone", wanting("lb-six", corev1.IPFamilyPolicySingleStack, corev1.IPv6Protocol), v6),
		Entry("both required", wanting("lb-both", corev1.IPFamilyPolicyRequireDualStack), v4+" "+v6),
		Entry("both required, IPv6 first", wanting("lb-both6", corev1.IPFamilyPolicyRequireDualStack, corev1.IPv6Protocol, corev1.IPv4Protocol), v6+" "+v4),
		Entry("both preferred", wanting("lb-rather", corev1.IPFamilyPolicyPreferDualStack), v4+" "+v6),
	)

	It("are both or none for a newcomer that requires both, with the reason, and it gets both once there is a pool", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		cnet := tutorial()
		create(ctx, cnet, wanting("lb-both", corev1.IPFamilyPolicyRequireDualStack))
		const why = "no pool has IPv6 addresses: add a range to spec.ipPools, or ask for the other family in the Service's ipFamilies"
		Eventually(conditionOf("IPPoolsReady")).WithContext(ctx).Should(Equal("False ServicesPending: default/lb-both (FamilyUnavailable): " + why))
		Eventually(func(ctx context.Context) ([]string, error) {
			var list eventsv1.EventList
			err := k8s.List(ctx, &list, client.InNamespace("default"))
			var notes []string
			for _, e := range list.Items {
				notes = append(notes, e.Regarding.Name+" "+e.Reason+": "+e.Note)
			}
			return notes, err
		}).WithContext(ctx).Should(ContainElement("lb-both FamilyUnavailable: " + why))
		Expect(addressOf("lb-both")(ctx)).To(BeEmpty())
		create(ctx, loadBalancer("lb-four"))
		Eventually(addressOf("lb-four")).WithContext(ctx).Should(Equal(v4), "what it cannot use it keeps from nobody")

		change(ctx, cnet, func(c *v1alpha1.ClusterNetworking) { dualStack(&c.Spec) })
		Eventually(addressOf("lb-both")).WithContext(ctx).Should(Equal("192.168.1.201 " + v6))
	})

	It("come one by one to a Service that prefers both, and the first does not move when the second comes or goes", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		cnet := tutorial()
		create(ctx, cnet, loadBalancer("lb-before"))
		Eventually(addressOf("lb-before")).WithContext(ctx).Should(Equal(v4))
		svc := wanting("lb-rather", corev1.IPFamilyPolicyPreferDualStack)
		create(ctx, svc)
		Eventually(addressOf("lb-rather")).WithContext(ctx).Should(Equal("192.168.1.201"))
		Eventually(conditionOf("IPPoolsReady")).WithContext(ctx).Should(HavePrefix("True "), "it has what there is")
		Expect(k8s.Delete(ctx, loadBalancer("lb-before"))).To(Succeed())

		change(ctx, cnet, func(c *v1alpha1.ClusterNetworking) { dualStack(&c.Spec) })
		Eventually(addressOf("lb-rather")).WithContext(ctx).Should(Equal("192.168.1.201 " + v6))
		change(ctx, cnet, func(c *v1alpha1.ClusterNetworking) { c.Spec = tutorial().Spec })
		Eventually(conditionOf("IPPoolsReady")).WithContext(ctx).Should(HavePrefix("True "))
		Consistently(addressOf("lb-rather")).WithContext(ctx).Should(Equal("192.168.1.201 "+v6), "a pool that goes takes nothing away")
	})

	It("come to a Service that asks for the second later, and the first does not move", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		svc := loadBalancer("lb-later")
		create(ctx, tutorial(dualStack), loadBalancer("lb-before"))
		Eventually(addressOf("lb-before")).WithContext(ctx).Should(Equal(v4))
		create(ctx, svc)
		Eventually(addressOf("lb-later")).WithContext(ctx).Should(Equal("192.168.1.201"))
		Expect(k8s.Delete(ctx, loadBalancer("lb-before"))).To(Succeed())
		change(ctx, svc, func(s *corev1.Service) { s.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack) })
		Eventually(addressOf("lb-later")).WithContext(ctx).Should(Equal("192.168.1.201 " + v6))
	})
})
