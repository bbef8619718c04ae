package controllers

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// nodes returns the nodes that run kube-proxy, each with its pod and what its speaker says.
func (r *KubeProxyReconciler) nodes(ctx context.Context, proxy *appsv1.DaemonSet) ([]kubeproxy.Node, error) {
	if proxy == nil {
		return nil, nil
	}
	var (
		nodes   corev1.NodeList
		pods    corev1.PodList
		reports v1alpha1.NodeNetworkingList
	)
	if err := r.client.List(ctx, &nodes, client.MatchingLabels(proxy.Spec.Template.Spec.NodeSelector)); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	if err := r.client.List(ctx, &pods, client.InNamespace(kubeproxy.Namespace), client.MatchingLabels{kubeproxy.PodLabel: kubeproxy.Name}); err != nil {
		return nil, fmt.Errorf("listing kube-proxy's pods: %w", err)
	}
	if err := r.client.List(ctx, &reports); err != nil {
		return nil, fmt.Errorf("listing NodeNetworkings: %w", err)
	}
	speakers, err := getOrNil(ctx, r.client, client.ObjectKey{Namespace: r.speakers, Name: v1alpha1.SpeakerDaemonSet}, &appsv1.DaemonSet{})
	if err != nil {
		return nil, err
	}
	var all []kubeproxy.Node
	for i := range nodes.Items {
		n := &nodes.Items[i]
		node := kubeproxy.Node{Name: n.Name, Ready: nodeReady(n), Witness: kubeproxy.NoSpeaker}
		if speakers != nil && labels.SelectorFromSet(speakers.Spec.Template.Spec.NodeSelector).Matches(labels.Set(n.Labels)) {
			node.Witness = kubeproxy.Silent
		}
		for j := range reports.Items {
			if report := &reports.Items[j]; report.Name == n.Name && node.Witness == kubeproxy.Silent {
				node.Witness, node.Mode = kubeproxy.Reporting, report.Status.KubeProxy.Mode
			}
		}
		for j := range pods.Items {
			if p := &pods.Items[j]; p.Spec.NodeName == n.Name && p.DeletionTimestamp == nil {
				node.Pod = podOf(p)
			}
		}
		all = append(all, node)
	}
	return all, nil
}

// podOf returns what matters of a pod of kube-proxy's, or of a speaker's: both have one container.
func podOf(p *corev1.Pod) *kubeproxy.Pod {
	pod := &kubeproxy.Pod{Name: p.Name, UID: string(p.UID), Created: p.CreationTimestamp.Time}
	for _, c := range p.Status.Conditions {
		pod.Ready = pod.Ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			pod.Failure = explain(c.Reason, c.Message)
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		waiting, last := c.State.Waiting, c.LastTerminationState.Terminated
		switch {
		// A first start that is slow is no failure; one that failed and is put off is.
		case waiting == nil || waiting.Reason == "ContainerCreating" || waiting.Reason == "PodInitializing":
		// How the last process ended says more than that the next one has to wait, for how long changes all the time.
		case waiting.Reason == "CrashLoopBackOff" && last != nil:
			pod.Failure = explain(fmt.Sprintf("%s, exit code %d", waiting.Reason, last.ExitCode), cmp.Or(strings.TrimSpace(last.Message), last.Reason))
		default:
			pod.Failure = explain(waiting.Reason, waiting.Message)
		}
	}
	return pod
}

// explain adds what is known to what happened.
func explain(what, why string) string {
	if why = strings.TrimSpace(why); why == "" {
		return what
	}
	return what + ": " + why
}
