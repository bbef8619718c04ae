package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
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

func cableSpecs() {
	It("has another node answer for the address, and takes it back after the repair", func(ctx SpecContext) {
		owner := ready(ctx)
		By("moving the web servers off " + owner.Node + ", so that only the announcement is at stake")
		kubectl(ctx, "patch", "deployment", "lb-test", "-p", `{"spec":{"template":{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":`+
			`{"nodeSelectorTerms":[{"matchExpressions":[{"key":"kubernetes.io/hostname","operator":"NotIn","values":["`+owner.Node+`"]}]}]}}}}}}}`)
		kubectl(ctx, "rollout", "status", "deployment", "lb-test", "--timeout=120s")
		Eventually(webServersOn).WithContext(ctx).Should(And(HaveLen(2), Not(ContainElement(owner.Node))))
		Eventually(curl(first)).WithContext(ctx).Should(ContainSubstring("Welcome to nginx!"))

		By("cutting the cable of " + owner.Node)
		outage := measureOutage(ctx, first)
		began := time.Now()
		lab(ctx, "cut", owner.Node)
		DeferCleanup(func(ctx SpecContext) { lab(ctx, "mend", owner.Node) })
		Eventually(curl(first)).WithPolling(20 * time.Millisecond).WithContext(ctx).Should(ContainSubstring("Welcome to nginx!"))
		Eventually(answering).WithArguments(first).WithContext(ctx).Should(And(HaveLen(1), Not(ContainElement(owner.MAC))))
		longest, _ := outage.stop()
		AddReportEntry("longest time without an answer after the owner's cable was cut", longest.String())
		GinkgoWriter.Println("one host answers by ARP after", time.Since(began))
		macs := answering(ctx, first)
		Eventually(ownerOf(first)).WithContext(ctx).Should(And(HaveField("MAC", macs[0]), HaveField("Node", Not(Equal(owner.Node)))))

		By("mending it")
		lab(ctx, "mend", owner.Node)
		Eventually(condition("Ready")).WithTimeout(2 * time.Minute).WithContext(ctx).Should(HavePrefix("True Ready: "))
		Eventually(func(g Gomega, ctx context.Context) {
			now, err := ownerOf(first)(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(answering(ctx, first)).To(Equal([]string{now.MAC}))
		}).WithContext(ctx).Should(Succeed())
		Eventually(curl(first)).WithContext(ctx).Should(ContainSubstring("Welcome to nginx!"))
	})
}
