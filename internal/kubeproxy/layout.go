package kubeproxy

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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

// Layout says whether kube-proxy is laid out as kubeadm does it.
type Layout struct {
	// Managed means that it is, so that editing the ConfigMap and restarting the pods does what it says.
	Managed bool
	// Message says what is different, and where the real place to change it may be.
	Message string
}

// CheckLayout compares kube-proxy's objects with kubeadm's. nil means that an object does not exist.
func CheckLayout(cm *corev1.ConfigMap, ds *appsv1.DaemonSet) Layout {
	const advice = "Lanyard leaves kube-proxy alone: change it where this cluster's installer keeps it, and remove spec.kubeProxy"
	switch {
	case ds == nil:
		return Layout{Message: fmt.Sprintf("there is no DaemonSet %s/%s: this cluster runs without kube-proxy, or its kube-proxy is no pod of a "+
			"DaemonSet; %s", Namespace, Name, advice)}
	case cm == nil:
		return Layout{Message: fmt.Sprintf("there is no ConfigMap %s/%s: kube-proxy gets its settings elsewhere; %s", Namespace, Name, advice)}
	case cm.Data[ConfigKey] == "":
		return Layout{Message: fmt.Sprintf("ConfigMap %s/%s has no key %s; %s", Namespace, Name, ConfigKey, advice)}
	case !readsConfig(ds, cm.Name):
		return Layout{Message: fmt.Sprintf("DaemonSet %s/%s does not read %s from ConfigMap %s (its command should have %s); %s",
			Namespace, Name, ConfigKey, cm.Name, configFlag, advice)}
	}
	return Layout{Managed: true}
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

// PodSelector selects kube-proxy's pods, as kubeadm labels them.
func PodSelector() labels.Selector {
	return labels.SelectorFromSet(labels.Set{PodLabel: Name})
}
