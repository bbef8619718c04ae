package controllers

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// marking asks for the pods of lost nodes to be marked.
func marking(s *v1alpha1.ClusterNetworkingSpec) {
	s.FailureDetection.MarkPodsNotReady = v1alpha1.MarkPodsNotReadyEnabled
}

// rack makes nodes whose speakers report, each with a ready pod of the node's name.
func rack(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "web", Image: "web"}}},
		}
		create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, &v1alpha1.NodeNetworking{ObjectMeta: metav1.ObjectMeta{Name: name}}, pod)
		kubeletSaysReady(ctx, name)
	}
}

// kubeletSaysReady is what a living kubelet does about a pod of its own that somebody marked.
func kubeletSaysReady(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) error {
		var pod corev1.Pod
		if err := k8s.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, &pod); err != nil {
			return err
		}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return k8s.Status().Update(ctx, &pod)
	}).WithContext(ctx).Should(Succeed())
}

// loses says by the speaker of a node that nothing of these nodes answers.
func loses(ctx context.Context, witness string, silent ...string) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) error {
		var report v1alpha1.NodeNetworking
		if err := k8s.Get(ctx, client.ObjectKey{Name: witness}, &report); err != nil {
			return err
		}
		report.Status.SilentNodes = nil
		for _, node := range silent {
			report.Status.SilentNodes = append(report.Status.SilentNodes, v1alpha1.SilentNode{Name: node, Since: metav1.NewTime(time.Now())})
		}
		return k8s.Status().Update(ctx, &report)
	}).WithContext(ctx).Should(Succeed())
}

// readiness is the Ready condition of a node's pod as "Status Reason".
func readiness(name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var pod corev1.Pod
		err := k8s.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, &pod)
		said := ""
		for _, c := range pod.Status.Conditions {
			said += fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason)
		}
		return said, err
	}
}

var _ = Describe("The pods of a lost node", func() {
	const ready, marked = "Ready=True ", "Ready=False NodeLost"

	BeforeEach(func(ctx SpecContext) {
		rack(ctx, "rack-a", "rack-b", "rack-c")
	})

	It("are marked not ready once most speakers say that nothing of it answers, and no other pod is", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		create(ctx, tutorial(marking))
		loses(ctx, "rack-a", "rack-c")
		Consistently(readiness("rack-c")).WithContext(ctx).Should(Equal(ready), "one of three is not most")
		loses(ctx, "rack-b", "rack-c")
		Eventually(readiness("rack-c")).WithContext(ctx).Should(Equal(marked))
		Expect(readiness("rack-a")(ctx)).To(Equal(ready))
		Expect(readiness("rack-b")(ctx)).To(Equal(ready))
		Eventually(func(ctx context.Context) ([]string, error) {
			var list eventsv1.EventList
			err := k8s.List(ctx, &list)
			var notes []string
			for _, e := range list.Items {
				notes = append(notes, e.Reason+": "+e.Note)
			}
			return notes, err
		}).WithContext(ctx).Should(ContainElement(SatisfyAll(HavePrefix("NodeLost: node rack-c is lost: since"),
			HaveSuffix("1 of its pods are marked not ready, so that Services leave them out"))))
	})

	It("are left to a kubelet that says otherwise, until the node is lost anew", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		create(ctx, tutorial(marking))
		loses(ctx, "rack-a", "rack-c")
		loses(ctx, "rack-b", "rack-c")
		Eventually(readiness("rack-c")).WithContext(ctx).Should(Equal(marked))
		kubeletSaysReady(ctx, "rack-c")
		loses(ctx, "rack-b", "rack-c", "rack-a") // a change that is none for this node
		Consistently(readiness("rack-c")).WithContext(ctx).Should(Equal(ready))
		loses(ctx, "rack-a")
		loses(ctx, "rack-b")
		Consistently(readiness("rack-c")).WithContext(ctx).Should(Equal(ready))
		loses(ctx, "rack-a", "rack-c")
		loses(ctx, "rack-b", "rack-c")
		Eventually(readiness("rack-c")).WithContext(ctx).Should(Equal(marked))
	})

	It("stay as they are where that is not asked for, and are marked once it is", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		cnet := tutorial()
		create(ctx, cnet)
		loses(ctx, "rack-a", "rack-c")
		loses(ctx, "rack-b", "rack-c")
		Consistently(readiness("rack-c")).WithContext(ctx).Should(Equal(ready))
		change(ctx, cnet, func(c *v1alpha1.ClusterNetworking) { marking(&c.Spec) })
		Eventually(readiness("rack-c")).WithContext(ctx).Should(Equal(marked))
	})

	It("are marked by a manager that does not lead, too: the one that does may be on the lost node", func(ctx SpecContext) {
		now := metav1.NowMicro()
		lease := metav1.ObjectMeta{Namespace: namespace, Name: "lanyard-manager"}
		Expect(client.IgnoreNotFound(k8s.Delete(ctx, &coordinationv1.Lease{ObjectMeta: lease}))).To(Succeed(), "that of an earlier leader")
		create(ctx, &coordinationv1.Lease{ObjectMeta: lease,
			Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("one that is lost"), LeaseDurationSeconds: ptr.To(int32(3600)), AcquireTime: &now, RenewTime: &now}})
		leads, stop := startElected(true)
		DeferCleanup(stop)
		create(ctx, tutorial(marking))
		loses(ctx, "rack-a", "rack-c")
		loses(ctx, "rack-b", "rack-c")
		Eventually(readiness("rack-c")).WithContext(ctx).Should(Equal(marked))
		Expect(leads).NotTo(BeClosed())
	})

	It("stay as they are while the object is paused", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		create(ctx, tutorial(marking, func(s *v1alpha1.ClusterNetworkingSpec) { s.ManagementState = v1alpha1.Paused }))
		loses(ctx, "rack-a", "rack-c")
		loses(ctx, "rack-b", "rack-c")
		Consistently(readiness("rack-c")).WithContext(ctx).Should(Equal(ready))
	})
})
