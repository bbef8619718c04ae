package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// kubeProxySpecs change kube-proxy's configuration in ways that go well, and in ways that must not begin. Before and after each, kube-proxy
// runs in mode nftables.
func kubeProxySpecs() {
	// Of an address that moves, the connections that are open at that moment are lost: none, or a few of thousands. A pod's connections fail
	// while its node's kube-proxy is restarted: that takes kubelet a second or two.
	DescribeTable("changes the mode under load, and announced addresses answer all the while", long,
		func(ctx SpecContext, mode string) {
			ready(ctx)
			clients := startLoad(ctx, "lb-next")
			setMode(ctx, mode)
			runs(ctx, mode)
			vip, nodes := clients.stop(ctx, "the mode became "+mode)
			Expect(vip.Attempts).To(BeNumerically(">", connections))
			Expect(vip.Failures).To(BeNumerically("<", vip.Attempts/200), vip.String())
			Expect(nodes).To(HaveLen(3))
			for node, r := range nodes {
				Expect(r.Attempts).To(BeNumerically(">", connections), node)
				Expect(r.Longest).To(BeNumerically("<", oneRestart.Milliseconds()), "%s is without rules for no longer than a restart takes", node)
			}
		},
		Entry("from nftables to iptables", SpecTimeout(4*time.Minute), "iptables"),
		Entry("and from iptables to nftables", SpecTimeout(4*time.Minute), "nftables"),
	)

	It("refuses ipvs while a node cannot run it, and has written nothing", func(ctx SpecContext) {
		before, err := proxyConfigMap(ctx)
		Expect(err).NotTo(HaveOccurred())
		setMode(ctx, "ipvs")
		DeferCleanup(func(ctx SpecContext) {
			setMode(ctx, "nftables")
			runs(ctx, "nftables")
		})
		Eventually(condition("KubeProxyReady")).WithTimeout(tutorialRoll).WithContext(ctx).Should(SatisfyAll(
			HavePrefix("False PreflightFailed: "), MatchRegexp(`k8s-\w+-0\d cannot run .*ipvs`), ContainSubstring("Nothing was written")))
		after, err := proxyConfigMap(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(after).To(Equal(before))
	})

	DescribeTable("reports a config.conf that it cannot edit, and leaves it as it is",
		func(ctx SpecContext, broken func(string) string, told string) {
			good, err := proxyConfigMap(ctx)
			Expect(err).NotTo(HaveOccurred())
			writeProxyConfig(ctx, broken(good.Data["config.conf"]))
			DeferCleanup(func(ctx SpecContext) {
				writeProxyConfig(ctx, good.Data["config.conf"])
				runs(ctx, "nftables")
			})
			written, err := proxyConfigMap(ctx)
			Expect(err).NotTo(HaveOccurred())
			Eventually(condition("KubeProxyReady")).WithContext(ctx).Should(And(HavePrefix("False "), ContainSubstring(told)))
			Consistently(proxyConfigMap).WithContext(ctx).Should(Equal(written))
			Expect(curl(first)(ctx)).To(ContainSubstring("Welcome to nginx!"))
		},
		Entry("that is not YAML", func(string) string { return "mode: [" }, "config.conf"),
		Entry("of another kind", func(good string) string {
			return strings.Replace(good, "kind: KubeProxyConfiguration", "kind: KubeletConfiguration", 1)
		},
			"KubeletConfiguration"),
		Entry("that is missing", func(string) string { return "" }, "has lost its key config.conf, without which no kube-proxy starts: put it back"),
	)

	It("takes up again what kubeadm's phase for kube-proxy has written anew, once", long, func(ctx SpecContext) {
		cluster := kubectl(ctx, "-n", "kube-system", "get", "configmap", "kubeadm-config", "-o", "jsonpath={.data.ClusterConfiguration}")
		file, err := filepath.Abs(filepath.Join(*root, "bin", "kubeadm.yaml")) // where nodes see it
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(file, []byte(cluster+kubeadmsProxy), 0o600)).To(Succeed())
		lab(ctx, "exec", "k8s-cp-01", "--", "kubeadm", "init", "phase", "addon", "kube-proxy", "--config", file)
		Eventually(proxyMode).WithContext(ctx).Should(Equal(""), "kubeadm writes the open mode")
		Eventually(proxyMode).WithTimeout(tutorialRoll).WithContext(ctx).Should(Equal("nftables"))
		healed, err := proxyConfigMap(ctx)
		Expect(err).NotTo(HaveOccurred())
		runs(ctx, "nftables")
		Expect(kubectl(ctx, "events", "--for", "clusternetworking/cluster")).To(ContainSubstring("kubeadm"), "who changed it")
		Expect(proxyConfigMap(ctx)).To(HaveField("ResourceVersion", healed.ResourceVersion), "one write was enough")
	}, SpecTimeout(5*time.Minute))

	It("works without any kube-proxy, reports it, and mends it once there is an image again", func(ctx SpecContext) {
		image := proxyImage(ctx)
		setImage := func(ctx context.Context, image string) {
			kubectl(ctx, "-n", "kube-system", "set", "image", "daemonset/kube-proxy", "kube-proxy="+image)
			kubectl(ctx, "-n", "kube-system", "delete", "pods", "-l", "k8s-app=kube-proxy", "--force", "--grace-period=0")
		}
		setImage(ctx, "registry.invalid/kube-proxy:none")
		DeferCleanup(func(ctx SpecContext) {
			setImage(ctx, image)
			runs(ctx, "nftables")
		})
		for _, node := range nodeNames(ctx) {
			lab(ctx, "exec", node, "--", "nft", "delete", "table", "ip", "kube-proxy")
		}
		By("starting a manager anew, which has only the API server's own address to go by")
		kubectl(ctx, "-n", "lanyard-system", "delete", "pods", "-l", "app.kubernetes.io/component=manager")
		Eventually(condition("KubeProxyReady")).WithContext(ctx).Should(And(HavePrefix("False "), ContainSubstring("ImagePull")))
		kubectl(ctx, "-n", "lanyard-system", "rollout", "status", "deployment", "lanyard-manager", "--timeout=60s")

		setImage(ctx, image)
		runs(ctx, "nftables")
		Eventually(curl(first)).WithContext(ctx).Should(ContainSubstring("Welcome to nginx!"))
	}, SpecTimeout(5*time.Minute))
}

