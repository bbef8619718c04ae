package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/test/traffic"
)

// connections is how many connections each client opens a second.
const connections = 50

// onPods has a client in a pod on every node. The image is the lab's own.
const onPods = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: load, namespace: default}
spec:
  selector: {matchLabels: {app: load}}
  template:
    metadata: {labels: {app: load}}
    spec:
      terminationGracePeriodSeconds: 2
      tolerations: [{operator: Exists}]
      containers: [{name: load, image: "load:dev", args: ["--rate=50", "--for=30m", "http://CLUSTERIP"]}]
`

// load is what clients go through while something happens: one on the workstation asks at an address of the LAN, and one in a pod on every
// node at the cluster IP of the same Service.
type load struct {
	cancel context.CancelFunc
	asking sync.WaitGroup
	vip    traffic.Report
	before map[string]traffic.Report
	// excused is how many failures are not the network's: those of connections to a pod that died with its node.
	excused int
}

// podDies excuses what fails as one of the Service's two pods dies with its node: every other connection, until the cluster gives the node up
// (kube-controller-manager's node-monitor-grace-period, 50 s, and what it and kubelet are late) and takes the pod from the Service.
func (l *load) podDies() {
	const givenUp = 90 // seconds
	l.excused = connections * givenUp / 2
}

// startLoad starts the clients for the Service of the tutorial that has the first address.
func startLoad(ctx context.Context, service string) *load {
	GinkgoHelper()
	clusterIP := kubectl(ctx, "get", "service", service, "-o", "jsonpath={.spec.clusterIP}")
	kubectlApply(ctx, strings.ReplaceAll(onPods, "CLUSTERIP", clusterIP))
	DeferCleanup(func(ctx SpecContext) { kubectl(ctx, "delete", "daemonset", "load", "--ignore-not-found") })
	kubectl(ctx, "rollout", "status", "daemonset", "load", "--timeout=60s")
	l := &load{}
	Eventually(func(g Gomega, ctx context.Context) {
		l.before = podReports(ctx)
		for _, r := range l.before {
			g.Expect(r.Attempts).To(BeNumerically(">", connections), "every client is at work")
		}
	}).WithContext(ctx).Should(Succeed())
	ctx, l.cancel = context.WithCancel(ctx)
	l.asking.Go(func() { l.vip = traffic.New("http://"+first).Run(ctx, connections) })
	return l
}

// stop ends the clients, adds their reports to the suite's, and returns them: the workstation's, and those of the nodes by name.
func (l *load) stop(ctx context.Context, what string) (vip traffic.Report, nodes map[string]traffic.Report) {
	GinkgoHelper()
	l.cancel()
	l.asking.Wait()
	nodes = podReports(ctx)
	AddReportEntry(first+" asked from the workstation while "+what, l.vip.String())
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		r := nodes[name]
		r.Attempts -= l.before[name].Attempts
		r.Failures -= l.before[name].Failures
		r.Cut -= l.before[name].Cut
		nodes[name] = r
		AddReportEntry("the cluster IP asked from a pod on "+name+" while "+what, r.String())
	}
	kubectl(ctx, "delete", "daemonset", "load", "--grace-period=1")
	return l.vip, nodes
}

// podReports returns what the clients in pods have told so far, by node.
func podReports(ctx context.Context) map[string]traffic.Report {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(k8s.List(ctx, &pods, client.InNamespace("default"), client.MatchingLabels{"app": "load"})).To(Succeed())
	reports := map[string]traffic.Report{}
	for _, p := range pods.Items {
		var r traffic.Report
		line, err := output(ctx, "kubectl", "logs", p.Name, "--tail=1")
		if err == nil && line != "" {
			Expect(json.Unmarshal([]byte(line), &r)).To(Succeed(), line)
		}
		reports[p.Spec.NodeName] = r
	}
	return reports
}
