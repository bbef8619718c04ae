package controllers

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// scripted are pods that say what the test says: there is no kubelet that runs them.
type scripted struct {
	answers map[string]kubeproxy.Answer // by node
	logs    map[string]string           // by container
	err     error                       // of reading a log
}

func (s scripted) answer(_ context.Context, pod *corev1.Pod) kubeproxy.Answer {
	return s.answers[pod.Spec.NodeName]
}

func (s scripted) log(_ context.Context, _ *corev1.Pod, container string, _ int64) (string, error) {
	return s.logs[container], s.err
}

var _ = Describe("probes", func() {
	const image = "registry.k8s.io/kube-proxy:v1.36.3"
	setup := probeSetup{Image: image, Kubeconfig: "kubeconfig", Deadline: 2 * time.Minute}
	passed := kubeproxy.Answer{Mode: "nftables", Syncs: kubeproxy.Syncs{Families: map[string]bool{"IPv4": true}}}
	running := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "127.0.0.1", ContainerStatuses: []corev1.ContainerStatus{
		{Name: "kube-proxy", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}

	var (
		ns   string
		says scripted
		p    *probes
		now  time.Time
	)
	// restart makes a manager that knows nothing of the one before it.
	restart := func() {
		p = newProbes(k8s, ns, says)
		p.now = func() time.Time { return now }
	}
	namespaced := func(ctx context.Context, level string) {
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "probes-",
			Labels: map[string]string{"pod-security.kubernetes.io/enforce": level}}}
		Expect(k8s.Create(ctx, space)).To(Succeed())
		ns = space.Name
		restart()
	}
	BeforeEach(func(ctx SpecContext) {
		now = time.Unix(0, 0)
		says = scripted{answers: map[string]kubeproxy.Answer{}, logs: map[string]string{}}
		namespaced(ctx, "privileged")
	})

	shadow := func(node string) kubeproxy.Probe {
		document := "kind: KubeProxyConfiguration\nmode: nftables\n"
		return kubeproxy.Probe{Kind: kubeproxy.ProbeShadow, Node: node, Hash: kubeproxy.Hash(document, image), Mode: "nftables", Document: document}
	}
	shadows := func(n int) (wanted []kubeproxy.Probe) {
		for i := range n {
			wanted = append(wanted, shadow(fmt.Sprintf("node-%d", i)))
		}
		return wanted
	}
	// nodes are those that have a pod which is not on its way out.
	nodes := func(ctx context.Context) (names []string) {
		var pods corev1.PodList
		Expect(k8s.List(ctx, &pods, client.InNamespace(ns))).To(Succeed())
		for _, pod := range pods.Items {
			if pod.DeletionTimestamp == nil {
				names = append(names, pod.Spec.NodeName)
			}
		}
		return names
	}
	configMaps := func(ctx context.Context) []corev1.ConfigMap {
		var list corev1.ConfigMapList
		Expect(k8s.List(ctx, &list, client.InNamespace(ns))).To(Succeed())
		return list.Items
	}
	become := func(ctx context.Context, node string, status corev1.PodStatus) {
		GinkgoHelper()
		var pods corev1.PodList
		Expect(k8s.List(ctx, &pods, client.InNamespace(ns))).To(Succeed())
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.Spec.NodeName == node && pod.DeletionTimestamp == nil {
				pod.Status = status
				Expect(k8s.Status().Update(ctx, pod)).To(Succeed())
				return
			}
		}
		Fail("there is no pod on " + node)
	}
	states := func(ctx context.Context) map[string]kubeproxy.ProbeState {
		GinkgoHelper()
		results, err := p.gather(ctx)
		Expect(err).NotTo(HaveOccurred())
		found := map[string]kubeproxy.ProbeState{}
		for key, r := range results {
			Expect(r.Key).To(Equal(key))
			found[key.Node] = r.State
		}
		return found
	}

	It("run on five nodes at a time, each for no longer than it takes", func(ctx SpecContext) {
		wanted := shadows(7)
		Expect(p.ensure(ctx, wanted, setup)).To(Succeed())
		Expect(p.ensure(ctx, wanted, setup)).To(Succeed())
		Expect(nodes(ctx)).To(ConsistOf("node-0", "node-1", "node-2", "node-3", "node-4"))
		Expect(configMaps(ctx)).To(ConsistOf(HaveField("Name", kubeproxy.ShadowConfigMapName(wanted[0].Hash))))
		Expect(states(ctx)).To(HaveLen(5))

		become(ctx, "node-0", running)
		become(ctx, "node-3", running)
		says.answers["node-3"] = passed
		Expect(states(ctx)).To(And(HaveKeyWithValue("node-3", kubeproxy.ProbePassed), HaveKeyWithValue("node-0", kubeproxy.ProbeRunning)))
		Expect(p.ensure(ctx, wanted, setup)).To(Succeed())
		Expect(nodes(ctx)).To(ConsistOf("node-0", "node-1", "node-2", "node-4", "node-5"))
		delete(says.answers, "node-3")
		Expect(states(ctx)).To(HaveKeyWithValue("node-3", kubeproxy.ProbePassed), "what was found stands when the pod is gone")
	})

	It("leave nothing behind once nothing is wanted, and are asked anew when they are wanted again", func(ctx SpecContext) {
		Expect(p.ensure(ctx, shadows(2), setup)).To(Succeed())
		become(ctx, "node-0", running)
		says.answers["node-0"] = passed
		Expect(states(ctx)).To(HaveKeyWithValue("node-0", kubeproxy.ProbePassed))
		Expect(p.ensure(ctx, nil, setup)).To(Succeed())
		Expect(nodes(ctx)).To(BeEmpty())
		Expect(configMaps(ctx)).To(BeEmpty())
		Expect(states(ctx)).To(BeEmpty())
	})

	It("of a manager that is gone are found and judged by the next, or swept", func(ctx SpecContext) {
		Expect(p.ensure(ctx, shadows(3), setup)).To(Succeed())
		become(ctx, "node-1", running)
		says.answers["node-1"] = passed
		restart()
		Expect(states(ctx)).To(Equal(map[string]kubeproxy.ProbeState{
			"node-0": kubeproxy.ProbeRunning, "node-1": kubeproxy.ProbePassed, "node-2": kubeproxy.ProbeRunning}))
		restart()
		Expect(p.ensure(ctx, []kubeproxy.Probe{shadow("node-2")}, setup)).To(Succeed())
		Expect(nodes(ctx)).To(ConsistOf("node-2"))
	})

	It("that Pod Security refuses have failed, with the remedy", func(ctx SpecContext) {
		namespaced(ctx, "baseline")
		Expect(p.ensure(ctx, shadows(1), setup)).To(Succeed())
		results, err := p.gather(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(results[shadow("node-0").Key()]).To(And(
			HaveField("State", kubeproxy.ProbeFailed),
			HaveField("Message", And(HavePrefix("the API server refused the probe's pod in namespace "+ns+` (violates PodSecurity "baseline:latest": `),
				HaveSuffix("; run `kubectl label namespace "+ns+" pod-security.kubernetes.io/enforce=privileged --overwrite`")))))
	})

	It("that are not ready within a minute have failed, with the end of the log", func(ctx SpecContext) {
		Expect(p.ensure(ctx, shadows(1), setup)).To(Succeed())
		become(ctx, "node-0", running)
		says.logs["kube-proxy"] = "1\n2\n3\n4\n5\nno sync\n"
		for range 12 { // a minute, in the longest steps that count
			Expect(states(ctx)).To(HaveKeyWithValue("node-0", kubeproxy.ProbeRunning))
			now = now.Add(time.Hour)
		}
		results, err := p.gather(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(results[shadow("node-0").Key()]).To(And(HaveField("State", kubeproxy.ProbeFailed), HaveField("LogTail", "2\n3\n4\n5\nno sync"),
			HaveField("Message", ContainSubstring("was not ready within 1m0s: it does not answer"))))
	})

	It("read the rules of a node", func(ctx SpecContext) {
		survey := kubeproxy.Probe{Kind: kubeproxy.ProbeSurvey, Node: "node-0", Hash: kubeproxy.Hash("iptables", image), Mode: "iptables"}
		Expect(p.ensure(ctx, []kubeproxy.Probe{survey}, setup)).To(Succeed())
		Expect(configMaps(ctx)).To(BeEmpty())
		done := corev1.PodStatus{Phase: corev1.PodSucceeded}
		for _, container := range []string{"iptables-save", "ip6tables-save", "nft"} {
			done.ContainerStatuses = append(done.ContainerStatuses, corev1.ContainerStatus{Name: container,
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}})
		}
		become(ctx, "node-0", done)
		says.logs["nft"] = "table ip6 kube-proxy\n"
		results, err := p.gather(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(results[survey.Key()]).To(And(HaveField("State", kubeproxy.ProbePassed),
			HaveField("Leftovers", ConsistOf(HavePrefix("nftables has tables of a mode that does not run (ip6 kube-proxy)")))))
	})

	It("do not run with a candidate that cannot be read", func(ctx SpecContext) {
		bad := shadow("node-0")
		bad.Document = "kind: Pod\n"
		Expect(p.ensure(ctx, []kubeproxy.Probe{bad, shadow("node-1")}, setup)).To(Succeed())
		Expect(nodes(ctx)).To(ConsistOf("node-1"))
		results, err := p.gather(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(results[bad.Key()].Message).To(Equal(
			"the candidate for config.conf is of kind Pod, not KubeProxyConfiguration; mend ConfigMap kube-system/kube-proxy"))
	})

	It("start with the way to the API server that kube-proxy has now", func(ctx SpecContext) {
		Expect(p.ensure(ctx, shadows(1), setup)).To(Succeed())
		moved := setup
		moved.Kubeconfig = "another"
		wanted := shadows(2)
		Expect(p.ensure(ctx, wanted, moved)).To(Succeed())
		Expect(p.ensure(ctx, wanted, moved)).To(Succeed())
		Expect(nodes(ctx)).To(ConsistOf("node-0", "node-1"))
		Expect(configMaps(ctx)[0].Data).To(HaveKeyWithValue("kubeconfig.conf", "another"))
	})
})