// oneRestart is how long a kube-proxy is away at most while kubelet restarts it and it writes its rules, on a busy machine.
const oneRestart = 6 * time.Second

// kubeadmsProxy is what the lab's own kubeadm configuration says of kube-proxy.
const kubeadmsProxy = `
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
conntrack: {maxPerCore: 0, min: 0}
`

// proxyMode returns what config.conf has as the mode.
func proxyMode(ctx context.Context) (string, error) {
	cm, err := proxyConfigMap(ctx)
	if err != nil {
		return "", err
	}
	return kubeproxy.Mode(cm.Data["config.conf"])
}

// proxyImage returns the cluster's own image of kube-proxy.
func proxyImage(ctx context.Context) string {
	GinkgoHelper()
	return kubectl(ctx, "-n", "kube-system", "get", "daemonset", "kube-proxy", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
}

// setMode asks for a mode, and leaves the rest of the spec.
func setMode(ctx context.Context, mode string) {
	GinkgoHelper()
	patchSpec(ctx, `{"kubeProxy":{"mode":"`+mode+`"}}`)
}

// runs waits until every node runs the mode, as asked.
func runs(ctx context.Context, mode string) {
	GinkgoHelper()
	Eventually(condition("KubeProxyReady")).WithTimeout(tutorialRoll).WithContext(ctx).Should(
		Equal("True Ready: 3 of 3 nodes run mode " + mode + "; kube-proxy runs as asked"))
}

// writeProxyConfig writes config.conf as a person would; nothing takes the key away.
func writeProxyConfig(ctx context.Context, document string) {
	GinkgoHelper()
	cm, err := proxyConfigMap(ctx)
	Expect(err).NotTo(HaveOccurred())
	cm.Data["config.conf"] = document
	if document == "" {
		delete(cm.Data, "config.conf")
	}
	Expect(k8s.Update(ctx, cm)).To(Succeed())
}

func nodeNames(ctx context.Context) []string {
	GinkgoHelper()
	var nodes corev1.NodeList
	Expect(k8s.List(ctx, &nodes)).To(Succeed())
	var names []string
	for _, n := range nodes.Items {
		names = append(names, n.Name)
	}
	return names
}
