package kubeproxy

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	// KubeconfigKey is where the ConfigMap has kube-proxy's way to the API server.
	KubeconfigKey = "kubeconfig.conf"
	// ShadowPort is the TCP port on which a shadow serves /proxyMode and /metrics.
	ShadowPort = 10249

	shadowContainer = "kube-proxy"
	configFolder    = "/var/lib/kube-proxy"
	kubeadmCommand  = "/usr/local/bin/kube-proxy"
)

// ShadowConfig returns the candidate for config.conf as a shadow can run it. What differs is how it is asked and where it finds the API
// server, and that it does not size the connection table: no network namespace but the node's own may write nf_conntrack_max. bindAddress
// stays: it says which of the node's addresses counts, and nothing is bound to it.
func ShadowConfig(document string) (string, error) {
	var values map[string]any
	// The same reading as kube-proxy's own, in which `no` is a boolean.
	if err := yaml.Unmarshal([]byte(document), &values); err != nil {
		return "", fmt.Errorf("the candidate for config.conf is not YAML: %w", oneLine(err))
	}
	if values["kind"] != Kind {
		return "", fmt.Errorf("the candidate for config.conf is of kind %v, not %s", values["kind"], Kind)
	}
	within(values, "conntrack", map[string]any{"maxPerCore": 0, "min": 0})
	within(values, "clientConnection", map[string]any{"kubeconfig": configFolder + "/" + KubeconfigKey})
	every := netip.IPv4Unspecified()
	if bind, _ := values["bindAddress"].(string); isIPv6(bind) {
		every = netip.IPv6Unspecified()
	}
	values["metricsBindAddress"] = netip.AddrPortFrom(every, ShadowPort).String()
	values["healthzBindAddress"] = netip.AddrPortFrom(every, 10256).String()
	encoded, err := yaml.Marshal(values)
	if err != nil {
		return "", fmt.Errorf("encoding the shadow's configuration: %w", err)
	}
	return string(encoded), nil
}

// within sets keys of a mapping, which is made where there is none. What is no mapping is left for kube-proxy to refuse.
func within(values map[string]any, key string, settings map[string]any) {
	if values[key] == nil {
		values[key] = map[string]any{}
	}
	if mapping, ok := values[key].(map[string]any); ok {
		for k, v := range settings {
			mapping[k] = v
		}
	}
}

func isIPv6(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && ip.Is6() && !ip.Is4In6()
}

// ShadowConfigMap holds what a shadow reads. All shadows of one candidate share it.
func (s ProbeSetup) ShadowConfigMap(p Probe) (*corev1.ConfigMap, error) {
	config, err := ShadowConfig(p.Document)
	if err != nil {
		return nil, err
	}
	labels := ProbeLabels()
	labels[probeHashLabel] = p.Hash
	immutable := true
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: ShadowConfigMapName(p.Hash), Labels: labels},
		Immutable:  &immutable,
		Data:       map[string]string{ConfigKey: config, KubeconfigKey: s.Kubeconfig},
	}, nil
}

// ShadowConfigMapName is the name of the ConfigMap of a candidate.
func ShadowConfigMapName(hash string) string { return "lanyard-probe-" + hash }

// Pod returns the pod that finds out what the probe asks.
func (s ProbeSetup) Pod(p Probe) *corev1.Pod {
	if p.Kind == ProbeSurvey {
		return s.surveyPod(p)
	}
	return s.shadowPod(p)
}

// shadowPod runs kube-proxy as kubeadm does, but for the network: rules, links and sysctls of a network namespace of its own are all that
// it can touch. The one thing it shares with the node are kernel modules, which it may load.
func (s ProbeSetup) shadowPod(p Probe) *corev1.Pod {
	privileged := true
	command := s.Command
	if command == "" {
		command = kubeadmCommand
	}
	pod := s.pod(p, corev1.Container{
		Name:                     shadowContainer,
		Image:                    s.Image,
		ImagePullPolicy:          corev1.PullIfNotPresent,
		Command:                  []string{command, configFlag, "--hostname-override=" + p.Node},
		Env:                      s.Env,
		SecurityContext:          &corev1.SecurityContext{Privileged: &privileged},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: configFolder, ReadOnly: true},
			{Name: "lib-modules", MountPath: "/lib/modules", ReadOnly: true},
		},
	})
	// kube-proxy is on the node's network and asks the node's resolver; the cluster's own needs a kube-proxy that works.
	pod.Spec.DNSPolicy = corev1.DNSDefault
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: ShadowConfigMapName(p.Hash)}}}},
		{Name: "lib-modules", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/lib/modules"}}},
	}
	return pod
}
