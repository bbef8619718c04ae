package e2e

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// helmSpecs install Lanyard with Helm into a namespace that does not let speakers start yet, mend that as the condition says, upgrade and uninstall.
func helmSpecs() {
	const ns = "lanyard-system"
	helm := func(ctx context.Context, args ...string) string {
		return run(ctx, "bin/helm", append(args, "--namespace", ns)...)
	}

	BeforeAll(func(ctx SpecContext) {
		run(ctx, "test/reset.sh", "dist/install.yaml")
		kubectl(ctx, "create", "deployment", "lb-test", "--image=nginx:1.22", "--replicas=2")
		kubectl(ctx, "expose", "deployment", "lb-test", "--type=LoadBalancer", "--port=80")
		DeferCleanup(func(ctx SpecContext) { run(ctx, "test/reset.sh", "dist/install.yaml") })
	})

	It("installs, and says by which command the namespace lets speakers start, after which the page is there", func(ctx SpecContext) {
		kubectl(ctx, "create", "namespace", ns)
		kubectl(ctx, "label", "namespace", ns, "pod-security.kubernetes.io/enforce=baseline")
		Expect(helm(ctx, "install", "lanyard", "dist/chart", "--wait", "--timeout=2m")).To(ContainSubstring("STATUS: deployed"))
		kubectl(ctx, "apply", "-f", "config/samples/tutorial.yaml")
		const command = "kubectl label namespace lanyard-system pod-security.kubernetes.io/enforce=privileged --overwrite"
		Eventually(condition("SpeakersReady")).WithContext(ctx).Should(And(
			HavePrefix("False SpeakersNotReady: 0 of 3 speakers are ready"), ContainSubstring("violates PodSecurity"), HaveSuffix("run `"+command+"`")))
		_, err := output(ctx, "bin/helm", "test", "lanyard", "--namespace", ns, "--timeout=3m")
		Expect(err).To(HaveOccurred(), "no speaker runs")

		run(ctx, "bash", "-c", command)
		Eventually(condition("Ready")).WithContext(ctx).Should(Equal("True Ready: all is as the spec asks"))
		Eventually(curl(first)).WithContext(ctx).Should(ContainSubstring("Welcome to nginx!"))
		Expect(helm(ctx, "test", "lanyard", "--logs", "--timeout=3m")).To(And(
			ContainSubstring("PASS the namespace lets speakers onto the nodes' network"), ContainSubstring("PASS ClusterNetworking cluster is Ready")))
	})

	It("upgrades, and no address moves", func(ctx SpecContext) {
		before := agree(ctx, first)
		helm(ctx, "upgrade", "lanyard", "dist/chart", "--set", "manageKubeProxy=false,logLevel=debug", "--wait", "--timeout=2m")
		Expect(curl(first)(ctx)).To(ContainSubstring("Welcome to nginx!"))
		Expect(agree(ctx, first).Node).To(Equal(before.Node))
	})

	It("leaves kube-proxy alone where it has no right to change it, and says so", func(ctx SpecContext) {
		patchSpec(ctx, `{"kubeProxy":{"mode":"nftables"}}`)
		Eventually(condition("KubeProxyReady")).WithContext(ctx).Should(
			HavePrefix("False UnmanagedLayout: Lanyard was installed without the right to change kube-proxy"))
		patchSpec(ctx, `{"kubeProxy":null}`)
		Eventually(condition("Ready")).WithContext(ctx).Should(HavePrefix("True Ready: "))
		refused, err := output(ctx, "kubectl", "-n", ns, "logs", "-l", "app.kubernetes.io/component=manager", "--tail=-1")
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.ToLower(refused)).NotTo(ContainSubstring("forbidden"))
	})

	It("is uninstalled, and what is left is what the notes say", func(ctx SpecContext) {
		kubectl(ctx, "delete", "clusternetworking", "cluster")
		kubectl(ctx, "-n", ns, "wait", "--for=delete", "daemonset/lanyard-speaker", "--timeout=90s")
		Expect(addressOf("lb-test")(ctx)).To(BeEmpty(), "a Service should not show an address that nobody answers for")
		Expect(helm(ctx, "uninstall", "lanyard", "--wait")).To(
			ContainSubstring("[CustomResourceDefinition] clusternetworkings.networking.lanyard.dev"))
		Expect(answering(ctx, first)).To(BeEmpty())
		Expect(strings.Fields(kubectl(ctx, "get", "clusterroles,clusterrolebindings", "-o", "name"))).NotTo(ContainElement(ContainSubstring("lanyard")))
		Expect(strings.Fields(kubectl(ctx, "-n", "kube-system", "get", "roles,rolebindings", "-o", "name"))).NotTo(ContainElement(ContainSubstring("lanyard")))
		Eventually(func(ctx context.Context) (string, error) {
			return output(ctx, "kubectl", "-n", ns, "get", "deployments,daemonsets,pods", "-o", "name")
		}).WithContext(ctx).Should(BeElementOf("", "pod/lanyard-check\n"))
		kubectl(ctx, "delete", "crd", "clusternetworkings.networking.lanyard.dev", "nodenetworkings.networking.lanyard.dev", "--timeout=60s")
		kubectl(ctx, "delete", "namespace", ns, "--timeout=60s")
	})
}
