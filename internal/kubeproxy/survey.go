package kubeproxy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// LogLimit is how much is read of a container's log, in bytes.
const LogLimit = 4 << 20

// The containers of a survey, each named for the program that it runs.
const (
	listIPv4   = "iptables-save"
	listIPv6   = "ip6tables-save"
	listTables = "nft"
)

// surveyPrograms are what each container of a survey runs.
var surveyPrograms = []struct {
	container string
	command   []string
}{
	{listIPv4, []string{"iptables-save"}},
	{listIPv6, []string{"ip6tables-save"}},
	{listTables, []string{"nft", "list", "tables"}},
}

// surveyPod lists the node's own rules. There is no shell in kube-proxy's image: each program has a container, and writes to its log.
func (s ProbeSetup) surveyPod(p Probe) *corev1.Pod {
	root, escalate, token := int64(0), false, false
	var containers []corev1.Container
	for _, program := range surveyPrograms {
		containers = append(containers, corev1.Container{
			Name:            program.container,
			Image:           s.Image,
			ImagePullPolicy: corev1.PullIfNotPresent,
			Command:         program.command,
			SecurityContext: &corev1.SecurityContext{
				RunAsUser:                &root,
				AllowPrivilegeEscalation: &escalate,
				// Legacy iptables reads its rules by a raw socket.
				Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_ADMIN", "NET_RAW"}},
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		})
	}
	pod := s.pod(p, containers...)
	pod.Spec.HostNetwork = true
	pod.Spec.AutomountServiceAccountToken = &token
	return pod
}

// Ended returns the containers of a survey whose logs are complete, none until all have ended.
func Ended(pod *corev1.Pod) []string {
	var ended []string
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Terminated == nil {
			return nil
		}
		ended = append(ended, c.Name)
	}
	return ended
}

// JudgeSurvey says what rules there are on the node, from the logs of the containers that have ended; unread is why they could not be read.
func JudgeSurvey(p ProbePod, logs map[string]string, unread error) ProbeResult {
	r, unanswered := p.unanswered()
	if unanswered {
		return r
	}
	lacks := ""
	switch {
	case len(Ended(p.Pod)) < len(surveyPrograms):
		lacks = "they are not all listed; see whether the node is overloaded"
	case unread != nil:
		lacks = fmt.Sprintf("%v; see whether the API server reaches kubelet there on port 10250", oneLine(unread))
	}
	switch {
	case lacks != "" && p.Running < patienceWith(p.Pod).run:
		r.State, r.Message = ProbeRunning, "the node's rules are listed"
		return r
	case lacks != "":
		r.Message = fmt.Sprintf("the node's rules could not be read within %v: %s", patienceWith(p.Pod).run, lacks)
		return r
	}
	return r.surveyed(p.Pod, maps.Clone(logs))
}

// surveyed judges a survey that has ended. Without IPv4's rules it is none; the rest may be missing from the node or the image.
func (r ProbeResult) surveyed(pod *corev1.Pod, logs map[string]string) ProbeResult {
	var problems []string
	for _, c := range pod.Status.ContainerStatuses {
		t := c.State.Terminated
		if t.ExitCode == 0 {
			continue
		}
		problem := fmt.Sprintf("%s ended with exit code %d: %s", c.Name, t.ExitCode, cause(t.Message))
		if c.Name == listIPv4 {
			r.Message = "the node's rules cannot be listed: " + problem + "; see whether iptables works on the node"
			return r
		}
		problems = append(problems, problem+"; nothing is known of what it would have listed")
		delete(logs, c.Name)
	}
	survey := ReadSurvey(logs)
	r.State = ProbePassed
	r.Leftovers = Leftovers(survey, ProbeOf(pod).Mode)
	r.Notes = append(survey.notes(), problems...)
	slices.Sort(r.Notes)
	return r
}

// notes are what else is worth knowing of a node, one sentence each.
func (s Survey) notes() []string {
	var notes []string
	if slices.Contains(s.Tables, "inet firewalld") {
		notes = append(notes, "firewalld is on (nft table inet firewalld): in mode nftables kube-proxy opens no way through it, as mode iptables does; "+
			"allow NodePorts and the pods' traffic in firewalld first")
	}
	if len(s.Legacy) > 0 {
		notes = append(notes, fmt.Sprintf("there are tables of legacy iptables, which %s does not show; see `iptables-legacy-save` on the node, and use "+
			"one kind of iptables for everything there", strings.Join(s.Legacy, " and ")))
	}
	for _, cut := range s.Cut {
		notes = append(notes, fmt.Sprintf("%s wrote more than %d MiB, of which the rest was not read", cut, LogLimit>>20))
	}
	return notes
}
