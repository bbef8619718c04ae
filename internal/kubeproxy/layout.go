package kubeproxy

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Where kubeadm keeps kube-proxy.
const (
	Namespace  = "kube-system"
	Name       = "kube-proxy"
	ConfigKey  = "config.conf"
	PodLabel   = "k8s-app"
	configFlag = "--config=/var/lib/kube-proxy/config.conf"
)

// Evidence is what tells how kube-proxy is laid out, and by whom.
type Evidence struct {
	// ConfigMap and DaemonSet are kube-proxy's; nil means that they do not exist.
	ConfigMap *corev1.ConfigMap
	DaemonSet *appsv1.DaemonSet
	// Nodes are all nodes.
	Nodes []corev1.Node
	// Nowhere means that there are nodes, and that the DaemonSet's nodeSelector and nodeAffinity together take none of them.
	Nowhere bool
	// Forbidden means that Lanyard was installed without the rights that changing kube-proxy takes.
	Forbidden bool
}

// Layout says whether kube-proxy is laid out as kubeadm does it.
type Layout struct {
	// Managed means that it is, so that editing the ConfigMap and restarting the pods does what it says.
	Managed bool
	// Message says what is different, and where the real place to change it is.
	Message string
}

// CheckLayout compares kube-proxy's objects with kubeadm's, which kind, minikube and Cluster API have too. The objects decide: whoever is
// known to write the ConfigMap back keeps it, and objects that are kubeadm's are managed, whatever the nodes look like. Only to name what
// is no kubeadm's cluster anyhow, the nodes are looked at. Where all is kubeadm's but the configuration itself is gone, it has to be put back.
// Where Lanyard has no right to change kube-proxy, it does not matter how it is laid out.
func CheckLayout(e Evidence) Layout {
	if e.Forbidden {
		return Layout{Message: "Lanyard was installed without the right to change kube-proxy, and leaves it alone: remove spec.kubeProxy, or give the " +
			"right (manageKubeProxy=true in the chart's values; else config/rbac as it is, and no --manage-kube-proxy=false)"}
	}
	difference := e.difference()
	for _, i := range installers {
		if i.keeps(e.ConfigMap) || difference != "" && i.seen(e) {
			return Layout{Message: i.message()}
		}
	}
	if difference != "" {
		return Layout{Message: difference + "; Lanyard leaves kube-proxy alone: change it where this cluster's installer keeps it, and remove " +
			"spec.kubeProxy"}
	}
	if e.ConfigMap.Data[ConfigKey] == "" {
		return Layout{Message: fmt.Sprintf("ConfigMap %s/%s has lost its key %s, without which no kube-proxy starts: put it back, from a backup or with "+
			"`kubeadm init phase addon kube-proxy --config FILE` and the file that `kubeadm init` was given. Lanyard leaves kube-proxy alone until then",
			Namespace, Name, ConfigKey)}
	}
	return Layout{Managed: true}
}

// difference says in which way kube-proxy's objects are not laid out as kubeadm does it; empty when they are.
func (e Evidence) difference() string {
	cm, ds := e.ConfigMap, e.DaemonSet
	switch {
	case ds == nil:
		return fmt.Sprintf("there is no DaemonSet %s/%s: this cluster runs without kube-proxy, or its kube-proxy is no pod of a DaemonSet",
			Namespace, Name)
	case cm == nil:
		return fmt.Sprintf("there is no ConfigMap %s/%s: kube-proxy gets its settings elsewhere", Namespace, Name)
	case !readsConfig(ds, cm.Name):
		return fmt.Sprintf("DaemonSet %s/%s does not read %s from ConfigMap %s (its command should have %s)",
			Namespace, Name, ConfigKey, cm.Name, configFlag)
	case e.off():
		return fmt.Sprintf("the %s of DaemonSet %s/%s selects none of the nodes (%s): kube-proxy is turned off", selectedBy(ds.Spec.Template.Spec),
			Namespace, Name, labels.Set(ds.Spec.Template.Spec.NodeSelector))
	}
	return ""
}

// off says whether no node runs kube-proxy. To turn it off by a nodeSelector that no node has is what Calico tells its users to do. Without
// any node it cannot be told.
func (e Evidence) off() bool {
	if e.DaemonSet == nil || e.Nowhere {
		return true
	}
	selector := labels.SelectorFromSet(e.DaemonSet.Spec.Template.Spec.NodeSelector)
	return len(e.Nodes) > 0 && !slices.ContainsFunc(e.Nodes, func(n corev1.Node) bool { return selector.Matches(labels.Set(n.Labels)) })
}

// selectedBy names what in a pod's template decides on which nodes it runs.
func selectedBy(pod corev1.PodSpec) string {
	if pod.Affinity != nil && pod.Affinity.NodeAffinity != nil {
		return "nodeAffinity, with the nodeSelector,"
	}
	return "nodeSelector"
}

// readsConfig says whether a container of the DaemonSet reads the ConfigMap's file.
func readsConfig(ds *appsv1.DaemonSet, configMap string) bool {
	pod := ds.Spec.Template.Spec
	mounted := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.ConfigMap != nil && v.ConfigMap.Name == configMap
	})
	return mounted && slices.ContainsFunc(pod.Containers, func(c corev1.Container) bool {
		return slices.Contains(c.Command, configFlag) || slices.Contains(c.Args, configFlag)
	})
}

// WroteConfig says whether a manager of the ConfigMap's fields was the last to write kube-proxy's configuration.
func WroteConfig(m metav1.ManagedFieldsEntry) bool {
	return m.FieldsV1 != nil && strings.Contains(m.FieldsV1.GetRawString(), `"f:`+ConfigKey+`"`)
}

// PodSelector selects kube-proxy's pods, as kubeadm labels them.
func PodSelector() labels.Selector {
	return labels.SelectorFromSet(labels.Set{PodLabel: Name})
}
