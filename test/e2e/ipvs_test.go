package e2e

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// slowRoll is long enough for two rolls over nodes with a kernel of their own, where each command takes tenths of a second.
const slowRoll = 12 * time.Minute

// slowLook is how often to look meanwhile: each look costs the machine more than the kernel's node has in that time.
const slowLook = 10 * time.Second

// ownKernel is the node that kube-proxy runs on here: this machine's kernel may lack IPVS. One alone, as a second would make both slower still:
// even so the spec gives it more than the two minutes which Lanyard gives a node unasked.
const ownKernel = "k8s-uml-01"

var _ = Describe("A cluster whose kernels have IPVS", long, func() {
	It("goes to ipvs with one host answering for the address, and back to iptables with nothing left", func(ctx SpecContext) {
		cluster := startLab(ctx, "ipvs", "--nodes", "1", "--uml-nodes", "1")
		By("pinning kube-proxy to this node")
		cluster.kubectl(ctx, "label", "node", ownKernel, "ipvs=able")
		cluster.kubectl(ctx, "-n", "kube-system", "patch", "daemonset", "kube-proxy", "-p", `{"spec":{"template":{"spec":{"nodeSelector":{"ipvs":"able"}}}}}`)
		cluster.kubectl(ctx, "-n", "kube-system", "rollout", "status", "daemonset", "kube-proxy", "--timeout=480s")
		cluster.kubectl(ctx, "cordon", ownKernel) // pods take minutes to start there: those that need not, do not
		cluster.kubectl(ctx, "create", "deployment", "lb-test", "--image=nginx:1.22", "--replicas=2")
		cluster.kubectl(ctx, "expose", "deployment", "lb-test", "--type=LoadBalancer", "--port=80")
		cluster.kubectl(ctx, "apply", "--server-side", "-f", "dist/install.yaml")
		cluster.kubectl(ctx, "apply", "-f", "config/samples/tutorial.yaml")
		Eventually(cluster.told("Ready")).WithTimeout(slowRoll).WithPolling(slowLook).WithContext(ctx).Should(ContainSubstring(" True "))

		By("going to ipvs, by way of nftables")
		cluster.kubectl(ctx, specPatch(`{"kubeProxy":{"mode":"ipvs","ipvs":{"scheduler":"lc"},"rollout":{"progressDeadlineSeconds":600}}}`)...)
		Eventually(cluster.told("KubeProxyReady")).WithTimeout(slowRoll).WithPolling(slowLook).WithContext(ctx).Should(
			Equal("2 True Ready: 1 of 1 nodes run mode ipvs with ipvs.scheduler: lc, ipvs.strictARP: true; kube-proxy runs as asked"))
		Eventually(cluster.on).WithContext(ctx).WithArguments(ownKernel, "cat", "/proc/net/ip_vs").Should(
			ContainSubstring("TCP  C0A801C8:0050 lc"), "192.168.1.200:80 is programmed with the scheduler")
		Expect(cluster.on(ctx, ownKernel, "sysctl", "-n", "net.ipv4.conf.all.arp_ignore", "net.ipv4.conf.all.arp_announce")).To(Equal("1\n2\n"), "strictARP")
		Eventually(cluster.answering).WithArguments(first).WithContext(ctx).Should(HaveLen(1))
		Eventually(cluster.ops).WithContext(ctx).WithArguments("curl", "--silent", "--max-time", "5", "http://"+first).Should(ContainSubstring("Welcome to nginx!"))

		By("announcing from the other node, while the address lies on this one's kube-ipvs0")
		patchAdvertisement := func(selector string) {
			cluster.kubectl(ctx, specPatch(`{"l2Advertisements":[{"name":"lan-l2","ipPools":["lan-pool"],"nodeSelector":`+selector+`}]}`)...)
		}
		patchAdvertisement(`{"matchLabels":{"kubernetes.io/hostname":"k8s-cp-01"}}`)
		Eventually(cluster.answering).WithArguments(first).WithContext(ctx).Should(Equal([]string{"02:00:c0:a8:01:7d"}), "the kernel's own answer is kept back")
		patchAdvertisement("null")
		Eventually(cluster.ops).WithContext(ctx).WithArguments("curl", "--silent", "--max-time", "5", "http://"+first).Should(ContainSubstring("Welcome to nginx!"))

		By("going back to iptables, by way of nftables")
		cluster.kubectl(ctx, specPatch(`{"kubeProxy":{"mode":"iptables","ipvs":null}}`)...)
		Eventually(cluster.told("KubeProxyReady")).WithTimeout(slowRoll).WithPolling(slowLook).WithContext(ctx).Should(
			Equal("5 True Ready: 1 of 1 nodes run mode iptables; kube-proxy runs as asked"))
		Expect(cluster.on(ctx, ownKernel, "ip", "-brief", "link")).NotTo(ContainSubstring("kube-ipvs0"))
		Expect(cluster.on(ctx, ownKernel, "cat", "/proc/net/ip_vs")).NotTo(ContainSubstring("TCP"))
		Expect(cluster.on(ctx, ownKernel, "nft", "list", "tables")).NotTo(ContainSubstring("kube-proxy"))
		Expect(cluster.answering(ctx, first)).To(HaveLen(1))
		Eventually(cluster.ops).WithContext(ctx).WithArguments("curl", "--silent", "--max-time", "5", "http://"+first).Should(ContainSubstring("Welcome to nginx!"))
	}, SpecTimeout(45*time.Minute))
})
