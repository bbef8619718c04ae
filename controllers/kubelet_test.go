package controllers

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// shadowIP is the address of every probe's pod that the kubelet below runs.
const shadowIP = "127.0.0.77"

// able makes a Ready node that runs kube-proxy in mode iptables, with a kubelet that runs the probes' pods: shadows come up in the mode
// asked for where the node can run it, and crash where it cannot. Surveys are not to be had, for there is no node to list rules on.
func able(ctx context.Context, name string, modes ...string) {
	GinkgoHelper()
	started := metav1.Now().Rfc3339Copy()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy-" + name, Labels: map[string]string{"k8s-app": "kube-proxy"}},
		Spec:       corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "kube-proxy", Image: "kube-proxy"}}},
	}
	report := &v1alpha1.NodeNetworking{ObjectMeta: metav1.ObjectMeta{Name: name}}
	create(ctx, node, pod, report)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	Expect(k8s.Status().Update(ctx, node)).To(Succeed())
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "kube-proxy",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}}}
	Expect(k8s.Status().Update(ctx, pod)).To(Succeed())
	report.Status.KubeProxy = v1alpha1.NodeKubeProxy{Mode: "iptables", StartTime: &started}
	Expect(k8s.Status().Update(ctx, report)).To(Succeed())

	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k := kubelet{node: name, modes: modes}
	k.serve()
	go k.run(ctx)
	DeferCleanup(cancel)
}

// kubelet stands in for one: envtest has no nodes.
type kubelet struct {
	node  string
	modes []string
	// mode is what the shadow says that runs now.
	mode chan string
}

// serve answers as a shadow does, with the mode of the pod that was started last.
func (k *kubelet) serve() {
	GinkgoHelper()
	k.mode = make(chan string, 1)
	k.mode <- ""
	current := func() string { mode := <-k.mode; k.mode <- mode; return mode }
	mux := http.NewServeMux()
	mux.HandleFunc("/proxyMode", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, current()) })
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "process_start_time_seconds 1\nkubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"} %d\n", time.Now().Unix())
	})
	server := &http.Server{Addr: fmt.Sprintf("%s:%d", shadowIP, kubeproxy.ShadowPort), Handler: mux, ReadHeaderTimeout: time.Second}
	listener, err := net.Listen("tcp", server.Addr)
	Expect(err).NotTo(HaveOccurred())
	go server.Serve(listener) //nolint:errcheck // it ends with the spec
	DeferCleanup(server.Close)
}

// run starts the pods of probes, one look after the other, until the spec ends.
func (k *kubelet) run(ctx context.Context) {
	for ctx.Err() == nil {
		var pods corev1.PodList
		if err := k8s.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels(kubeproxy.ProbeLabels())); err == nil {
			for i := range pods.Items {
				switch pod := &pods.Items[i]; {
				case pod.Spec.NodeName != k.node:
				case pod.DeletionTimestamp != nil:
					_ = k8s.Delete(ctx, pod, client.GracePeriodSeconds(0)) // the next look tries again
				case pod.Status.Phase == corev1.PodPending:
					k.start(ctx, pod)
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// start gives a probe's pod the status that kubelet would.
func (k *kubelet) start(ctx context.Context, pod *corev1.Pod) {
	probe, state := kubeproxy.ProbeOf(pod), corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, shadowIP
	pod.Status.PodIPs = []corev1.PodIP{{IP: shadowIP}}
	able := false
	for _, mode := range k.modes {
		able = able || mode == probe.Mode
	}
	switch {
	case probe.Kind == kubeproxy.ProbeSurvey:
		pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "Evicted", "there is no node"
	case able:
		<-k.mode
		k.mode <- probe.Mode
	default:
		pod.Status.Phase = corev1.PodFailed
		state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error",
			Message: "can't use the IPVS proxier: ipvs not supported"}}
	}
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: state})
	}
	_ = k8s.Status().Update(ctx, pod) // the next look tries again
}
