package kubeproxy

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// installer is whatever else than kubeadm lays out kube-proxy, writes its objects back, or does its work.
type installer struct {
	// name says what it is, why what Lanyard would write is lost on it, and where is the place that counts.
	name, why, where string
	// marks begin a label or an annotation, written key=value, that it puts on the objects it owns.
	marks []string
	// manager is how it calls itself in managedFields.
	manager string
	// node says whether a node is one of its own. It may be a label that anybody can set, so it names, and never decides.
	node func(*corev1.Node) bool
	// replaces means that it does kube-proxy's work: it is worth naming only where kube-proxy is off.
	replaces bool
}

// installers are asked in this order. The ones that never run kube-proxy in a DaemonSet of its name come before the networks that replace
// it, and those before the ones that have such a DaemonSet unless a network replaces it.
var installers = []installer{{
	name: "k3s", why: "kube-proxy is a part of the k3s process and has no ConfigMap",
	where: "set kube-proxy-arg in /etc/rancher/k3s/config.yaml on each node, then restart k3s there",
	node:  kubelet("+k3s"),
}, {
	name: "RKE2", why: "kube-proxy is a static pod that takes flags only",
	where: "set kube-proxy-arg in /etc/rancher/rke2/config.yaml on each node, then restart RKE2 there",
	node:  kubelet("+rke2"),
}, {
	name: "kOps", why: "kube-proxy is a static pod that each node writes for itself",
	where: "set spec.kubeProxy with `kops edit cluster`, then run `kops update cluster --yes` and `kops rolling-update cluster --yes`",
	node:  labelled("kops.k8s.io/"),
}, {
	name: "OpenShift", why: "the Cluster Network Operator runs what there is of kube-proxy, and writes its settings back",
	where: "see spec.deployKubeProxy and spec.kubeProxyConfig of `oc edit network.operator.openshift.io cluster`",
	node:  labelled("node.openshift.io/"),
}, {
	name: "Gardener", why: "each worker pool has a kube-proxy of its own, and Gardener writes its settings back",
	where: "set spec.kubernetes.kubeProxy of the Shoot",
	node:  labelled("worker.gardener.cloud/pool="),
}, {
	name: "GKE", why: "Google runs kube-proxy as a static pod, or Dataplane V2 in its place",
	where: "choose the dataplane when you create the cluster",
	node:  kubelet("-gke."),
}, {
	name: "AKS", why: "Azure owns kube-proxy, and writes its settings back",
	where: "use `az aks update --kube-proxy-config`",
	marks: []string{"kubernetes.azure.com/managedby=aks"}, node: labelled("kubernetes.azure.com/cluster="),
}, {
	name: "Cilium without kube-proxy", why: "no node runs kube-proxy, and Cilium does its work",
	where: "see kubeProxyReplacement among Cilium's settings",
	node:  network("CiliumIsUp"), replaces: true,
}, {
	name: "Calico without kube-proxy", why: "no node runs kube-proxy, and Calico's eBPF dataplane does its work",
	where: "see linuxDataplane of Calico's Installation, or bpfEnabled of its FelixConfiguration",
	node:  network("CalicoIsUp"), replaces: true,
}, {
	name: "kube-router without kube-proxy", why: "no node runs kube-proxy, and kube-router does its work",
	where: "see --run-service-proxy among kube-router's flags",
	node:  labelled("kube-router.io/"), replaces: true,
}, {
	name: "Antrea without kube-proxy", why: "no node runs kube-proxy, and AntreaProxy does its work",
	where: "see antreaProxy in ConfigMap kube-system/antrea-config",
	node:  labelled("node.antrea.io/"), replaces: true,
}, {
	name: "k0s", why: "it makes kube-proxy's objects from its own configuration, and writes them back",
	where: "set spec.network.kubeProxy of the ClusterConfig, with `k0s config edit` or in /etc/k0s/k0s.yaml on each controller",
	marks: []string{"k0s.k0sproject.io/"}, manager: "k0s", node: kubelet("+k0s"),
}, {
	name: "EKS", why: "Amazon runs kube-proxy, as an add-on or as a part of Auto Mode's nodes, and writes its settings back",
	where: "use `aws eks update-addon --addon-name kube-proxy --configuration-values`",
	marks: []string{"eks.amazonaws.com/component="}, manager: "eks", node: kubelet("-eks-"),
}, {
	name: "Talos", why: "kube-proxy takes flags only, and `talosctl upgrade-k8s` writes them back",
	where: "set cluster.proxy in the machine config, then run `talosctl upgrade-k8s`",
	node:  func(n *corev1.Node) bool { return strings.HasPrefix(n.Status.NodeInfo.OSImage, "Talos") },
}, {
	name: "a kube-proxy that Argo CD applies", why: "it writes back what stands in Git",
	where: "change it in the Application's source",
	marks: []string{"argocd.argoproj.io/tracking-id=", "argocd.argoproj.io/instance="}, manager: "argocd-controller",
}, {
	name: "a kube-proxy that a Flux Kustomization applies", why: "Flux writes back what stands in its source",
	where: "change it in the Kustomization's source",
	marks: []string{"kustomize.toolkit.fluxcd.io/name="}, manager: "kustomize-controller",
}, {
	name: "a kube-proxy that a Flux HelmRelease applies", why: "Flux writes back what the chart makes",
	where: "change it in the HelmRelease's values",
	marks: []string{"helm.toolkit.fluxcd.io/name="}, manager: "helm-controller",
}, {
	// Whatever is labelled EnsureExists is made once and then left to its users.
	name: "a kube-proxy that the addon-manager applies", why: "it writes back what its manifest says",
	where: "change the manifest in /etc/kubernetes/addons on each control plane node",
	marks: []string{"addonmanager.kubernetes.io/mode=Reconcile"},
}}

