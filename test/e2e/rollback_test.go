package e2e

import (
	"context"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// afterFailure is long enough for a node that is given up after two minutes, and for the others' way back.
const afterFailure = 5 * time.Minute

// rollbackSpecs hurt a change from iptables to nftables while it is under way. Clients go on asking all the while, and each spec leaves the
// cluster in mode iptables.
func rollbackSpecs() {
	BeforeAll(func(ctx SpecContext) {
		setMode(ctx, "iptables")
		runs(ctx, "iptables")
	}, NodeTimeout(5*time.Minute))

	Context("takes all nodes back", func() {
		It("when kube-proxy's image crashes on the last node", func(ctx SpecContext) {
			const kept = "docker.io/library/kube-proxy:kept" // a full name, as kubelet's runtime makes it one
			victim := leader(ctx)
			clients := change(ctx)
			Eventually(phase).WithContext(ctx).WithTimeout(tutorialRoll).Should(BeElementOf(v1alpha1.PhaseCanary, v1alpha1.PhaseRolling))
			image := proxyImage(ctx)
			tag := func(ctx context.Context, from, to string) {
				lab(ctx, "exec", victim, "--", "ctr", "-n", "k8s.io", "images", "tag", "--force", from, to)
			}
			tag(ctx, image, kept)
			tag(ctx, "docker.io/library/nginx:1.22", image)
			mend := func(ctx context.Context) { tag(ctx, kept, image) }
			DeferCleanup(func(ctx SpecContext) { mend(ctx) })

			By("seeing the way back stop at " + victim + ", so that the others go on as they are")
			Eventually(condition("KubeProxyReady")).WithContext(ctx).WithTimeout(afterFailure).Should(And(
				HavePrefix("False RolloutStalled: "), ContainSubstring("kube-proxy on "+victim+" does not come up in mode iptables"),
				ContainSubstring("No further node is touched. It is the configuration that worked before: look at the node and at kube-proxy's image")))
			mend(ctx)
			rolledBack(ctx, clients, victim, "an image crashed")
		}, SpecTimeout(12*time.Minute))

		It("when kube-proxy crashes with what it is given", func(ctx SpecContext) {
			const ofKubelet = "0.0.0.0:10250" // nothing has the port in a probe's own network
			cm, err := proxyConfigMap(ctx)
			Expect(err).NotTo(HaveOccurred())
			writeProxyConfig(ctx, strings.Replace(cm.Data["config.conf"], "bindAddressHardFail: false", "bindAddressHardFail: true", 1))
			DeferCleanup(func(ctx SpecContext) { writeProxyConfig(ctx, cm.Data["config.conf"]) })
			ready(ctx)
			clients := startLoad(ctx, "lb-next")
			patchSpec(ctx, `{"kubeProxy":{"metricsBindAddress":"`+ofKubelet+`"}}`)
			restarted := restarted(ctx, 0)
			rolledBack(ctx, clients, restarted, "kube-proxy crashed")
		}, SpecTimeout(12*time.Minute))

		It("when a node never writes its rules, as it does not reach the API server", func(ctx SpecContext) {
			clients := change(ctx)
			victim := restarted(ctx, 0)
			open := shut(ctx, victim)
			Eventually(phase).WithContext(ctx).WithTimeout(afterFailure).Should(Equal(v1alpha1.PhaseRollingBack))
			open(ctx)
			rolledBack(ctx, clients, victim, "a node did not write its rules")
		}, SpecTimeout(12*time.Minute))

		It("when a node dies while its kube-proxy restarts", func(ctx SpecContext) {
			clients := change(ctx)
			victim := restarted(ctx, 0)
			clients.podDies()
			lab(ctx, "kill", victim)
			DeferCleanup(func(ctx SpecContext) { lab(ctx, "start", victim) })
			Eventually(condition("KubeProxyReady")).WithContext(ctx).WithTimeout(afterFailure).Should(And(
				HavePrefix("False RolledBack: "), ContainSubstring(victim)))
			lab(ctx, "start", victim)
			rolledBack(ctx, clients, victim, "a node died")
		}, SpecTimeout(12*time.Minute))
	})

	It("gives kube-proxy back as it was found, when the object goes and asked for that", func(ctx SpecContext) {
		var ledger corev1.ConfigMap
		Expect(k8s.Get(ctx, client.ObjectKey{Namespace: "lanyard-system", Name: v1alpha1.KubeProxyLedger}, &ledger)).To(Succeed())
		var noted kubeproxy.Ledger
		Expect(noted.Decode(ledger.Data[v1alpha1.LedgerKey])).To(Succeed())
		original, err := kubeproxy.Mode(noted.Original.Document)
		Expect(err).NotTo(HaveOccurred())
		patchSpec(ctx, `{"kubeProxy":{"onDelete":"Restore"}}`)
		runs(ctx, "iptables")
		kubectl(ctx, "delete", "clusternetworking", "cluster")
		Eventually(proxyMode).WithContext(ctx).WithTimeout(tutorialRoll).Should(Equal(original))
		kubectl(ctx, "apply", "-f", "config/samples/tutorial-nftables.yaml")
		runs(ctx, "nftables")
	}, SpecTimeout(8*time.Minute))

	Context("goes on to the end", func() {
		BeforeEach(func(ctx SpecContext) {
			setMode(ctx, "iptables")
			runs(ctx, "iptables")
		}, NodeTimeout(5*time.Minute))

		It("when the manager is killed", func(ctx SpecContext) {
			goesOn(ctx, "the manager was killed", func() {
				kubectl(ctx, "-n", "lanyard-system", "delete", "pods", "-l", "app.kubernetes.io/component=manager", "--force", "--grace-period=0")
			})
		}, SpecTimeout(8*time.Minute))

		It("when the API server is restarted", func(ctx SpecContext) {
			goesOn(ctx, "the API server restarted", func() { lab(ctx, "exec", "k8s-cp-01", "--", "pkill", "-9", "kube-apiserver") })
		}, SpecTimeout(8*time.Minute))

		It("when a person edits config.conf, and keeps what the spec does not declare", func(ctx SpecContext) {
			goesOn(ctx, "a person edited config.conf", func() {
				cm, err := proxyConfigMap(ctx)
				Expect(err).NotTo(HaveOccurred())
				writeProxyConfig(ctx, strings.NewReplacer("mode: nftables", "mode: iptables # for now", "configSyncPeriod: 0s", "configSyncPeriod: 14m0s").
					Replace(cm.Data["config.conf"]))
			})
			cm, err := proxyConfigMap(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(cm.Data["config.conf"]).To(And(ContainSubstring("configSyncPeriod: 14m0s"), ContainSubstring("mode: nftables # for now")))
		}, SpecTimeout(8*time.Minute))
	})
}

// goesOn hurts a change once its first node is done, and sees it through to its end.
func goesOn(ctx context.Context, what string, hurt func()) {
	GinkgoHelper()
	clients := change(ctx)
	restarted(ctx, 1)
	hurt()
	runs(ctx, "nftables")
	kept(ctx, clients, "", what)
}

// phase returns what is being done to kube-proxy.
func phase(ctx context.Context) (v1alpha1.KubeProxyPhase, error) {
	cnet, err := clusterNetworking(ctx)
	if err != nil {
		return "", err
	}
	return cnet.Status.KubeProxy.Phase, nil
}

// change starts the clients, then the change to nftables.
func change(ctx context.Context) *load {
	GinkgoHelper()
	ready(ctx)
	clients := startLoad(ctx, "lb-next")
	setMode(ctx, "nftables")
	return clients
}

// restarted waits until so many nodes run as asked, and the kube-proxy of another is restarted; it returns that node.
func restarted(ctx context.Context, done int) string {
	GinkgoHelper()
	var node string
	Eventually(func(g Gomega, ctx context.Context) {
		cnet, err := clusterNetworking(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(cnet.Status.KubeProxy.UpdatedNodes).To(BeNumerically(">=", done))
		said, err := condition("KubeProxyReady")(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		match := regexp.MustCompile(`; (?:restarting kube-proxy on|waiting for) ([\w-]+)`).FindStringSubmatch(said)
		g.Expect(match).NotTo(BeNil(), said)
		node = match[1]
	}).WithContext(ctx).WithTimeout(tutorialRoll).Should(Succeed())
	return node
}

// rolledBack waits until every node runs iptables again, sees that nothing is tried anew, and leaves it at that.
func rolledBack(ctx context.Context, clients *load, victim, what string) {
	GinkgoHelper()
	Eventually(condition("KubeProxyReady")).WithContext(ctx).WithTimeout(afterFailure).Should(
		MatchRegexp("^False RolledBack: 3 of 3 nodes run mode iptables.*; what the spec asks for failed on " + victim))
	cm, err := proxyConfigMap(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(cm.Data["config.conf"]).To(ContainSubstring("mode: iptables"))
	cnet, err := clusterNetworking(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(cnet.Status.KubeProxy.LastFailure).To(HaveField("Node", victim))
	Expect(kubectl(ctx, "events", "--for", "clusternetworking/cluster")).To(ContainSubstring("RolledBack"))
	kept(ctx, clients, victim, what)
	patchSpec(ctx, `{"kubeProxy":{"mode":"iptables","metricsBindAddress":null}}`)
	runs(ctx, "iptables")
}

// kept ends the clients, and sees that the address went on answering, and so did the Service from every node but the one that was hurt.
func kept(ctx context.Context, clients *load, hurt, what string) {
	GinkgoHelper()
	vip, nodes := clients.stop(ctx, what)
	Expect(vip.Failures).To(BeNumerically("<", vip.Attempts/50+clients.excused), vip.String())
	Expect(vip.Longest).To(BeNumerically("<", 3000), vip.String())
	delete(nodes, hurt)
	Expect(nodes).NotTo(BeEmpty())
	for node, r := range nodes {
		Expect(r.Failures).To(BeNumerically("<", r.Attempts/10+clients.excused), "%s: %s", node, r)
	}
	Eventually(curl(first)).WithContext(ctx).Should(ContainSubstring("Welcome to nginx!"))
}

// leader returns the node of the manager that leads. Its kube-proxy is restarted last.
func leader(ctx context.Context) string {
	GinkgoHelper()
	var lease coordinationv1.Lease
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: "lanyard-system", Name: "lanyard-manager"}, &lease)).To(Succeed())
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	var pod corev1.Pod
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: "lanyard-system", Name: name}, &pod)).To(Succeed())
	return pod.Spec.NodeName
}

// shut keeps new processes of a node's own from the API server; those that have a connection, and pods, keep it.
func shut(ctx SpecContext, node string) (open func(context.Context)) {
	GinkgoHelper()
	nft := func(ctx context.Context, command ...string) {
		lab(ctx, append([]string{"exec", node, "--", "nft"}, command...)...)
	}
	nft(ctx, "add", "table", "inet", "shut")
	open = func(ctx context.Context) {
		nft(ctx, "add", "table", "inet", "shut") // so that it can be deleted twice
		nft(ctx, "delete", "table", "inet", "shut")
	}
	DeferCleanup(func(ctx SpecContext) { open(ctx) })
	nft(ctx, "add", "chain", "inet", "shut", "out", "{ type filter hook output priority -300; }")
	nft(ctx, "add", "rule", "inet", "shut", "out", "tcp", "dport", "6443", "tcp", "flags", "syn / syn,ack", "drop")
	return open
}
