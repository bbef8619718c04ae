package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// webServersOn returns the nodes that run a web server of the tutorial.
func webServersOn(ctx context.Context) ([]string, error) {
	var pods corev1.PodList
	err := k8s.List(ctx, &pods, client.InNamespace("default"), client.MatchingLabels{"app": "lb-test"})
	var nodes []string
	for _, p := range pods.Items {
		nodes = append(nodes, p.Spec.NodeName)
	}
	return nodes, err
}

// webServersOff is the patch that keeps them off a node.
func webServersOff(node string) string {
	return `{"spec":{"template":{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":` +
		`{"nodeSelectorTerms":[{"matchExpressions":[{"key":"kubernetes.io/hostname","operator":"NotIn","values":["` + node + `"]}]}]}}}}}}}`
}

// webServersApart is the patch that puts them on workers, one on each.
const webServersApart = `{"spec":{"template":{"spec":{"affinity":{"nodeAffinity":null,"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[` +
	`{"labelSelector":{"matchLabels":{"app":"lb-test"}},"matchLabelKeys":["pod-template-hash"],"topologyKey":"kubernetes.io/hostname"}]}}}}}}`

// webServersAnywhere is the patch that lets them run on any node.
const webServersAnywhere = `{"spec":{"template":{"spec":{"affinity":null}}}}`

// endpointsOn returns the nodes of the web servers to which the Service of the tutorial leads.
func endpointsOn(ctx context.Context) ([]string, error) {
	var list discoveryv1.EndpointSliceList
	err := k8s.List(ctx, &list, client.InNamespace("default"), client.MatchingLabels{discoveryv1.LabelServiceName: "lb-next"})
	var nodes []string
	for _, es := range list.Items {
		for _, e := range es.Endpoints {
			if ptr.Deref(e.Conditions.Ready, true) {
				nodes = append(nodes, ptr.Deref(e.NodeName, ""))
			}
		}
	}
	return nodes, err
}

// moveWebServersOff moves the web servers of the tutorial off a node that is going to be hurt, so that only the announcement is at stake.
func moveWebServersOff(ctx context.Context, node string) {
	GinkgoHelper()
	By("moving the web servers off " + node)
	kubectl(ctx, "patch", "deployment", "lb-test", "-p", webServersOff(node))
	kubectl(ctx, "rollout", "status", "deployment", "lb-test", "--timeout=120s")
	Eventually(webServersOn).WithContext(ctx).Should(And(HaveLen(2), Not(ContainElement(node))))
	Eventually(curl(first)).WithContext(ctx).Should(ContainSubstring("Welcome to nginx!"))
}

// faultSpecs take the node that answers for the address away in the ways in which a rack loses one, and give it back.
func faultSpecs() {
	DescribeTable("has another node answer for the address, and one alone after the repair",
		func(ctx SpecContext, fault string, hurt, mend []string) {
			owner := ready(ctx)
			moveWebServersOff(ctx, owner.Node)

			By(fault + " of " + owner.Node)
			outage := measureOutage(ctx, first)
			lab(ctx, append(hurt, owner.Node)...)
			DeferCleanup(func(ctx SpecContext) { lab(ctx, append(mend, owner.Node)...) })
			Eventually(curl(first)).WithPolling(20 * time.Millisecond).WithContext(ctx).Should(ContainSubstring("Welcome to nginx!"))
			Eventually(answering).WithArguments(first).WithContext(ctx).Should(And(HaveLen(1), Not(ContainElement(owner.MAC))))
			longest, _ := outage.stop()
			AddReportEntry("longest time without an answer after "+fault, longest.String())
			successor := agree(ctx, first)
			Expect(successor.Node).NotTo(Equal(owner.Node))

			By("mending it")
			lab(ctx, append(mend, owner.Node)...)
			Eventually(condition("Ready")).WithTimeout(3 * time.Minute).WithContext(ctx).Should(HavePrefix("True Ready: "))
			Expect(agree(ctx, first).Node).To(Equal(successor.Node), "who returns takes nothing back")
			Consistently(answering).WithArguments(first).WithTimeout(5 * time.Second).WithPolling(time.Second).WithContext(ctx).
				Should(Equal([]string{successor.MAC}))
			Eventually(curl(first)).WithContext(ctx).Should(ContainSubstring("Welcome to nginx!"))
		},
		Entry("when its cable is cut", "a cut of the cable", []string{"cut"}, []string{"mend"}),
		Entry("when its switch port dies and leaves it the carrier", "the death of the switch port", []string{"cut", "--silent"}, []string{"mend"}),
		Entry("when its power fails", "a power failure", []string{"kill"}, []string{"start"}),
	)

	It("has Services leave out the pods of a lost node within seconds where that is asked for, and its kubelet take them in again", func(ctx SpecContext) {
		const within = 4 * time.Second // 40 and more is what Kubernetes takes by itself
		patchSpec(ctx, `{"failureDetection":{"markPodsNotReady":"Enabled"}}`)
		DeferCleanup(func(ctx SpecContext) { patchSpec(ctx, `{"failureDetection":null}`) })
		kubectl(ctx, "patch", "deployment", "lb-test", "-p", webServersApart)
		DeferCleanup(func(ctx SpecContext) { kubectl(ctx, "patch", "deployment", "lb-test", "-p", webServersAnywhere) })
		kubectl(ctx, "rollout", "status", "deployment", "lb-test", "--timeout=120s")
		ready(ctx)
		Eventually(endpointsOn).WithContext(ctx).Should(ConsistOf("k8s-wl-01", "k8s-wl-02"))

		By("letting the switch port of k8s-wl-01 die")
		lab(ctx, "cut", "--silent", "k8s-wl-01")
		lost := time.Now()
		DeferCleanup(func(ctx SpecContext) { lab(ctx, "mend", "k8s-wl-01") })
		Eventually(endpointsOn).WithTimeout(time.Minute).WithPolling(50 * time.Millisecond).WithContext(ctx).Should(ConsistOf("k8s-wl-02"))
		took := time.Since(lost)
		AddReportEntry("time until the Service left the lost node's pods out", took.String())
		Expect(took).To(BeNumerically("<=", within))
		Expect(kubectl(ctx, "describe", "clusternetworking", "cluster")).To(ContainSubstring("node k8s-wl-01 is lost: since"))

		By("mending it")
		lab(ctx, "mend", "k8s-wl-01")
		Eventually(endpointsOn).WithTimeout(time.Minute).WithContext(ctx).Should(ConsistOf("k8s-wl-01", "k8s-wl-02"))
		AddReportEntry("time from the repair until they were taken in again", time.Since(lost.Add(took)).String())
		ready(ctx)
	})
}
