package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// tutorialRoll is long enough for three nodes' kube-proxies to restart one after the other, on a busy machine.
const tutorialRoll = 3 * time.Minute

// undisturbed does something to Lanyard, and sees that the Service keeps its address and goes on answering.
func undisturbed(ctx context.Context, what string, do func()) {
	GinkgoHelper()
	ready(ctx)
	seen := addressesSeen(ctx, "lb-next")
	outage := measureOutage(ctx, first)
	do()
	longest, answers := outage.stop()
	AddReportEntry("longest time without an answer while "+what, longest.String())
	Expect(answers).To(BeNumerically(">", 10))
	Expect(seen()).To(Equal([]string{first}))
}

func maintenanceSpecs() {
	It("changes no address when the manager restarts", func(ctx SpecContext) {
		undisturbed(ctx, "the manager restarted", func() {
			kubectl(ctx, "-n", "lanyard-system", "rollout", "restart", "deployment", "lanyard-manager")
			kubectl(ctx, "-n", "lanyard-system", "rollout", "status", "deployment", "lanyard-manager", "--timeout=120s")
			kubectl(ctx, "expose", "deployment", "lb-test", "--type=LoadBalancer", "--port=80") // the new leader is at work once it has an address
			DeferCleanup(func(ctx SpecContext) { kubectl(ctx, "delete", "service", "lb-test") })
			Eventually(addressOf("lb-test")).WithContext(ctx).Should(Equal("192.168.1.201"))
		})
	})

	It("changes no address and moves none when the speakers are rolled out anew", func(ctx SpecContext) {
		owner := ready(ctx)
		undisturbed(ctx, "the speakers were rolled out", func() {
			kubectl(ctx, "-n", "lanyard-system", "rollout", "restart", "daemonset", "lanyard-speaker")
			kubectl(ctx, "-n", "lanyard-system", "rollout", "status", "daemonset", "lanyard-speaker", "--timeout=180s")
			ready(ctx)
		})
		Expect(agree(ctx, first).Node).To(Equal(owner.Node), "the others hold the place of a speaker that a newer one follows")
	})
}
