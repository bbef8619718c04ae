package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// nodes returns those of all nodes that run kube-proxy, each with its pod and what its speaker says.
func (r *KubeProxyReconciler) nodes(ctx context.Context, proxy *appsv1.DaemonSet, all []corev1.Node) (
	nodes []kubeproxy.Node, uses []v1alpha1.KubeProxyUse, err error,
) {
	if proxy == nil {
		return nil, nil, nil
	}
	var s sightings
	if err := r.client.List(ctx, &s.proxies, client.InNamespace(kubeproxy.Namespace), client.MatchingLabels{kubeproxy.PodLabel: kubeproxy.Name}); err != nil {
		return nil, nil, fmt.Errorf("listing kube-proxy's pods: %w", err)
	}
	if err := r.client.List(ctx, &s.speakers, client.InNamespace(r.namespace), client.MatchingLabels(speakerLabels())); err != nil {
		return nil, nil, fmt.Errorf("listing the speakers' pods: %w", err)
	}
	if err := r.client.List(ctx, &s.reports); err != nil {
		return nil, nil, fmt.Errorf("listing NodeNetworkings: %w", err)
	}
	s.daemonSet, err = getOrNil(ctx, r.client, client.ObjectKey{Namespace: r.namespace, Name: v1alpha1.SpeakerDaemonSet}, &appsv1.DaemonSet{})
	if err != nil {
		return nil, nil, err
	}
	for i := range all {
		if runsOn(proxy, &all[i]) {
			nodes = append(nodes, s.of(&all[i]))
		}
	}
	r.tell(ctx, s.proxies.Items, nodes)
	return nodes, s.uses(), nil
}

// runsOn says whether the DaemonSet has a pod on the node: its nodeSelector and the node affinity that it requires decide, as they do for
// the controller that makes the pods. Clusters with nodes at the edge, or virtual ones, keep kube-proxy off them by an affinity.
func runsOn(ds *appsv1.DaemonSet, n *corev1.Node) bool {
	takes, _ := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: ds.Spec.Template.Spec}).Match(n) // a term that cannot be read takes no node
	return takes
}

// nowhere says whether there are nodes, and the DaemonSet has a pod on none of them.
func nowhere(ds *appsv1.DaemonSet, all []corev1.Node) bool {
	return ds != nil && len(all) > 0 && !slices.ContainsFunc(all, func(n corev1.Node) bool { return runsOn(ds, &n) })
}

// sightings are what there is to tell how kube-proxy runs on the nodes.
type sightings struct {
	proxies, speakers corev1.PodList
	reports           v1alpha1.NodeNetworkingList
	// daemonSet is the speakers'; nil when there is none.
	daemonSet *appsv1.DaemonSet
}

// controlPlaneLabel is Kubernetes' well-known label of control planes.
const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// uses are the features that any node uses, in order.
func (s sightings) uses() []v1alpha1.KubeProxyUse {
	var all []v1alpha1.KubeProxyUse
	for i := range s.reports.Items {
		all = append(all, s.reports.Items[i].Status.KubeProxy.Uses...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// of returns a node with its kube-proxy.
func (s sightings) of(n *corev1.Node) kubeproxy.Node {
	_, controlPlane := n.Labels[controlPlaneLabel]
	node := kubeproxy.Node{Name: n.Name, Ready: nodeReady(n), ControlPlane: controlPlane}
	for i := range s.proxies.Items {
		switch p := &s.proxies.Items[i]; {
		case p.Spec.NodeName != n.Name:
		case p.DeletionTimestamp == nil:
			node.Pod = podOf(p)
		default:
			node.Left = leftAt(p)
		}
	}
	if s.speakerOn(n) {
		node.Witness = kubeproxy.Silent
	}
	for i := range s.reports.Items {
		if report := &s.reports.Items[i]; report.Name == n.Name {
			node = node.Hear(report.Status.KubeProxy)
			node.Announces = int(report.Status.AnnouncedCount)
		}
	}
	return node
}

// speakerOn says whether a speaker is to be heard from the node. Where its pod is tells: taints, affinities and quotas keep speakers off
// nodes that the selector takes. Only until the DaemonSet's pods are made is the selector all that there is to go by.
func (s sightings) speakerOn(n *corev1.Node) bool {
	if slices.ContainsFunc(s.speakers.Items, func(p corev1.Pod) bool { return p.Spec.NodeName == n.Name }) {
		return true
	}
	ds := s.daemonSet
	return ds != nil && ds.Status.ObservedGeneration < ds.Generation &&
		labels.SelectorFromSet(ds.Spec.Template.Spec.NodeSelector).Matches(labels.Set(n.Labels))
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
		if c.State.Running != nil {
			pod.Started = c.State.Running.StartedAt.Time
		}
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

// leftAt is since when a pod is being deleted: the API server writes when the grace period will be over.
func leftAt(p *corev1.Pod) time.Time {
	var grace int64 // seconds
	if p.DeletionGracePeriodSeconds != nil {
		grace = *p.DeletionGracePeriodSeconds
	}
	return p.DeletionTimestamp.Add(-time.Duration(grace) * time.Second)
}

// explain adds what is known to what happened.
func explain(what, why string) string {
	if why = strings.TrimSpace(why); why == "" {
		return what
	}
	return what + ": " + why
}
