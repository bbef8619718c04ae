package e2e

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A cluster of one node", func() {
	It("announces from that node, although kubeadm labels it to be left out, and says why", func(ctx SpecContext) {
		name := *labName + "-one"
		on := func(ctx context.Context, command ...string) (string, error) {
			return output(ctx, *labProgram, append([]string{"--name", name, "exec", "k8s-ops", "--"}, command...)...)
		}
		run(ctx, *labProgram, "--name", name, "up", "--nodes", "1")
		DeferCleanup(func(ctx SpecContext) { run(ctx, *labProgram, "--name", name, "down") }, NodeTimeout(2*time.Minute))
		run(ctx, *labProgram, "--name", name, "load", "dist/lanyard.tar")
		for _, command := range []string{
			"kubectl apply --server-side -f dist/install.yaml",
			"kubectl apply -f config/samples/tutorial.yaml",
			"kubectl create service loadbalancer lb-test --tcp=80:80",
		} {
			_, err := on(ctx, strings.Fields(command)...)
			Expect(err).NotTo(HaveOccurred())
		}
		Eventually(on).WithTimeout(2*time.Minute).WithContext(ctx).WithArguments("kubectl", "get", "clusternetworking", "cluster", "-o",
			`jsonpath={.status.allocatedIPs[0].node} {.status.conditions[?(@.type=="SpeakersReady")].message}`).Should(Equal(
			"k8s-cp-01 1 of 1 speakers are ready; 192.168.1.200: every node that can announce it carries the label " +
				"node.kubernetes.io/exclude-from-external-load-balancers; k8s-cp-01 announces it all the same"))
		Eventually(on).WithContext(ctx).WithArguments("arping", "-b", "-c", "1", "-I", "eth0", first).Should(ContainSubstring("Unicast reply from " + first))
	}, SpecTimeout(6*time.Minute))
})
