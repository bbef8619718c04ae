package e2e

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// The tutorial's Service gets the first address of its range.
const first = "192.168.1.200"

var _ = Describe("A kubeadm cluster", Ordered, func() {
	Context("through the tutorial", tutorialSpecs)
	Context("with somebody who has stolen a token", securitySpecs)
	Context("with kube-proxy changed", kubeProxySpecs)
	Context("with Lanyard under maintenance", maintenanceSpecs)
	Context("with a node lost", faultSpecs)
	Context("with the API server stopped", long, outageSpecs)
	Context("with foreign hosts on the LAN", conflictSpecs)
	Context("with a second LAN", segmentSpecs)
	Context("with a change of kube-proxy that goes wrong", long, rollbackSpecs)
	Context("installed with Helm", long, helmSpecs)
})

func tutorialSpecs() {
	It("leaves a Service of type LoadBalancer pending, as nobody gives out addresses", func(ctx SpecContext) {
		kubectl(ctx, "create", "deployment", "lb-test", "--image=nginx:1.22", "--replicas=2")
		kubectl(ctx, "expose", "deployment", "lb-test", "--type=LoadBalancer", "--port=80")
		kubectl(ctx, "rollout", "status", "deployment", "lb-test", "--timeout=120s")
		Expect(kubectl(ctx, "get", "service", "lb-test")).To(ContainSubstring("<pending>"))
	})

	It("gives it an address that answers from a host that is no node, with one object, and does not touch kube-proxy", func(ctx SpecContext) {
		before, err := proxyConfigMap(ctx)
		Expect(err).NotTo(HaveOccurred())
		kubectl(ctx, "apply", "--server-side", "-f", "dist/install.yaml")
		kubectl(ctx, "-n", "lanyard-system", "rollout", "status", "deployment", "lanyard-manager", "--timeout=120s")
		kubectl(ctx, "apply", "-f", "config/samples/tutorial.yaml")

		Eventually(addressOf("lb-test")).WithContext(ctx).Should(Equal(first))
		Eventually(condition("Ready")).WithContext(ctx).Should(Equal("True Ready: all is as the spec asks"))
		Eventually(curl(first)).WithContext(ctx).Should(ContainSubstring("Welcome to nginx!"))

		after, err := proxyConfigMap(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(after.ResourceVersion).To(Equal(before.ResourceVersion), "spec.kubeProxy is absent")
	})

	It("has exactly one host answer for the address, the one that the status names", func(ctx SpecContext) {
		agree(ctx, first)
		Expect(answering(ctx, "192.168.1.201")).To(BeEmpty(), "nobody answers for an address that no Service has")
	})

	It("tells an outsider what there is", func(ctx SpecContext) {
		owner := agree(ctx, first)
		Expect(strings.Fields(kubectl(ctx, "get", "clusternetworking", "--no-headers"))[:7]).To(
			Equal([]string{"cluster", "True", "iptables", "Idle", "1", "10", "3/3"}), "name, ready, mode, phase, used and free addresses, speakers")
		told := kubectl(ctx, "describe", "clusternetworking", "cluster")
		for _, line := range []string{"default/lb-test", first, owner.Node, owner.MAC, "lan-pool", "3 of 3 speakers are ready"} {
			Expect(told).To(ContainSubstring(line))
		}
	})

	It("tells whoever has the plugin, on one screen, and who has an address", func(ctx SpecContext) {
		owner := agree(ctx, first)
		screen := run(ctx, "bin/kubectl-lanyard", "status")
		for _, line := range []string{`True +iptables +Idle +3/3`, `lan-pool +\[#-+\] +1 of 11 +10 +0 +0`, first + ` +default/lb-test +lan-pool +` + owner.Node} {
			Expect(screen).To(MatchRegexp(line))
		}
		Expect(screen).NotTo(ContainSubstring("Look at:"))
		Expect(run(ctx, "bin/kubectl-lanyard", "who-has", first)).To(Equal(first + " is that of Service default/lb-test (pool lan-pool)\n" +
			"it is answered for by " + owner.Node + " on " + owner.Interface + ", with " + owner.MAC + "\n"))
	})

	It("changes kube-proxy's mode, and only that, on every node", func(ctx SpecContext) {
		before, err := proxyConfigMap(ctx)
		Expect(err).NotTo(HaveOccurred())
		kubectl(ctx, "apply", "-f", "config/samples/tutorial-nftables.yaml")
		Eventually(condition("KubeProxyReady")).WithTimeout(tutorialRoll).WithContext(ctx).Should(
			Equal("True Ready: 3 of 3 nodes run mode nftables; kube-proxy runs as asked"))
		after, err := proxyConfigMap(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(after.Data["config.conf"]).To(Equal(strings.Replace(before.Data["config.conf"], `mode: ""`, "mode: nftables", 1)))
		Expect(after.Data["kubeconfig.conf"]).To(Equal(before.Data["kubeconfig.conf"]))
		Eventually(curl(first)).WithContext(ctx).Should(ContainSubstring("Welcome to nginx!"))
	})

	It("frees the address with the Service, and gives it to the next", func(ctx SpecContext) {
		kubectl(ctx, "delete", "service", "lb-test")
		Eventually(answering).WithArguments(first).WithContext(ctx).Should(BeEmpty())
		kubectl(ctx, "expose", "deployment", "lb-test", "--name=lb-next", "--type=LoadBalancer", "--port=80")
		Eventually(addressOf("lb-next")).WithContext(ctx).Should(Equal(first))
		Eventually(curl(first)).WithContext(ctx).Should(ContainSubstring("Welcome to nginx!"))
	})

	It("refuses a bad object when it is applied, and says what to write", func(ctx SpecContext) {
		refused, err := output(ctx, "kubectl", "patch", "clusternetworking", "cluster", "--type=merge",
			"-p", `{"spec":{"ipPools":[{"name":"lan-pool","addresses":["192.168.1.200/28"]}]}}`)
		Expect(err).To(HaveOccurred())
		Expect(refused).To(ContainSubstring(`spec.ipPools[0].addresses[0]`))
		Expect(refused).To(ContainSubstring(`"192.168.1.200/28" has host bits set: write the network with its first address`))
	})

	It("keeps the last good configuration when the object contradicts itself, and says so", func(ctx SpecContext) {
		cnet, err := clusterNetworking(ctx)
		Expect(err).NotTo(HaveOccurred())
		patch := func(ctx context.Context, addresses string) {
			patchSpec(ctx, `{"ipPools":[{"name":"lan-pool","addresses":["`+addresses+`"]}]}`)
		}
		patch(ctx, "192.168.1.210-192.168.1.200")
		DeferCleanup(func(ctx SpecContext) {
			patch(ctx, "192.168.1.200-192.168.1.210")
			Eventually(condition("Ready")).WithContext(ctx).Should(HavePrefix("True Ready: "))
		})
		Eventually(condition("IPPoolsReady")).WithContext(ctx).Should(SatisfyAll(
			HavePrefix(`False InvalidConfiguration: spec.ipPools[0].addresses[0]: "192.168.1.210-192.168.1.200" ends before it begins`),
			ContainSubstring("the last good configuration (generation %d) stays in force", cnet.Generation)))
		Expect(curl(first)(ctx)).To(ContainSubstring("Welcome to nginx!"))
		Expect(addressOf("lb-next")(ctx)).To(Equal(first))
	})

	It("writes nothing while it is paused, and goes on announcing", func(ctx SpecContext) {
		before, err := proxyConfigMap(ctx)
		Expect(err).NotTo(HaveOccurred())
		patchSpec(ctx, `{"managementState":"Paused","kubeProxy":{"mode":"iptables"}}`)
		DeferCleanup(func(ctx SpecContext) {
			kubectl(ctx, "delete", "service", "lb-test", "--ignore-not-found")
			kubectl(ctx, "apply", "-f", "config/samples/tutorial-nftables.yaml")
			patchSpec(ctx, `{"managementState":"Managed"}`)
			Eventually(condition("Ready")).WithContext(ctx).Should(HavePrefix("True Ready: "))
		})
		Eventually(condition("Progressing")).WithContext(ctx).Should(HavePrefix("False Paused: "))
		kubectl(ctx, "expose", "deployment", "lb-test", "--type=LoadBalancer", "--port=80")
		Consistently(func(g Gomega, ctx context.Context) {
			g.Expect(addressOf("lb-test")(ctx)).To(BeEmpty())
			g.Expect(proxyConfigMap(ctx)).To(HaveField("ResourceVersion", before.ResourceVersion))
			g.Expect(curl(first)(ctx)).To(ContainSubstring("Welcome to nginx!"))
		}).WithContext(ctx).Should(Succeed())
	})
}

// ready waits until the tutorial's network is as its object asks, and returns who owns the first address.
func ready(ctx context.Context) v1alpha1.AllocatedIP {
	GinkgoHelper()
	Eventually(condition("Ready")).WithContext(ctx).Should(HavePrefix("True Ready: "))
	return agree(ctx, first)
}
