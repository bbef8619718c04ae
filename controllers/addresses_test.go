package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/configuration"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// deletionOfSpeakers returns where the resourceVersion comes with which their DaemonSet is deleted.
func deletionOfSpeakers(ctx context.Context) <-chan string {
	GinkgoHelper()
	c, err := client.NewWithWatch(restConfig, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	watching, err := c.Watch(ctx, &appsv1.DaemonSetList{}, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(watching.Stop)
	gone := make(chan string, 1)
	go func() {
		for event := range watching.ResultChan() {
			if object, ok := event.Object.(*appsv1.DaemonSet); ok && event.Type == watch.Deleted {
				gone <- object.ResourceVersion
				return
			}
		}
	}()
	return gone
}

var _ = Describe("Addresses", func() {
	It("gives the lowest address, frees it with the Service, and gives it to the next", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		first := loadBalancer("lb-test")
		create(ctx, first)
		Consistently(addressOf("lb-test")).WithContext(ctx).Should(BeEmpty(), "without the object nobody gives out addresses")

		create(ctx, tutorial())
		Eventually(addressOf("lb-test")).WithContext(ctx).Should(Equal("192.168.1.200"))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(first), first)).To(Succeed())
		Expect(first.Annotations).To(HaveKeyWithValue(v1alpha1.AllocatedAnnotation, "192.168.1.200=lan-pool"))
		Expect(first.Status.LoadBalancer.Ingress[0].IPMode).To(HaveValue(Equal(corev1.LoadBalancerIPModeVIP)), "kube-proxy ignores addresses of mode Proxy")

		Expect(k8s.Delete(ctx, first)).To(Succeed())
		create(ctx, loadBalancer("lb-next"))
		Eventually(addressOf("lb-next")).WithContext(ctx).Should(Equal("192.168.1.200"))
	})

	It("keeps annotations of others when it adds its own", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		svc := loadBalancer("lb-annotated")
		svc.Annotations = map[string]string{"team": "web"}
		create(ctx, svc, tutorial())
		Eventually(addressOf("lb-annotated")).WithContext(ctx).Should(Equal("192.168.1.200"))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(svc), svc)).To(Succeed())
		Expect(svc.Annotations).To(Equal(map[string]string{"team": "web", v1alpha1.AllocatedAnnotation: "192.168.1.200=lan-pool"}))
	})

	It("leaves Services of a class, and what another controller wrote, alone", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		classy := loadBalancer("lb-classy")
		classy.Spec.LoadBalancerClass = ptr.To("example.com/other")
		foreign := loadBalancer("lb-foreign")
		create(ctx, classy, foreign)
		foreign.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.9.9.9"}}
		Expect(k8s.Status().Update(ctx, foreign, client.FieldOwner("somebody-else"))).To(Succeed())
		version := foreign.ResourceVersion

		create(ctx, tutorial(), loadBalancer("lb-ours"))
		Eventually(addressOf("lb-ours")).WithContext(ctx).Should(Equal("192.168.1.200"))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)).To(Succeed())
		Expect(foreign.ResourceVersion).To(Equal(version), "not a byte of somebody else's Service changes")
		Expect(addressOf("lb-classy")(ctx)).To(BeEmpty())
	})

	It("keeps an address that a pool no longer holds, and gives a newcomer one that it does", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		cnet := tutorial()
		create(ctx, loadBalancer("lb-old"), cnet)
		Eventually(addressOf("lb-old")).WithContext(ctx).Should(Equal("192.168.1.200"))
		change(ctx, cnet, func(c *v1alpha1.ClusterNetworking) {
			c.Spec.IPPools[0].Addresses = []v1alpha1.AddressRange{"192.168.1.205-192.168.1.206"}
		})
		Eventually(conditionOf("IPPoolsReady")).WithContext(ctx).Should(HavePrefix("True "), "the new range is in force")
		create(ctx, loadBalancer("lb-new"))
		Eventually(addressOf("lb-new")).WithContext(ctx).Should(Equal("192.168.1.205"))
		Consistently(addressOf("lb-old")).WithContext(ctx).Should(Equal("192.168.1.200"))
	})

	It("takes the address of a Service that is no load balancer any more", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		flipped := loadBalancer("lb-flipped")
		create(ctx, flipped, tutorial())
		Eventually(addressOf("lb-flipped")).WithContext(ctx).Should(Equal("192.168.1.200"))
		change(ctx, flipped, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
		Eventually(addressOf("lb-flipped")).WithContext(ctx).Should(BeEmpty())
		create(ctx, loadBalancer("lb-after"))
		Eventually(addressOf("lb-after")).WithContext(ctx).Should(Equal("192.168.1.200"))
	})

	It("says in an Event and in the status why a Service gets nothing", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		create(ctx, tutorial(func(s *v1alpha1.ClusterNetworkingSpec) {
			s.IPPools[0].Addresses = []v1alpha1.AddressRange{"192.168.1.200/32"}
		}))
		create(ctx, loadBalancer("lb-1"))
		Eventually(addressOf("lb-1")).WithContext(ctx).Should(Equal("192.168.1.200"))
		create(ctx, loadBalancer("lb-2"))
		const why = "every IPv4 address of pool lan-pool is in use: add a range to spec.ipPools, or delete a Service that is not needed"
		Eventually(conditionOf("IPPoolsReady")).WithContext(ctx).Should(Equal("False ServicesPending: default/lb-2 (PoolExhausted): " + why))
		Eventually(func(ctx context.Context) ([]string, error) {
			var list eventsv1.EventList
			err := k8s.List(ctx, &list, client.InNamespace("default"))
			var notes []string
			for _, e := range list.Items {
				notes = append(notes, e.Regarding.Name+" "+e.Reason+": "+e.Note)
			}
			return notes, err
		}).WithContext(ctx).Should(ContainElement("lb-2 PoolExhausted: " + why))
	})

	It("withdraws everything once the object has been gone for the grace period, and gives everyone the same back", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		cnet := tutorial()
		create(ctx, cnet, loadBalancer("lb-a"))
		Eventually(addressOf("lb-a")).WithContext(ctx).Should(Equal("192.168.1.200"))
		create(ctx, loadBalancer("lb-b"))
		Eventually(addressOf("lb-b")).WithContext(ctx).Should(Equal("192.168.1.201"))

		speakersGone := deletionOfSpeakers(ctx)
		Expect(k8s.Delete(ctx, cnet)).To(Succeed())
		Expect(addressOf("lb-b")(ctx)).To(Equal("192.168.1.201"), "a deletion by mistake has a moment to be mended")
		deleted := <-speakersGone
		Expect(addressOf("lb-b")(ctx)).To(BeEmpty())
		var last corev1.Service
		Expect(k8s.Get(ctx, client.ObjectKey{Namespace: "default", Name: "lb-b"}, &last)).To(Succeed())
		// Both numbers are the one etcd's.
		order, err := resourceversion.CompareResourceVersion(last.ResourceVersion, deleted)
		Expect(err).NotTo(HaveOccurred())
		Expect(order).To(BeNumerically("<", 0), "the Service showed an address after the speakers were gone")
		Expect(addressOf("lb-a")(ctx)).To(BeEmpty())
		Expect(k8s.Delete(ctx, loadBalancer("lb-a"))).To(Succeed())

		create(ctx, tutorial())
		Eventually(addressOf("lb-b")).WithContext(ctx).Should(Equal("192.168.1.201"), "although .200 is free now")
	})

	It("leaves what Services show alone after a new install, until the object has been gone for the grace period", func(ctx SpecContext) {
		before := loadBalancer("lb-before")
		create(ctx, before)
		before.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.168.1.204", IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}}
		Expect(k8s.Status().Update(ctx, before, client.FieldOwner(v1alpha1.FieldManager))).To(Succeed())
		_, err := reconcilerOn(k8s).Reconcile(ctx, singleton)
		Expect(err).NotTo(HaveOccurred())
		Expect(addressOf("lb-before")(ctx)).To(Equal("192.168.1.204"), "neither object nor ConfigMap: the first pass proves nothing")

		DeferCleanup(startManager(false))
		Eventually(addressOf("lb-before")).WithContext(ctx).Should(BeEmpty(), "there is no ConfigMap whose deletion could say that the grace is over")
	})

	It("gives nobody what a foreign host on the LAN has, says which host that is, and leaves a Service what it has", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		create(ctx, tutorial(), loadBalancer("lb-old"))
		Eventually(addressOf("lb-old")).WithContext(ctx).Should(Equal("192.168.1.200"))
		node := &v1alpha1.NodeNetworking{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}
		create(ctx, node)
		since := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		node.Status.Foreign = []v1alpha1.ForeignIP{{IP: "192.168.1.200", MAC: "02:00:00:00:00:09", Interface: "eth0", Since: since},
			{IP: "192.168.1.201", MAC: "02:00:00:00:00:09", Interface: "eth0", Since: since}}
		Expect(k8s.Status().Update(ctx, node)).To(Succeed())
		Eventually(func(g Gomega, ctx context.Context) {
			var cnet v1alpha1.ClusterNetworking
			g.Expect(k8s.Get(ctx, client.ObjectKey{Name: "cluster"}, &cnet)).To(Succeed())
			has := func(ip string) v1alpha1.QuarantinedIP {
				return v1alpha1.QuarantinedIP{IP: ip, IPPool: "lan-pool", MAC: "02:00:00:00:00:09", Node: "w1", Interface: "eth0", Since: metav1.NewTime(since.Local())}
			}
			g.Expect(cnet.Status.QuarantinedIPs).To(Equal([]v1alpha1.QuarantinedIP{has("192.168.1.200"), has("192.168.1.201")}))
			g.Expect(cnet.Status.IPPools).To(Equal([]v1alpha1.IPPoolStatus{
				{Name: "lan-pool", Total: "11", Allocated: "1", Available: "9", Quarantined: "1"}}))
		}).WithContext(ctx).Should(Succeed())

		create(ctx, loadBalancer("lb-young"))
		Eventually(addressOf("lb-young")).WithContext(ctx).Should(Equal("192.168.1.202"))
		Expect(addressOf("lb-old")(ctx)).To(Equal("192.168.1.200"))
	})

	It("plans anew over what somebody else wrote meanwhile, which is no failure", func(ctx SpecContext) {
		stale := loadBalancer("lb-stale")
		create(ctx, stale)
		now := stale.DeepCopy()
		now.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.9.9.9"}}
		Expect(k8s.Status().Update(ctx, now, client.FieldOwner("somebody-else"))).To(Succeed())
		r := reconcilerOn(k8s)
		outrun := write{service: stale, addresses: from("lan-pool", "192.168.1.200")}
		_, err := r.write(ctx, outrun)
		Expect(err).To(MatchError(errOutrun))
		Expect(addressOf("lb-stale")(ctx)).To(Equal("10.9.9.9"))

		By("telling it from a value that the API server refuses with the same code")
		refused := write{service: now, addresses: []ipam.Holding{{}}}
		_, err = r.write(ctx, refused)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err).NotTo(MatchError(errOutrun))
		Expect(r.apply(ctx, []write{outrun})).To(MatchError(errOutrun))
		Expect(r.apply(ctx, []write{outrun, refused})).NotTo(MatchError(errOutrun), "the worse of two errors is the one to tell")
	})

	It("does not call it a failure that somebody else was first, until that happens again and again", func(ctx SpecContext) {
		c := tutorial()
		doc, err := configuration.FromObject(c).Encode()
		Expect(err).NotTo(HaveOccurred())
		create(ctx, loadBalancer("lb-fought-over"), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.ConfigurationConfigMap},
			Data:       map[string]string{v1alpha1.ConfigurationKey: doc},
		})
		r := reconcilerOn(outranBy("somebody-else"))
		for range outrunsToTell - 1 {
			Expect(r.Reconcile(ctx, singleton)).To(Equal(ctrl.Result{RequeueAfter: outrunRetry}))
			Expect(r.board.read().addresses).To(BeNil())
		}
		_, err = r.Reconcile(ctx, singleton)
		Expect(err).To(MatchError(errOutrun))
		Expect(r.board.read().addresses.err).To(MatchError("writing the addresses of Service default/lb-fought-over: " +
			"its status was changed meanwhile by somebody else: see whether another controller serves it too"))
	})

	It("changes no address when the manager restarts, whoever waits", func(ctx SpecContext) {
		stop := startManager(false)
		create(ctx, tutorial())
		create(ctx, loadBalancer("lb-z"))
		Eventually(addressOf("lb-z")).WithContext(ctx).Should(Equal("192.168.1.200"))
		stop()
		create(ctx, loadBalancer("lb-a")) // sorts first, and waits
		DeferCleanup(startManager(false))
		Eventually(addressOf("lb-a")).WithContext(ctx).Should(Equal("192.168.1.201"))
		Expect(addressOf("lb-z")(ctx)).To(Equal("192.168.1.200"))
	})

	It("never gives one address twice while the lead goes from manager to manager", func(ctx SpecContext) {
		create(ctx, tutorial(func(s *v1alpha1.ClusterNetworkingSpec) {
			s.IPPools[0].Addresses = []v1alpha1.AddressRange{"10.200.0.0/24"}
		}))
		leads, stopLeader := startElected(true)
		Eventually(leads).WithContext(ctx).Should(BeClosed())
		takesOver, stop := startElected(true)
		DeferCleanup(stop)

		const count = 60
		var creating sync.WaitGroup
		creating.Go(func() {
			defer GinkgoRecover()
			for i := range count {
				create(ctx, loadBalancer(fmt.Sprintf("lb-%02d", i)))
			}
		})
		Eventually(addressOf("lb-05")).WithContext(ctx).ShouldNot(BeEmpty(), "the leader is at work")
		Expect(takesOver).NotTo(BeClosed(), "one leads at a time")
		stopLeader() // in the middle of the work
		Eventually(takesOver).WithContext(ctx).Should(BeClosed())
		creating.Wait()
		seen := map[string]string{}
		for i := range count {
			name := fmt.Sprintf("lb-%02d", i)
			Eventually(addressOf(name)).WithTimeout(30 * time.Second).WithContext(ctx).ShouldNot(BeEmpty())
			address, err := addressOf(name)(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(seen).NotTo(HaveKey(address), "%s and %s have the same address", name, seen[address])
			seen[address] = name
		}
	}, SpecTimeout(2*time.Minute))
})

