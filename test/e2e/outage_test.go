package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

const (
	// away is how long the API server is stopped.
	away = 10 * time.Minute
	// failover is how long an address may be without an answer when its node is lost.
	failover = time.Second
	// recovery is long enough for what went down with the API server: kubelet waits for up to five minutes before it starts the controller
	// manager, the scheduler and Lanyard's manager anew.
	recovery = 10 * time.Minute
	// controlPlane is the node with the API server. kubeadm's label keeps addresses off it while there is another.
	controlPlane = "k8s-cp-01"
)

// outageSpecs take the API server away.
func outageSpecs() {
	It("answers for ten minutes without it, over the restart of a speaker and the death of a node", func(ctx SpecContext) {
		owner := ready(ctx)
		machines := hosts(ctx)
		others := slices.DeleteFunc([]string{"k8s-wl-01", "k8s-wl-02"}, func(node string) bool { return node == owner.Node })
		Expect(others).To(HaveLen(1), "a worker owns the address")
		second := others[0]
		moveWebServersOff(ctx, second)

		stopped := time.Now()
		start := stopAPIServer(ctx)
		seen := outages{}
		seen.during(ctx, "nothing else happened", func() { until(ctx, stopped.Add(away/3)) })

		By("killing the speaker of " + owner.Node)
		seen.during(ctx, "a speaker was started anew", func() {
			lab(ctx, "exec", owner.Node, "--", "pkill", "-9", "-x", "speaker")
			Eventually(answering).WithArguments(first).WithContext(ctx).Should(Equal([]string{machines[second].mac()}))
			Eventually(metric).WithArguments(machines[owner.Node], "lanyard_speaker_last_state").WithContext(ctx).Should(Equal("1"))
			Eventually(metric).WithArguments(machines[owner.Node], "lanyard_speaker_peers").WithContext(ctx).Should(Equal("2"))
			until(ctx, stopped.Add(2*away/3))
		})
		Expect(answering(ctx, first)).To(Equal([]string{machines[second].mac()}), "who returns takes nothing back")

		By("killing " + second)
		DeferCleanup(func(ctx SpecContext) { lab(ctx, "start", second) })
		seen.during(ctx, "a node died", func() {
			lab(ctx, "kill", second)
			Eventually(answering).WithArguments(first).WithContext(ctx).Should(Equal([]string{machines[owner.Node].mac()}), "by the speaker that was started anew")
			until(ctx, stopped.Add(away))
		})

		By("starting the API server")
		seen.during(ctx, "the API server was started", func() {
			start(ctx)
			Eventually(metric).WithTimeout(recovery).WithArguments(machines[owner.Node], "lanyard_speaker_last_state").WithContext(ctx).Should(Equal("0"))
			lab(ctx, "start", second)
			Eventually(condition("Ready")).WithTimeout(recovery).WithContext(ctx).Should(HavePrefix("True Ready: "))
		})
		Expect(agree(ctx, first).Node).To(Equal(owner.Node))
		for what, longest := range seen {
			Expect(longest).To(BeNumerically("<=", failover), what)
		}
	}, SpecTimeout(away+2*recovery))
}

// outages are the longest times without an answer while something happened.
type outages map[string]time.Duration

// during does something, and measures how long clients get no answer meanwhile.
func (o outages) during(ctx context.Context, what string, do func()) {
	GinkgoHelper()
	measured := measureOutage(ctx, first)
	do()
	longest, answers := measured.stop()
	AddReportEntry("longest time without an answer while "+what, fmt.Sprintf("%s (%d answers)", longest, answers))
	o[what] = longest
}

// until waits for a time: it is the length of the outage that is tested.
func until(ctx context.Context, end time.Time) {
	GinkgoHelper()
	select {
	case <-ctx.Done():
		Fail(context.Cause(ctx).Error())
	case <-time.After(time.Until(end)):
	}
}

// stopAPIServer ends the API server, and returns what starts it.
func stopAPIServer(ctx context.Context) (start func(context.Context)) {
	GinkgoHelper()
	By("stopping the API server")
	const manifest, aside = "/etc/kubernetes/manifests/kube-apiserver.yaml", "/etc/kubernetes/kube-apiserver.yaml"
	start = func(ctx context.Context) {
		lab(ctx, "exec", controlPlane, "--", "sh", "-c", "test ! -e "+aside+" || mv "+aside+" "+manifest)
	}
	DeferCleanup(func(ctx SpecContext) {
		start(ctx)
		Eventually(clusterNetworking).WithTimeout(recovery).WithContext(ctx).Should(Not(BeNil()))
	}, NodeTimeout(recovery))
	lab(ctx, "exec", controlPlane, "--", "mv", manifest, aside)
	Eventually(lab).WithArguments("exec", controlPlane, "--", "sh", "-c", "pgrep -x kube-apiserver || true").WithContext(ctx).Should(BeEmpty())
	return start
}

// machine is a node's address on the LAN.
type machine struct{ netip.Addr }

// mac is the hardware address that the lab gives a node of that address.
func (m machine) mac() string {
	a := m.As4()
	return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", a[0], a[1], a[2], a[3])
}

// hosts returns where the nodes are, by name.
func hosts(ctx context.Context) map[string]machine {
	GinkgoHelper()
	var nodes corev1.NodeList
	Expect(k8s.List(ctx, &nodes)).To(Succeed())
	all := map[string]machine{}
	for _, n := range nodes.Items {
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				all[n.Name] = machine{netip.MustParseAddr(a.Address)}
			}
		}
	}
	return all
}

// metric returns a metric of the speaker on a node. It needs no API server.
func metric(ctx context.Context, on machine, name string) (string, error) {
	page, err := output(ctx, "curl", "--silent", "--show-error", "--fail", "--max-time", "1", "http://"+on.String()+":7957/metrics")
	if err != nil {
		return "", err
	}
	match := regexp.MustCompile(`(?m)^` + name + ` (.*)$`).FindStringSubmatch(page)
	if match == nil {
		return "", fmt.Errorf("there is no metric %s", name)
	}
	return match[1], nil
}
