package kubeproxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestShadowConfigChangesOnlyWhatAShadowNeeds compares the fields that differ between a candidate and what its shadow runs with.
func TestShadowConfigChangesOnlyWhatAShadowNeeds(t *testing.T) {
	ours := map[string]any{"conntrack.maxPerCore": 0., "conntrack.min": 0., "clientConnection.kubeconfig": "/var/lib/kube-proxy/kubeconfig.conf",
		"metricsBindAddress": "0.0.0.0:10249", "healthzBindAddress": "0.0.0.0:10256"}
	for name, document := range documents(t) {
		t.Run(name, func(t *testing.T) {
			shadow, err := ShadowConfig(document)
			if err != nil {
				t.Fatal(err)
			}
			before, after := leaves(t, document), leaves(t, shadow)
			for path, want := range ours {
				if after[path] != want {
					t.Errorf("%s is %v, not %v", path, after[path], want)
				}
				delete(before, path)
				delete(after, path)
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("(-candidate +shadow):\n%s", diff)
			}
		})
	}
}

// leaves are the values of a document by their paths; what is null is not there.
func leaves(t *testing.T, document string) map[string]any {
	t.Helper()
	var values any
	if err := yaml.Unmarshal([]byte(document), &values); err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch v := value.(type) {
		case map[string]any:
			for key, inner := range v {
				walk(strings.TrimPrefix(path+"."+key, "."), inner)
			}
		case []any:
			found[path] = fmt.Sprint(v)
		case nil:
		default:
			found[path] = v
		}
	}
	walk("", values)
	return found
}

