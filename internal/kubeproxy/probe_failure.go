package kubeproxy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// patience is how long a probe may take. The manager counts by its own clock, from when it first saw the state: nodes' clocks differ. What it
// did not watch it does not count.
type patience struct {
	// start is for pulling the image, which is there already as a rule, and for setting up the pod's network.
	start time.Duration
	// run is from the container's start to the answer.
	run time.Duration
}

// unattended is how long after that kubelet ends a pod that no manager looks after any more.
const unattended = 30 * time.Second

// patienceFor is that with a node which has so long for each step: a probe does less than a restart.
func patienceFor(deadline time.Duration) patience {
	return patience{start: deadline, run: deadline / 2}
}

// pod is when kubelet ends the probe's pod.
func (p patience) pod() time.Duration { return p.start + p.run + unattended }

// patienceWith is that with a probe that was made already, whatever the spec has become since. The pod holds whole seconds: the half of one that
// an odd deadline loses there is rounded back.
func patienceWith(pod *corev1.Pod) patience {
	if pod.Spec.ActiveDeadlineSeconds == nil {
		return patienceFor(progressDeadline)
	}
	whole := time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second
	return patienceFor(((whole - unattended) * 2 / 3).Round(time.Second))
}

// ProbePod is a probe's pod as it is seen.
type ProbePod struct {
	Pod *corev1.Pod
	// Starting is for how long it has been seen before any of its containers ran, Running since one did.
	Starting, Running time.Duration
}

// Started says whether a container of the pod runs or has run.
func Started(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil || c.State.Terminated != nil
	})
}

// hopeless are kubelet's reasons for not starting a container that no waiting mends.
var hopeless = []string{"InvalidImageName", "ErrImageNeverPull"}

// unanswered judges a pod from which nothing can be learned: it has not started yet, never will, or was ended from outside. It says false
// for any other.
func (p ProbePod) unanswered() (ProbeResult, bool) {
	r := ProbeResult{Key: ProbeOf(p.Pod).Key(), State: ProbeFailed}
	status := p.Pod.Status
	reason, message := waitsFor(p.Pod)
	why := explain(reason, message)
	waits := patienceWith(p.Pod)
	switch {
	case status.Reason == "DeadlineExceeded":
		r.Message = fmt.Sprintf("kubelet ended the probe, which took longer than %v; see whether the node is overloaded", waits.pod())
	case status.Phase == corev1.PodFailed && (status.Reason != "" || !Started(p.Pod)): // refused or evicted
		r.Message = fmt.Sprintf("the node did not let the probe run (%s); make room for one more pod there",
			explain(cmp.Or(status.Reason, "Failed"), status.Message))
	case Started(p.Pod):
		return r, false
	case slices.Contains(hopeless, reason):
		r.Message = fmt.Sprintf("the probe cannot start (%s); mend the image of DaemonSet %s/%s", why, Namespace, Name)
	case p.Starting >= waits.start:
		r.Message = fmt.Sprintf("the probe did not start within %v (%s); %s", waits.start, why, p.startRemedy(reason))
	default:
		r.State, r.Message = ProbeRunning, fmt.Sprintf("the probe starts (%s)", why)
	}
	return r, true
}

// waitsFor returns why a pod's containers do not run: what kubelet says of one that waits, or of the pod.
func waitsFor(pod *corev1.Pod) (reason, message string) {
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			return w.Reason, w.Message
		}
	}
	if pod.Status.StartTime == nil {
		return "Pending", "kubelet has not taken it up"
	}
	return "ContainerCreating", "its network, its volumes or its image are not ready"
}

// startRemedy is what to do about a probe that does not start. Its events outlive it: the API server keeps them for an hour.
func (p ProbePod) startRemedy(reason string) string {
	if strings.Contains(reason, "Image") {
		return "name a Secret to pull it with in spec.speaker.imagePullSecrets, or pull it on the node"
	}
	return fmt.Sprintf("see `kubectl -n %s get events` for its pod; if the node is slow, raise spec.kubeProxy.rollout.progressDeadlineSeconds",
		p.Pod.Namespace)
}

// Refused is the result of a probe of which the API server did not take an object.
func Refused(p Probe, namespace string, refusal error) ProbeResult {
	said := oneLine(refusal).Error()
	if _, why, found := strings.Cut(said, " is forbidden: "); found { // the object's name is another for each node
		said = why
	}
	remedy := "find the admission policy, and let it admit pods of ServiceAccount " + ProbeAccount + " there"
	switch {
	case strings.Contains(said, "PodSecurity"):
		remedy = fmt.Sprintf("run `kubectl label namespace %s pod-security.kubernetes.io/enforce=privileged --overwrite`", namespace)
	case strings.Contains(said, "quota"):
		remedy = "raise the ResourceQuota there"
	case strings.Contains(said, "cannot create resource"):
		remedy = "apply Lanyard's roles again"
	}
	return ProbeResult{Key: p.Key(), State: ProbeFailed, Message: fmt.Sprintf("the API server refused the probe's pod in namespace %s (%s); %s",
		namespace, said, remedy)}
}

// Unusable is the result of a shadow whose candidate no kube-proxy could read.
func Unusable(p Probe, why error) ProbeResult {
	return ProbeResult{Key: p.Key(), State: ProbeFailed, Message: fmt.Sprintf("%v; mend ConfigMap %s/%s", why, Namespace, Name)}
}

// explain adds what is known to what happened, on one line.
func explain(what, why string) string {
	if why = strings.Join(strings.Fields(why), " "); why == "" {
		return what
	}
	return what + ": " + why
}
