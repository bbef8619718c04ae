package controllers

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/allocation"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// pools replaces the tutorial's pool.
func pools(all ...v1alpha1.IPPool) func(*v1alpha1.ClusterNetworkingSpec) {
	return func(s *v1alpha1.ClusterNetworkingSpec) { s.IPPools, s.L2Advertisements = all, nil }
}

// of is a pool of these ranges.
func of(name string, change func(*v1alpha1.IPPool), ranges ...v1alpha1.AddressRange) v1alpha1.IPPool {
	p := v1alpha1.IPPool{Name: name, Addresses: ranges}
	if change != nil {
		change(&p)
	}
	return p
}

// with is a Service that asks for something.
func with(name string, change ...func(*corev1.Service)) *corev1.Service {
	svc := loadBalancer(name)
	for _, c := range change {
		c(svc)
	}
	return svc
}

// allocatedOf returns what a Service's condition says, as "Status Reason: Message".
func allocatedOf(name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var svc corev1.Service
		if err := k8s.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, &svc); err != nil {
			return "", err
		}
		c := meta.FindStatusCondition(svc.Status.Conditions, v1alpha1.ServiceAllocated)
		if c == nil {
			return "", nil
		}
		return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), nil
	}
}

var _ = Describe("Which address a Service gets", func() {
	const general, bound = "192.168.1.200", "203.0.113.0"

	DescribeTable("depends on the pools that admit it",
		func(ctx SpecContext, change func(*v1alpha1.IPPool), svc *corev1.Service, want string) {
			DeferCleanup(startManager(false))
			namespaces := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
			Expect(k8s.Patch(ctx, namespaces, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"team":"a"}}}`)))).To(Succeed())
			create(ctx, tutorial(pools(of("general", nil, "192.168.1.200-192.168.1.210"), of("special", change, "203.0.113.0/30"))), svc)
			Eventually(addressOf(svc.Name)).WithContext(ctx).Should(Equal(want))
		},
		Entry("by priority alone", func(p *v1alpha1.IPPool) { p.Priority = 1 }, with("lb-priority"), bound),
		Entry("in a namespace that is named", func(p *v1alpha1.IPPool) {
			p.AllowedServices = &v1alpha1.AllowedServices{Namespaces: []string{"default"}}
		}, with("lb-namespace"), bound),
		Entry("in a namespace whose labels are selected", func(p *v1alpha1.IPPool) {
			p.AllowedServices = &v1alpha1.AllowedServices{NamespaceSelector: matching("team", "a")}
		}, with("lb-team"), bound),
		Entry("in another namespace", func(p *v1alpha1.IPPool) {
			p.AllowedServices = &v1alpha1.AllowedServices{NamespaceSelector: matching("team", "b")}
		}, with("lb-others"), general),
		Entry("with labels that are selected", func(p *v1alpha1.IPPool) {
			p.AllowedServices = &v1alpha1.AllowedServices{Selector: matching("tier", "edge")}
		}, with("lb-edge", func(s *corev1.Service) { s.Labels = map[string]string{"tier": "edge"} }), bound),
		Entry("in the right namespace, without the labels", func(p *v1alpha1.IPPool) {
			p.AllowedServices = &v1alpha1.AllowedServices{Namespaces: []string{"default"}, Selector: matching("tier", "edge")}
		}, with("lb-plain"), general),
		Entry("on request, and it asks", func(p *v1alpha1.IPPool) { p.Allocation = v1alpha1.AllocationOnRequest },
			with("lb-asks", annotated("metallb.universe.tf/address-pool", "special")), bound),
		Entry("on request, and it does not ask", func(p *v1alpha1.IPPool) { p.Allocation, p.Priority = v1alpha1.AllocationOnRequest, 1 },
			with("lb-silent"), general),
		Entry("without what is excluded", func(p *v1alpha1.IPPool) {
			p.Priority, p.Exclude = 1, []v1alpha1.ExcludedRange{"203.0.113.0", "203.0.113.1-203.0.113.2"}
		}, with("lb-excluded"), "203.0.113.3"),
		Entry("by a reservation", func(p *v1alpha1.IPPool) {
			p.Reservations = []v1alpha1.Reservation{{Address: "203.0.113.2", Service: v1alpha1.ServiceReference{Namespace: "default", Name: "lb-reserved"}}}
		}, with("lb-reserved"), "203.0.113.2"),
		Entry("an address that it asks for", nil, with("lb-wants", annotated("metallb.io/loadBalancerIPs", "203.0.113.3")), "203.0.113.3"),
		Entry("an address that it asks for in the field", nil, with("lb-field", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "203.0.113.3" }), "203.0.113.3"),
	)

	It("says in the Service's status and in the object's why it gets nothing, and gives it the address once it can", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		create(ctx, tutorial(), loadBalancer("lb-first"))
		Eventually(addressOf("lb-first")).WithContext(ctx).Should(Equal(general))
		Eventually(allocatedOf("lb-first")).WithContext(ctx).Should(Equal("True Allocated: it has 192.168.1.200 of pool lan-pool"))
		create(ctx, with("lb-wants", annotated(v1alpha1.IPsAnnotation, general)))
		const why = "192.168.1.200, which this Service asks for, is held by Service default/lb-first: ask for another, or give both the same sharing key"
		Eventually(allocatedOf("lb-wants")).WithContext(ctx).Should(Equal("False AddressTaken: " + why))
		Eventually(conditionOf("IPPoolsReady")).WithContext(ctx).Should(Equal("False ServicesPending: default/lb-wants (AddressTaken): " + why))
		Expect(k8s.Delete(ctx, loadBalancer("lb-first"))).To(Succeed())
		Eventually(addressOf("lb-wants")).WithContext(ctx).Should(Equal(general))
		Eventually(allocatedOf("lb-wants")).WithContext(ctx).Should(Equal("True Allocated: it has 192.168.1.200 of pool lan-pool"))
	})

	It("is another one once the Service asks for another, and not before it can have that", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		mover := loadBalancer("lb-mover")
		create(ctx, tutorial(), mover)
		Eventually(addressOf("lb-mover")).WithContext(ctx).Should(Equal(general))
		change(ctx, mover, annotated(v1alpha1.IPsAnnotation, "10.0.0.1"))
		Eventually(allocatedOf("lb-mover")).WithContext(ctx).Should(Equal("True NoPool: it has 192.168.1.200 of pool lan-pool; " +
			"no pool has 10.0.0.1, which this Service asks for: spec.ipPools has lan-pool"))
		change(ctx, mover, annotated(v1alpha1.IPsAnnotation, "192.168.1.207"))
		Eventually(addressOf("lb-mover")).WithContext(ctx).Should(Equal("192.168.1.207"))
	})

	It("is never one that means something on a node's network, which the status says", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		node := &v1alpha1.NodeNetworking{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}
		create(ctx, node)
		node.Status.Interfaces = []v1alpha1.NodeInterface{{Name: "eth0", MAC: "02:00:00:00:00:01", Addresses: []string{"10.0.7.9/24"}, Carrier: v1alpha1.CarrierUp}}
		node.Status.Gateways = []string{"10.0.7.1"}
		Expect(k8s.Status().Update(ctx, node)).To(Succeed())
		create(ctx, tutorial(pools(of("wide", nil, "10.0.7.0/24"))), loadBalancer("lb-1"))
		Eventually(addressOf("lb-1")).WithContext(ctx).Should(Equal("10.0.7.2"), "neither the network address nor the router's")
		Eventually(conditionOf("IPPoolsReady")).WithContext(ctx).Should(ContainSubstring("pool wide never gives 10.0.7.0 (the network address of 10.0.7.0/24)"))
		Expect(conditionOf("IPPoolsReady")(ctx)).To(ContainSubstring("pool wide never gives 10.0.7.1 (the router of node w1)"))
	})

	It("is the same after five restarts of the manager, whoever waits for it", func(ctx SpecContext) {
		stop := startManager(false)
		create(ctx, tutorial(pools(of("one", nil, "192.168.1.200/32"))), loadBalancer("lb-z"))
		Eventually(addressOf("lb-z")).WithContext(ctx).Should(Equal(general))
		create(ctx, loadBalancer("lb-a"), loadBalancer("lb-b"))
		for range 5 {
			stop()
			stop = startManager(false)
			Eventually(conditionOf("IPPoolsReady")).WithContext(ctx).Should(ContainSubstring("default/lb-a (PoolExhausted)"))
			Expect(addressOf("lb-z")(ctx)).To(Equal(general))
		}
		DeferCleanup(stop)
		By("giving it to the one that has waited longest, at once")
		Expect(k8s.Delete(ctx, loadBalancer("lb-z"))).To(Succeed())
		Eventually(addressOf("lb-a")).WithContext(ctx).Should(Equal(general))
		Consistently(addressOf("lb-b")).WithContext(ctx).Should(BeEmpty())
	})

	It("stays when its pool goes, where MetalLB takes it away or gives another: nobody has asked for a move", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		cnet := tutorial(pools(of("old", nil, "192.168.1.200/32"), of("new", nil, "192.168.1.205/32")))
		create(ctx, cnet, loadBalancer("lb-stays"))
		Eventually(addressOf("lb-stays")).WithContext(ctx).Should(Equal(general))
		change(ctx, cnet, func(c *v1alpha1.ClusterNetworking) { c.Spec.IPPools = c.Spec.IPPools[1:] })
		Eventually(conditionOf("IPPoolsReady")).WithContext(ctx).Should(HavePrefix("True "))
		Consistently(addressOf("lb-stays")).WithContext(ctx).Should(Equal(general))
		change(ctx, cnet, func(c *v1alpha1.ClusterNetworking) { c.Spec.IPPools = nil })
		Eventually(conditionOf("IPPoolsReady")).WithContext(ctx).Should(HavePrefix("True "))
		Consistently(addressOf("lb-stays")).WithContext(ctx).Should(Equal(general))
	})

	It("drains from a pool that does not give it any more, and the status counts it", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		cnet := tutorial()
		create(ctx, cnet, loadBalancer("lb-drains"))
		Eventually(addressOf("lb-drains")).WithContext(ctx).Should(Equal(general))
		counts := func(ctx context.Context) ([]v1alpha1.IPPoolStatus, error) {
			err := k8s.Get(ctx, client.ObjectKeyFromObject(cnet), cnet)
			return cnet.Status.IPPools, err
		}
		Eventually(counts).WithContext(ctx).Should(Equal([]v1alpha1.IPPoolStatus{{Name: "lan-pool", Total: "11", Allocated: "1", Available: "10"}}))
		change(ctx, cnet, func(c *v1alpha1.ClusterNetworking) {
			c.Spec.IPPools[0].Exclude = []v1alpha1.ExcludedRange{"192.168.1.200"}
		})
		Eventually(counts).WithContext(ctx).Should(Equal([]v1alpha1.IPPoolStatus{{Name: "lan-pool", Total: "10", Allocated: "0", Available: "10", Draining: "1"}}))
		change(ctx, cnet, func(c *v1alpha1.ClusterNetworking) {
			c.Spec.IPPools[0].Exclude, c.Spec.IPPools[0].Addresses = nil, []v1alpha1.AddressRange{"192.168.1.201-192.168.1.210"}
		})
		Eventually(counts).WithContext(ctx).Should(Equal([]v1alpha1.IPPoolStatus{{Name: "lan-pool", Total: "10", Allocated: "0", Available: "10", Draining: "1"}}))
		Expect(addressOf("lb-drains")(ctx)).To(Equal(general))
	})

	It("is Lanyard's once it was taken over, whoever wrote it: it drains, whatever the class is then, and it can be withdrawn", func(ctx SpecContext) {
		taken := loadBalancer("lb-taken")
		create(ctx, taken)
		taken.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.168.1.205"}} // the API server adds the ipMode
		Expect(k8s.Status().Update(ctx, taken, client.FieldOwner("metallb"))).To(Succeed())
		DeferCleanup(startManager(false))
		cnet := tutorial()
		create(ctx, cnet)
		writtenByUs := func(ctx context.Context) (bool, error) {
			err := k8s.Get(ctx, client.ObjectKeyFromObject(taken), taken)
			return allocation.WrittenByUs(taken), err
		}
		Eventually(writtenByUs).WithContext(ctx).Should(BeTrue())
		Expect(taken.Annotations).To(HaveKeyWithValue(v1alpha1.AllocatedAnnotation, "192.168.1.205=lan-pool"))
		Eventually(allocatedOf("lb-taken")).WithContext(ctx).Should(Equal("True Allocated: it has 192.168.1.205 of pool lan-pool"))

		change(ctx, cnet, func(c *v1alpha1.ClusterNetworking) {
			c.Spec.LoadBalancerClass, c.Spec.IPPools = "lanyard.dev/lan", []v1alpha1.IPPool{of("other", nil, "10.0.0.0/30")}
			c.Spec.L2Advertisements = nil
		})
		Eventually(conditionOf("IPPoolsReady")).WithContext(ctx).Should(HavePrefix("True "))
		Consistently(writtenByUs).WithContext(ctx).Should(BeTrue())
		Expect(allocation.Ours(taken, "lanyard.dev/lan")).To(BeTrue())
		Expect(addressOf("lb-taken")(ctx)).To(Equal("192.168.1.205"))

		Expect(k8s.Delete(ctx, cnet)).To(Succeed())
		Eventually(addressOf("lb-taken")).WithContext(ctx).Should(BeEmpty())
	})

	It("waits until the labels of its namespace are known", func() {
		in := rules{pools: lanPool, admissions: admissions{pools: make([]admission, 1), open: []int{0}, byLabels: true}}
		Expect(requestOf("default/lb", loadBalancer("lb"), in).Standing).To(Equal(ipam.Leaving))
		in.namespaces = map[string]labels.Set{"default": nil}
		Expect(requestOf("default/lb", loadBalancer("lb"), in).Standing).To(Equal(ipam.Current))
	})

	It("is not given to others for a while, where the pool wants that, but to the Service that had it", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		create(ctx, tutorial(func(s *v1alpha1.ClusterNetworkingSpec) { s.IPPools[0].ReuseAfterSeconds = 3 }), loadBalancer("lb-had"))
		Eventually(addressOf("lb-had")).WithContext(ctx).Should(Equal(general))
		Expect(k8s.Delete(ctx, loadBalancer("lb-had"))).To(Succeed())
		create(ctx, loadBalancer("lb-other"))
		Eventually(addressOf("lb-other")).WithContext(ctx).Should(Equal("192.168.1.201"))
		create(ctx, loadBalancer("lb-had"))
		Eventually(addressOf("lb-had")).WithContext(ctx).Should(Equal(general))
		Expect(k8s.Delete(ctx, loadBalancer("lb-had"))).To(Succeed())
		create(ctx, with("lb-wants", annotated(v1alpha1.IPsAnnotation, general)))
		Eventually(allocatedOf("lb-wants")).WithContext(ctx).Should(Equal("False AddressWithheld: 192.168.1.200, which this Service asks for, " +
			"is kept for Service default/lb-had: it had it until a moment ago (reuseAfterSeconds)"))
		Eventually(addressOf("lb-wants")).WithContext(ctx).Should(Equal(general), "nothing else happens meanwhile")
	})
})

var _ = Describe("Services that share an address", func() {
	shared := func(name string, port int32) *corev1.Service {
		return with(name, annotated("metallb.universe.tf/allow-shared-ip", "web"), func(s *corev1.Service) { s.Spec.Ports[0].Port = port })
	}

	It("have one, as long as they can, and the younger gets another when they cannot", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		first, second := shared("lb-http", 80), shared("lb-https", 443)
		create(ctx, tutorial(), first)
		Eventually(addressOf("lb-http")).WithContext(ctx).Should(Equal("192.168.1.200"))
		create(ctx, second, shared("lb-http-too", 80))
		Eventually(addressOf("lb-https")).WithContext(ctx).Should(Equal("192.168.1.200"))
		Eventually(addressOf("lb-http-too")).WithContext(ctx).Should(Equal("192.168.1.201"), "both have port 80")

		By("changing a member so that another node would have to answer for it")
		change(ctx, second, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
		Eventually(addressOf("lb-https")).WithContext(ctx).Should(Equal("192.168.1.202"))
		Expect(addressOf("lb-http")(ctx)).To(Equal("192.168.1.200"))
		Eventually(allocatedOf("lb-https")).WithContext(ctx).Should(Equal("True Allocated: it has 192.168.1.202 of pool lan-pool"))

		By("changing it back: it could share again, and stays where it is; MetalLB moves it, and nobody has asked for that")
		change(ctx, second, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster })
		Consistently(addressOf("lb-https")).WithContext(ctx).Should(Equal("192.168.1.202"))
	})

	It("keep it when one of them goes", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		create(ctx, tutorial(), shared("lb-http", 80))
		Eventually(addressOf("lb-http")).WithContext(ctx).Should(Equal("192.168.1.200"))
		create(ctx, shared("lb-https", 443))
		Eventually(addressOf("lb-https")).WithContext(ctx).Should(Equal("192.168.1.200"))
		Expect(k8s.Delete(ctx, loadBalancer("lb-http"))).To(Succeed())
		create(ctx, loadBalancer("lb-stranger"))
		Eventually(addressOf("lb-stranger")).WithContext(ctx).Should(Equal("192.168.1.201"))
		Expect(addressOf("lb-https")(ctx)).To(Equal("192.168.1.200"))
	})
})

var _ = Describe("The class of Services", func() {
	classy := func(name string) *corev1.Service {
		return with(name, func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("lanyard.dev/lan") })
	}

	It("is the one that is asked for, and Services without one are somebody else's then", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		create(ctx, tutorial(func(s *v1alpha1.ClusterNetworkingSpec) { s.LoadBalancerClass = "lanyard.dev/lan" }), loadBalancer("lb-plain"))
		create(ctx, classy("lb-classy"))
		Eventually(addressOf("lb-classy")).WithContext(ctx).Should(Equal("192.168.1.200"))
		Consistently(addressOf("lb-plain")).WithContext(ctx).Should(BeEmpty())
	})

	It("takes no address from a Service that has one when it changes", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		cnet := tutorial()
		create(ctx, cnet, loadBalancer("lb-plain"))
		Eventually(addressOf("lb-plain")).WithContext(ctx).Should(Equal("192.168.1.200"))
		change(ctx, cnet, func(c *v1alpha1.ClusterNetworking) { c.Spec.LoadBalancerClass = "lanyard.dev/lan" })
		create(ctx, classy("lb-classy"))
		Eventually(addressOf("lb-classy")).WithContext(ctx).Should(Equal("192.168.1.201"))
		Expect(addressOf("lb-plain")(ctx)).To(Equal("192.168.1.200"))
	})
})