func TestShadowConfig(t *testing.T) {
	head := "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
	for name, c := range map[string]struct{ document, want, refused string }{
		"listens in IPv6 where kube-proxy does": {head + "bindAddress: '::'\n", `apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: '::'
clientConnection:
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
conntrack:
  maxPerCore: 0
  min: 0
healthzBindAddress: '[::]:10256'
kind: KubeProxyConfiguration
metricsBindAddress: '[::]:10249'
`, ""},
		"leaves to kube-proxy what kube-proxy refuses": {head + "conntrack: many\n", `apiVersion: kubeproxy.config.k8s.io/v1alpha1
clientConnection:
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
conntrack: many
healthzBindAddress: 0.0.0.0:10256
kind: KubeProxyConfiguration
metricsBindAddress: 0.0.0.0:10249
`, ""},
		"is none for what is not YAML": {"a: [", "", "the candidate for config.conf is not YAML: error converting YAML to JSON: yaml: line 1: " +
			"did not find expected node content"},
		"is none for another kind":       {"kind: Pod\n", "", "the candidate for config.conf is of kind Pod, not KubeProxyConfiguration"},
		"is none for nothing whatsoever": {"", "", "the candidate for config.conf is of kind <nil>, not KubeProxyConfiguration"},
		"is none for what is no mapping": {"[]\n", "", "the candidate for config.conf is not YAML: error unmarshaling JSON: while decoding JSON: " +
			"json: cannot unmarshal array into Go value of type map[string]interface {}"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ShadowConfig(c.document)
			refused := ""
			if err != nil {
				refused = err.Error()
			}
			if diff := cmp.Diff([]string{c.want, c.refused}, []string{got, refused}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// metrics of a kube-proxy 1.36 that works in both families, shortened.
const bothSynced = `# HELP kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds [ALPHA] The last time a sync of proxy rules was queued
# TYPE kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds gauge
kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} 1.796175128382168e+09
kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv6"} 1.7961751283822403e+09
kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 1.7961751288177183e+09
kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv6"} 1.7961751290896657e+09
kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="internal"} 0
process_start_time_seconds 1.79617512729e+09
`

func TestReadSyncs(t *testing.T) {
	v4Only := strings.Replace(bothSynced, `last_timestamp_seconds{ip_family="IPv6"}`, `elsewhere{ip_family="IPv6"}`, 1)
	for name, c := range map[string]struct {
		metrics string
		want    Syncs
	}{
		"both families are written":                 {bothSynced, Syncs{Families: map[string]bool{"IPv4": true, "IPv6": true}}},
		"a family is queued and not written yet":    {v4Only, Syncs{Families: map[string]bool{"IPv4": true, "IPv6": false}}},
		"a time of zero is none":                    {MetricQueued + " 5\n" + MetricWritten + " 0\n", Syncs{Families: map[string]bool{"": false}}},
		"before 1.33 families are not told apart":   {MetricQueued + " 5\n" + MetricWritten + " 6\n", Syncs{Families: map[string]bool{"": true}}},
		"nothing is queued while Services are read": {"process_start_time_seconds 1\n", Syncs{Families: map[string]bool{}}},
		"failures of all kinds and families are added": {`kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family="IPv4"} 2
kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family="IPv6"} 1
kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total{ip_family="IPv6"} 1
kubeproxy_sync_proxy_rules_iptables_restore_failures_total 1
`, Syncs{Families: map[string]bool{}, Failures: 5}},
		"a partial restore that failed is made good by a full one": {"kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total 3\n",
			Syncs{Families: map[string]bool{}}},
		"what is malformed is passed over": {MetricWritten + "\n" + MetricWritten + "{\n" + MetricWritten + "} x\n" + MetricQueued + "{a=\"b\"} 1 2\n",
			Syncs{Families: map[string]bool{"": false}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadSyncs(strings.NewReader(c.metrics))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// ended are containers that have ended.
func ended(code int32, message string, names ...string) []corev1.ContainerStatus {
	if len(names) == 0 {
		names = []string{"kube-proxy"}
	}
	var all []corev1.ContainerStatus
	for _, name := range names {
		all = append(all, corev1.ContainerStatus{Name: name, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}}})
	}
	return all
}

// ipvsUnsupported is what kube-proxy 1.36 wrote on a node without ip_vs.
const ipvsUnsupported = `I1202 01:32:16.193600       1 sysctls.go:191] "Set sysctl" ` +
	`entry="net/netfilter/nf_conntrack_tcp_timeout_close_wait" value=3600
I1202 01:32:16.227800       1 server.go:274] "kube-proxy running in dual-stack mode" primary ipFamily="IPv4"
time="2026-12-02T01:32:16Z" level=warning msg="Running modprobe ip_vs failed with message: ` + "`modprobe: WARNING: Module ip_vs not found`" + `, error: exit status 1"
time="2026-12-02T01:32:16Z" level=error msg="Could not get ipvs family information from the kernel."
I1202 01:32:16.276056       1 supported.go:108] "Dummy VS not created" scheduler="rr"
E1202 01:32:16.276522       1 server.go:136] "Error running ProxyServer" err="can't use the IPVS proxier: ipvs not supported"
E1202 01:32:16.276707       1 run.go:72] "command failed" err="can't use the IPVS proxier: ipvs not supported"
`

func TestJudgeShadow(t *testing.T) {
	runs := corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
		{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
	synced := Syncs{Families: map[string]bool{"IPv4": true, "IPv6": true}}
	halfway := Syncs{Families: map[string]bool{"IPv4": true, "IPv6": false}}
	const in = "kube-proxy cannot run in mode nftables: a trial of it "
	for name, c := range map[string]struct {
		status  corev1.PodStatus
		running time.Duration
		answer  Answer
		want    ProbeResult
	}{
		"passes in its mode with every family's rules written": {runs, 0, Answer{Mode: "nftables", Syncs: synced}, ProbeResult{State: ProbePassed}},
		"passes late rather than failing":                      {runs, time.Hour, Answer{Mode: "nftables", Syncs: synced}, ProbeResult{State: ProbePassed}},
		"waits for an answer": {runs, time.Second, Answer{Problem: "GET /proxyMode: connection refused"},
			ProbeResult{Message: "kube-proxy starts: it does not answer: GET /proxyMode: connection refused"}},
		"waits for the Services": {runs, time.Second, Answer{Mode: "nftables"},
			ProbeResult{Message: "kube-proxy starts: it has not read the Services yet"}},
		"waits for each family": {runs, time.Second, Answer{Mode: "nftables", Syncs: halfway},
			ProbeResult{Message: "kube-proxy starts: it has not written its rules IPv6"}},
		"waits for the metrics": {runs, time.Second, Answer{Mode: "nftables", Problem: "GET /metrics: EOF"},
			ProbeResult{Message: "kube-proxy starts: its metrics cannot be read: GET /metrics: EOF"}},
		"fails in another mode at once": {runs, time.Second, Answer{Mode: "iptables", Syncs: synced},
			ProbeResult{State: ProbeFailed, Message: in + "it runs in mode iptables; see the end of its log, and mend the node or choose another mode"}},
		"fails at the first failure, which is never counted back": {runs, time.Second, Answer{Mode: "nftables",
			Syncs: Syncs{Families: synced.Families, Failures: 3}},
			ProbeResult{State: ProbeFailed, Message: in + "writing its rules failed 3 times; see the end of its log, and mend the node or choose " +
				"another mode"}},
		"fails when it cannot be asked for a minute": {runs, time.Minute, Answer{Problem: "GET /proxyMode: i/o timeout"},
			ProbeResult{State: ProbeFailed, Message: in + "was not ready within 1m0s: it does not answer: GET /proxyMode: i/o timeout; " +
				"see that no NetworkPolicy or firewall keeps the manager from pods on port 10249"}},
		"fails when it does not serve for a minute": {runs, time.Minute, Answer{Problem: "GET /proxyMode: connection refused"},
			ProbeResult{State: ProbeFailed, Message: in + "was not ready within 1m0s: it does not answer: GET /proxyMode: connection refused; " +
				"see whether the node is overloaded"}},
		"fails when a family's rules are not written for a minute": {runs, time.Minute, Answer{Mode: "nftables", Syncs: halfway},
			ProbeResult{State: ProbeFailed, Message: in + "was not ready within 1m0s: it has not written its rules IPv6; " +
				"see the end of its log, and whether the node is overloaded"}},
		"fails when the API server is not reached for a minute": {runs, time.Minute, Answer{Mode: "nftables"},
			ProbeResult{State: ProbeFailed, Message: in + "was not ready within 1m0s: it has not read the Services yet; " +
				"see that pods on the node reach the API server at the address in kubeconfig.conf"}},
		"fails when kube-proxy ends": {corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: ended(1, ipvsUnsupported)}, time.Second, Answer{},
			ProbeResult{State: ProbeFailed, LogTail: strings.Join(strings.Split(strings.TrimSpace(ipvsUnsupported), "\n")[2:], "\n"),
				Message: in + "ended with exit code 1: can't use the IPVS proxier: ipvs not supported; " +
					"load the modules ip_vs, ip_vs_rr and ip_vs_sh on the node, or choose mode nftables or iptables"}},
		"fails when kube-proxy ends as if all were well": {corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: ended(0, "")},
			time.Second, Answer{},
			ProbeResult{State: ProbeFailed, Message: in + "ended with exit code 0; see the end of its log, and mend the node or choose another mode"}},
	} {
		t.Run(name, func(t *testing.T) {
			probe := Probe{Kind: ProbeShadow, Node: "k8s-wl-01", Hash: "0123456789", Mode: "nftables"}
			pod := probeSetup.Pod(probe)
			pod.Status = c.status
			c.want.Key = probe.Key()
			if diff := cmp.Diff(c.want, JudgeShadow(ProbePod{Pod: pod, Running: c.running}, c.answer)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAShadowWithoutAModeMayComeUpInAny(t *testing.T) {
	probe := Probe{Kind: ProbeShadow, Node: "k8s-wl-01", Hash: "0123456789"}
	pod := probeSetup.Pod(probe)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	want := ProbeResult{Key: probe.Key(), State: ProbePassed}
	if diff := cmp.Diff(want, JudgeShadow(ProbePod{Pod: pod}, Answer{Mode: "iptables", Syncs: Syncs{Families: map[string]bool{"": true}}})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestALogIsCutToItsEnd(t *testing.T) {
	for name, c := range map[string]struct{ log, want string }{
		"five lines":              {"1\n2\n3\n4\n5\n6\n\n", "2\n3\n4\n5\n6"},
		"a kibibyte":              {strings.Repeat("x", 5000) + "end", strings.Repeat("x", 1021) + "end"},
		"whole characters":        {"ä" + strings.Repeat("x", 1023), strings.Repeat("x", 1023)},
		"nothing that is nothing": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, tail(c.log)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatAskingMadeAShadowWriteIsNotShown(t *testing.T) {
	const scraped = "E1202 02:06:29.268647       1 metrics.go:406] \"failed to collect nfacct counter\" err=\"object not found\"\n"
	want := ProbeResult{State: ProbeFailed, LogTail: "1\n2"}
	if diff := cmp.Diff(want, ProbeResult{State: ProbeFailed}.Tailed("1\n"+scraped+"2\n"+strings.Repeat(scraped, 9))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
