package kubeproxy

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProbeKind is what a probe finds out.
type ProbeKind string

// The kinds of probes.
const (
	// ProbeShadow runs the cluster's own kube-proxy with a candidate configuration, in a network namespace of its own on the node.
	ProbeShadow ProbeKind = "shadow"
	// ProbeSurvey lists the rules that there are on the node itself.
	ProbeSurvey ProbeKind = "survey"
)

// Probe is something to be found out on one node by a short-lived pod.
type Probe struct {
	Kind ProbeKind
	Node string
	// Hash tells probes of one node apart: Hash(Document, image) for a shadow, Hash(Mode, image) for a survey.
	Hash string
	// Mode is what a shadow has to reach, or what runs on the node that is surveyed. Empty leaves it to kube-proxy: a shadow then has to
	// come up in any.
	Mode string
	// Document is the candidate for config.conf; only of a shadow.
	Document string
}

// ProbeKey tells probes apart.
type ProbeKey struct {
	Kind ProbeKind
	Node string
	Hash string
}

// Key returns what tells the probe from others.
func (p Probe) Key() ProbeKey { return ProbeKey{Kind: p.Kind, Node: p.Node, Hash: p.Hash} }

// ProbeState is how far a probe has come.
type ProbeState int

// The states of a probe. The last two are final.
const (
	ProbeRunning ProbeState = iota
	ProbePassed
	ProbeFailed
)

// ProbeResult is what a probe has found out so far.
type ProbeResult struct {
	Key   ProbeKey
	State ProbeState
	// Message says why it failed and what to do, or what it waits for. It names no node: the same trouble has the same words on each.
	Message string
	// LogTail are the last lines that a failed kube-proxy wrote: no more than 5, no more than 1 KiB.
	LogTail string
	// Leftovers are what is there of modes that do not run, one sentence each; only of a survey.
	Leftovers []string
	// Notes are other things worth knowing before a change, one sentence each; only of a survey.
	Notes []string
}

// Hash returns 10 hexadecimal digits that stand for a document and an image.
func Hash(document, image string) string { return digits(document, image) }

// digits returns 10 hexadecimal digits that stand for the texts together.
func digits(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])[:10]
}

// ProbeAccount is the ServiceAccount of probes: it may what kube-proxy may.
const ProbeAccount = "lanyard-probe"

// The labels by which a probe's pod is found again. Its node is in its spec: a node's name can be too long for a label.
const (
	probeKindLabel = "networking.lanyard.dev/probe"
	probeHashLabel = "networking.lanyard.dev/probe-hash"
	probeModeLabel = "networking.lanyard.dev/probe-mode"
)

// ProbeLabels are on everything that is made for probes.
func ProbeLabels() map[string]string {
	return map[string]string{"app.kubernetes.io/managed-by": "lanyard", "app.kubernetes.io/component": "probe"}
}

// ProbeOf returns the probe that a pod was made for, without its document.
func ProbeOf(pod *corev1.Pod) Probe {
	return Probe{Kind: ProbeKind(pod.Labels[probeKindLabel]), Node: pod.Spec.NodeName, Hash: pod.Labels[probeHashLabel],
		Mode: pod.Labels[probeModeLabel]}
}

// ProbeSetup is what all probes need to run.
type ProbeSetup struct {
	// Namespace is the one that they run in: Lanyard's own.
	Namespace string
	// Image is the cluster's own kube-proxy.
	Image string
	// Command is the program in it; empty means where kubeadm's images have it.
	Command string
	// Env is what else kube-proxy is told by its environment, such as a proxy server or that the kernel's version does not matter.
	Env []corev1.EnvVar
	// Kubeconfig is the content of kubeconfig.conf: where kube-proxy finds the API server.
	Kubeconfig string
	// PullSecrets are Secrets in Namespace with which the image is pulled.
	PullSecrets []corev1.LocalObjectReference
	// Deadline is how long each step on a node may take.
	Deadline time.Duration
}

// SetupOf returns what probes need, as kube-proxy's own DaemonSet has it. Of its environment only plain values come along: what they
// refer to lies in another namespace.
func SetupOf(
	namespace string, ds *appsv1.DaemonSet, cm *corev1.ConfigMap, pullSecrets []corev1.LocalObjectReference, deadline time.Duration,
) ProbeSetup {
	setup := ProbeSetup{Namespace: namespace, Kubeconfig: cm.Data[KubeconfigKey], PullSecrets: pullSecrets, Deadline: deadline}
	for _, c := range ds.Spec.Template.Spec.Containers {
		if !slices.Contains(c.Command, configFlag) && !slices.Contains(c.Args, configFlag) {
			continue
		}
		setup.Image = c.Image
		if len(c.Command) > 0 && !strings.HasPrefix(c.Command[0], "-") {
			setup.Command = c.Command[0]
		}
		for _, e := range c.Env {
			if e.ValueFrom == nil {
				setup.Env = append(setup.Env, e)
			}
		}
	}
	return setup
}

// pod is what the pods of all probes have in common.
func (s ProbeSetup) pod(p Probe, containers ...corev1.Container) *corev1.Pod {
	labels := ProbeLabels()
	labels[probeKindLabel], labels[probeHashLabel], labels[probeModeLabel] = string(p.Kind), p.Hash, p.Mode
	links, deadline, grace := false, int64(patienceFor(s.Deadline).pod().Seconds()), int64(1)
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: p.podName(), Labels: labels},
		Spec: corev1.PodSpec{
			// Past the scheduler, which would keep it off a node that is cordoned or full, where kube-proxy runs all the same.
			NodeName:                      p.Node,
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			RestartPolicy:                 corev1.RestartPolicyNever,
			ActiveDeadlineSeconds:         &deadline,
			TerminationGracePeriodSeconds: &grace,
			ServiceAccountName:            ProbeAccount,
			EnableServiceLinks:            &links,
			ImagePullSecrets:              s.PullSecrets,
			Containers:                    containers,
		},
	}
}

// maxNodePart keeps a pod's name within 63 bytes, so that it is also a host's name.
const maxNodePart = 63 - len("lanyard-") - len(ProbeShadow) - len("--") - 10

// podName is the same for the same probe, so that it is not made twice. The node's name is in it for people to read.
func (p Probe) podName() string {
	node := strings.ReplaceAll(p.Node, ".", "-")
	node = strings.TrimRight(node[:min(len(node), maxNodePart)], "-")
	return "lanyard-" + string(p.Kind) + "-" + node + "-" + digits(p.Node, p.Hash)
}

// tail returns the last 5 lines of a log, and of those the last 1 KiB.
func tail(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	last := strings.Join(lines[max(0, len(lines)-5):], "\n")
	return strings.ToValidUTF8(last[max(0, len(last)-1024):], "")
}

// examples writes at most three of the names.
func examples(names []string) string {
	if len(names) > 3 {
		return strings.Join(names[:3], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