// reconcilerOn is a reconciler without a manager: a spec makes its passes one by one.
func reconcilerOn(c client.Client) *AddressesReconciler {
	return &AddressesReconciler{
		metrics: newAddressMetrics(prometheus.NewRegistry()),
		client:  c, namespace: namespace, board: newBoard(), recorder: recorder{to: events.NewFakeRecorder(100)},
		services:     serviceView{cache: k8s, live: k8s, newer: map[types.NamespacedName]*corev1.Service{}},
		serviceCIDRs: serviceCIDRs{live: k8s}, contests: contests{},
	}
}

// outranBy returns a client before each of whose writes to a Service's status another manager gives the Service another address of the pool.
func outranBy(manager string) client.Client {
	GinkgoHelper()
	direct, err := client.NewWithWatch(restConfig, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	last := 0
	return interceptor.NewClient(direct, interceptor.Funcs{SubResourcePatch: func(
		ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
	) error {
		var svc corev1.Service
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), &svc); err != nil {
			return err
		}
		last++
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: fmt.Sprintf("192.168.1.%d", 200+last%10)}}
		if err := c.Status().Update(ctx, &svc, client.FieldOwner(manager)); err != nil {
			return err
		}
		return c.SubResource(sub).Patch(ctx, o, p, opts...)
	}})
}