// message says what this is, why Lanyard leaves it alone, and where to change it.
func (i installer) message() string {
	return fmt.Sprintf("this is %s: %s. Lanyard leaves kube-proxy alone: %s, and remove spec.kubeProxy", i.name, i.why, i.where)
}

// keeps says whether the ConfigMap is written back by the installer: an edit would be lost, even where all looks like kubeadm's.
func (i installer) keeps(cm *corev1.ConfigMap) bool {
	return cm != nil && (i.owns(cm) || slices.ContainsFunc(cm.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return i.manager != "" && m.Manager == i.manager && WroteConfig(m)
	}))
}

// seen says whether the installer explains why kube-proxy is not laid out as kubeadm does it.
func (i installer) seen(e Evidence) bool {
	if i.replaces && !e.off() {
		return false
	}
	if e.DaemonSet != nil && i.owns(e.DaemonSet) {
		return true
	}
	return i.node != nil && slices.ContainsFunc(e.Nodes, func(n corev1.Node) bool { return i.node(&n) })
}

func (i installer) owns(o metav1.Object) bool {
	return slices.ContainsFunc(i.marks, func(mark string) bool { return marked(o, mark) })
}

// marked says whether a label or an annotation, written key=value, begins with the mark.
func marked(o metav1.Object, mark string) bool {
	for _, all := range []map[string]string{o.GetLabels(), o.GetAnnotations()} {
		for k, v := range all {
			if strings.HasPrefix(k+"="+v, mark) {
				return true
			}
		}
	}
	return false
}

// kubelet recognises a node by a part of its kubelet's version.
func kubelet(version string) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool { return strings.Contains(n.Status.NodeInfo.KubeletVersion, version) }
}

// labelled recognises a node by how one of its labels or annotations begins.
func labelled(mark string) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool { return marked(n, mark) }
}

// network recognises a node by what its network says when it is up.
func network(reason string) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool {
		return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse && c.Reason == reason
		})
	}
}
