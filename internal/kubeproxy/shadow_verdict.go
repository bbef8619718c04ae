package kubeproxy

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Answer is what a shadow says of itself.
type Answer struct {
	// Mode is that of /proxyMode; empty while it does not answer.
	Mode string
	Syncs
	// Problem says why it could not be asked.
	Problem string
}

// Syncs is how far kube-proxy has come with writing its rules.
type Syncs struct {
	// Families says for each IP family in which kube-proxy works whether its rules were written. Before 1.33 it does not tell families
	// apart: there is one without a name.
	Families map[string]bool
	// Failures are how often writing or tidying rules failed since it started.
	Failures int
}

// failureMetrics count what failed. A partial restore that failed is made good by a full one, which counts by itself.
var failureMetrics = []string{MetricIPTablesFailures, MetricNFTablesFailures, metricPrefix + "nftables_cleanup_failures_total"}

// ReadSyncs reads them from what kube-proxy answers for /metrics.
func ReadSyncs(metrics io.Reader) (Syncs, error) {
	s := Syncs{Families: map[string]bool{}}
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		sample, err := ReadSample(lines.Text(), ofRules)
		switch {
		case err != nil || sample.Value == 0:
		case sample.Name == MetricQueued:
			if _, known := s.Families[sample.Family]; !known {
				s.Families[sample.Family] = false
			}
		case sample.Name == MetricWritten:
			s.Families[sample.Family] = true
		case slices.Contains(failureMetrics, sample.Name):
			s.Failures += int(sample.Value)
		}
	}
	if err := lines.Err(); err != nil {
		return Syncs{}, fmt.Errorf("reading /metrics: %w", err)
	}
	return s, nil
}

// ofRules says whether a metric is one of kube-proxy's work on its rules.
func ofRules(name string) bool { return strings.HasPrefix(name, metricPrefix) }

// missing says what the answer lacks for the shadow to have passed; empty when it lacks nothing.
func (a Answer) missing(mode string) string {
	if a.Mode == "" {
		return explain("it does not answer", a.Problem)
	}
	if mode != "" && a.Mode != mode {
		return "it runs in mode " + a.Mode
	}
	var waiting []string
	for _, family := range slices.Sorted(maps.Keys(a.Families)) {
		if !a.Families[family] {
			waiting = append(waiting, strings.TrimSpace("rules "+family))
		}
	}
	switch {
	case a.Problem != "":
		return "its metrics cannot be read: " + a.Problem
	case a.Failures > 0:
		return fmt.Sprintf("writing its rules failed %d times", a.Failures)
	case len(a.Families) == 0:
		return "it has not read the Services yet"
	case len(waiting) > 0:
		return "it has not written its " + strings.Join(waiting, " and ")
	}
	return ""
}

// hopeless says whether waiting mends nothing: the mode of a process never changes, and what has failed is never counted back.
func (a Answer) hopeless(mode string) bool {
	return a.Failures > 0 || a.Mode != "" && mode != "" && a.Mode != mode
}

// ShadowAddress is where to ask a shadow, once it runs.
func ShadowAddress(pod *corev1.Pod) (at netip.AddrPort, ok bool) {
	ip, err := netip.ParseAddr(pod.Status.PodIP)
	return netip.AddrPortFrom(ip, ShadowPort), err == nil && pod.Status.Phase == corev1.PodRunning && Started(pod)
}

// JudgeShadow says whether kube-proxy can run so on the node. The log's tail is left for the caller to add where the probe failed while
// the container still runs.
func JudgeShadow(p ProbePod, answer Answer) ProbeResult {
	r, unanswered := p.unanswered()
	if unanswered {
		return r
	}
	mode := ProbeOf(p.Pod).Mode
	for _, c := range p.Pod.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil {
			r.LogTail = tail(t.Message)
			r.Message = failure(mode, fmt.Sprintf("ended with exit code %d", t.ExitCode), cause(t.Message))
			return r
		}
	}
	lacks := answer.missing(mode)
	switch {
	case lacks == "":
		r.State = ProbePassed
	case answer.hopeless(mode):
		r.Message = failure(mode, lacks, "")
	case p.Running >= patienceWith(p.Pod).run:
		r.Message = failure(mode, fmt.Sprintf("was not ready within %v", patienceWith(p.Pod).run), lacks)
	default:
		r.State, r.Message = ProbeRunning, "kube-proxy starts: "+lacks
	}
	return r
}

// Tailed adds the end of the log to the result of a shadow that failed. What it wrote because it was asked for its metrics tells nothing.
func (r ProbeResult) Tailed(log string) ProbeResult {
	lines := slices.Collect(strings.Lines(log))
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "failed to collect nfacct counter") })
	r.LogTail = tail(strings.Join(lines, ""))
	return r
}

// OneLineTail is the log's tail as a condition has it.
func (r ProbeResult) OneLineTail() string { return strings.ReplaceAll(r.LogTail, "\n", " | ") }

// failure is the message of a shadow that failed.
func failure(mode, what, why string) string {
	in := "with this configuration"
	if mode != "" {
		in = "in mode " + mode
	}
	return fmt.Sprintf("kube-proxy cannot run %s: a trial of it %s; %s", in, explain(what, why), failureRemedy(mode, why))
}

// failureRemedies are what to do about what kube-proxy says when it gives up.
var failureRemedies = []struct{ said, do string }{
	{"ipvs not supported", "load the modules ip_vs, ip_vs_rr and ip_vs_sh on the node, or choose mode nftables or iptables"},
	{"requires kernel 5.13", "upgrade the node's kernel, or choose mode iptables"},
	{"ipset", "load the module ip_set on the node, or choose mode nftables or iptables"},
	{"no such host", "make the name of the API server in " + KubeconfigKey + " known to the node's DNS: a line in /etc/hosts does not reach pods"},
	{"GET /proxyMode: connection refused", "see whether the node is overloaded"},
	{"it does not answer", "see that no NetworkPolicy or firewall keeps the manager from pods on port " + strconv.Itoa(ShadowPort)},
	{"has not written its rules", "see the end of its log, and whether the node is overloaded"},
	{"dial tcp", "see that pods on the node reach the API server at the address in " + KubeconfigKey},
	{"has not read the Services", "see that pods on the node reach the API server at the address in " + KubeconfigKey},
}

func failureRemedy(mode, why string) string {
	for _, r := range failureRemedies {
		if strings.Contains(why, r.said) {
			return r.do
		}
	}
	if mode == "" {
		return "see the end of its log, and mend the configuration or the node"
	}
	return "see the end of its log, and mend the node or choose another mode"
}

// klogError is how kube-proxy writes an error into its log.
var klogError = regexp.MustCompile(`err=("(?:[^"\\]|\\.)*")`)

// cause returns the reason why kube-proxy ended, which is the last thing that it writes.
func cause(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	last := lines[len(lines)-1]
	if found := klogError.FindStringSubmatch(last); found != nil {
		if text, err := strconv.Unquote(found[1]); err == nil {
			return strings.Join(strings.Fields(text), " ")
		}
	}
	return last[:min(len(last), 300)]
}
