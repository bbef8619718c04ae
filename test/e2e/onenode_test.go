package e2e

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A cluster of one node", func() {
	It("announces from that node, although kubeadm labels it to be left out, and says why", func(ctx SpecContext) {
		one := startLab(ctx, "one", "--nodes", "1")
		one.kubectl(ctx, "apply", "--server-side", "-f", "dist/install.yaml")
		one.kubectl(ctx, "apply", "-f", "config/samples/tutorial.yaml")
		one.kubectl(ctx, "create", "service", "loadbalancer", "lb-test", "--tcp=80:80")
		Eventually(one.ops).WithTimeout(2*time.Minute).WithContext(ctx).WithArguments("kubectl", "get", "clusternetworking", "cluster", "-o",
			`jsonpath={.status.allocatedIPs[0].node} {.status.conditions[?(@.type=="SpeakersReady")].message}`).Should(Equal(
			"k8s-cp-01 1 of 1 speakers are ready; 192.168.1.200: every node that can announce it carries the label " +
				"node.kubernetes.io/exclude-from-external-load-balancers; k8s-cp-01 announces it all the same"))
		Eventually(one.ops).WithContext(ctx).WithArguments("arping", "-b", "-c", "1", "-I", "eth0", first).Should(ContainSubstring("Unicast reply from " + first))
	}, SpecTimeout(6*time.Minute))
})
