package kubeproxy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// surveyLogs reads what the programs of a survey wrote on a real node: testdata/surveys/NODE.PROGRAM.
func surveyLogs(t *testing.T, node string) map[string]string {
	t.Helper()
	logs := map[string]string{}
	for _, program := range surveyPrograms {
		log, err := os.ReadFile(filepath.Join("testdata", "surveys", node+"."+program.container))
		if err != nil {
			t.Fatal(err)
		}
		logs[program.container] = string(log)
	}
	return logs
}

// ipvsChains are the chains that kube-proxy 1.36 makes in mode ipvs, as iptables-save lists them.
const ipvsChains = `*nat
:KUBE-LOAD-BALANCER - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODE-PORT - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-SERVICES - [0:0]
COMMIT
*filter
:KUBE-FORWARD - [0:0]
:KUBE-IPVS-FILTER - [0:0]
:KUBE-IPVS-OUT-FILTER - [0:0]
:KUBE-NODE-PORT - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-SOURCE-RANGES-FIREWALL - [0:0]
COMMIT
`

// kubeletChains are kubelet's own, those of older ones too, and a network policy's.
const kubeletChains = `*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-PROXY-CANARY - [0:0]
COMMIT
*nat
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-MARK-DROP - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-POSTROUTING - [0:0]
COMMIT
*filter
:INPUT ACCEPT [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-POD-FW-ABCDEF - [0:0]
:KUBE-ROUTER-INPUT - [0:0]
:KUBE-SVC-ONE-OF-A-USERS-OWN - [0:0]
-A INPUT -j KUBE-FIREWALL
COMMIT
`

func TestASurveyOfARealNode(t *testing.T) {
	want := Survey{
		IPv4: []Chain{
			{"filter", "KUBE-EXTERNAL-SERVICES"}, {"filter", "KUBE-FORWARD"}, {"filter", "KUBE-NODEPORTS"}, {"filter", "KUBE-PROXY-FIREWALL"},
			{"filter", "KUBE-SERVICES"}, {"nat", "KUBE-EXT-OK6TEWQG3L54KFBT"}, {"nat", "KUBE-NODEPORTS"}, {"nat", "KUBE-SEP-2B6M5TD46XWDQQJ2"},
			{"nat", "KUBE-SEP-7UUPFLLZQYUOLJIP"}, {"nat", "KUBE-SEP-LHV3DTYFO2UR3QEF"}, {"nat", "KUBE-SERVICES"},
			{"nat", "KUBE-SVC-NPX46M4PTMTKRN6Y"}, {"nat", "KUBE-SVC-OK6TEWQG3L54KFBT"},
		},
		IPv6: []Chain{
			{"filter", "KUBE-EXTERNAL-SERVICES"}, {"filter", "KUBE-FORWARD"}, {"filter", "KUBE-NODEPORTS"}, {"filter", "KUBE-PROXY-FIREWALL"},
			{"filter", "KUBE-SERVICES"}, {"nat", "KUBE-NODEPORTS"}, {"nat", "KUBE-SERVICES"},
		},
		Tables: []string{"ip filter", "ip mangle", "ip nat", "ip6 filter", "ip6 mangle", "ip6 nat"},
	}
	if diff := cmp.Diff(want, ReadSurvey(surveyLogs(t, "iptables"))); diff != "" {
		t.Errorf("in mode iptables (-want +got):\n%s", diff)
	}
	want = Survey{Tables: []string{"ip kube-proxy", "ip6 kube-proxy"}}
	if diff := cmp.Diff(want, ReadSurvey(surveyLogs(t, "nftables"))); diff != "" {
		t.Errorf("in mode nftables (-want +got):\n%s", diff)
	}
}

func TestLeftovers(t *testing.T) {
	iptables, nftables := ReadSurvey(surveyLogs(t, "iptables")), ReadSurvey(surveyLogs(t, "nftables"))
	ipvs := ReadSurvey(map[string]string{listIPv4: ipvsChains})
	kubelet := ReadSurvey(map[string]string{listIPv4: kubeletChains, listIPv6: kubeletChains})
	const useless = "nobody updates them, and they reject or misdirect connections; "
	const restart = useless + "restart kube-proxy on the node, which removes them when it starts"
	for name, c := range map[string]struct {
		survey Survey
		mode   v1alpha1.ProxyMode
		want   []string
	}{
		"iptables, and it runs": {iptables, v1alpha1.ProxyModeIPTables, nil},
		"nftables, and it runs": {nftables, v1alpha1.ProxyModeNFTables, nil},
		"ipvs, and it runs":     {ipvs, v1alpha1.ProxyModeIPVS, nil},
		"nothing but kubelet's": {kubelet, v1alpha1.ProxyModeNFTables, nil},
		"the mode is not known": {iptables, "", nil},
		"nftables, while ipvs runs": {nftables, v1alpha1.ProxyModeIPVS, []string{"nftables has tables of a mode that does not run (ip kube-proxy, " +
			"ip6 kube-proxy): " + restart}},
		"ipvs, while nftables runs": {ipvs, v1alpha1.ProxyModeNFTables, []string{"iptables has 9 chains of a mode that does not run " +
			"(filter/KUBE-FORWARD, filter/KUBE-IPVS-FILTER, filter/KUBE-IPVS-OUT-FILTER, …): " + restart}},
		"ipvs, while iptables runs": {ipvs, v1alpha1.ProxyModeIPTables, []string{"iptables has 6 chains of a mode that does not run " +
			"(filter/KUBE-IPVS-FILTER, filter/KUBE-IPVS-OUT-FILTER, filter/KUBE-NODE-PORT, …): " + useless + "restart the node"}},
		// KUBE-SERVICES in filter rejects what has no endpoints in mode iptables' view, for ever.
		"iptables, while ipvs runs": {iptables, v1alpha1.ProxyModeIPVS, []string{
			"iptables has 10 chains of a mode that does not run (filter/KUBE-EXTERNAL-SERVICES, filter/KUBE-NODEPORTS, filter/KUBE-SERVICES, …): " +
				"" + useless + "restart the node",
			"ip6tables has 4 chains of a mode that does not run (filter/KUBE-EXTERNAL-SERVICES, filter/KUBE-NODEPORTS, filter/KUBE-SERVICES, …): " +
				"" + useless + "restart the node",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Leftovers(c.survey, string(c.mode))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestJudgeSurvey(t *testing.T) {
	all := []string{listIPv4, listIPv6, listTables}
	done := corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: ended(0, "", all...)}
	half := corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: append(ended(0, "", listIPv4, listIPv6),
		corev1.ContainerStatus{Name: listTables, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}})}
	noNFT := corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: slices.Concat(ended(0, "", listIPv4, listIPv6),
		ended(128, `exec: "nft": executable file not found in $PATH`, listTables))}
	noIPTables := corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: slices.Concat(ended(0, "", listIPv6, listTables),
		ended(1, "iptables-save v1.8.9: Permission denied", listIPv4))}
	legacy := "# Warning: iptables-legacy tables present, use iptables-legacy-save to see them\n"
	long := ipvsChains + "*nat\n:KUBE-SVC-" + strings.Repeat("A", LogLimit)
	for name, c := range map[string]struct {
		status  corev1.PodStatus
		running time.Duration
		logs    map[string]string
		unread  error
		want    ProbeResult
	}{
		"nothing to say": {done, 0, map[string]string{listIPv4: kubeletChains}, nil, ProbeResult{State: ProbePassed}},
		"leftovers and notes": {done, 0, map[string]string{listIPv4: legacy, listTables: "table inet firewalld\ntable ip kube-proxy\n"}, nil,
			ProbeResult{State: ProbePassed,
				Leftovers: []string{"nftables has tables of a mode that does not run (ip kube-proxy): nobody updates them, and they reject or misdirect " +
					"connections; restart kube-proxy on the node, which removes them when it starts"},
				Notes: []string{
					"firewalld is on (nft table inet firewalld): in mode nftables kube-proxy opens no way through it, as mode iptables does; " +
						"allow NodePorts and the pods' traffic in firewalld first",
					"there are tables of legacy iptables, which iptables-save does not show; see `iptables-legacy-save` on the node, and use " +
						"one kind of iptables for everything there",
				}}},
		"a list too long to be read is cut between lines": {done, 0, map[string]string{listIPv6: long}, nil,
			ProbeResult{State: ProbePassed,
				Leftovers: []string{"ip6tables has 6 chains of a mode that does not run (filter/KUBE-IPVS-FILTER, filter/KUBE-IPVS-OUT-FILTER, " +
					"filter/KUBE-NODE-PORT, …): nobody updates them, and they reject or misdirect connections; restart the node"},
				Notes: []string{"ip6tables-save wrote more than 4 MiB, of which the rest was not read"}}},
		"without nft it says what is not known": {noNFT, 0, map[string]string{listTables: "table ip kube-proxy"}, nil,
			ProbeResult{State: ProbePassed, Notes: []string{`nft ended with exit code 128: exec: "nft": executable file not found in $PATH; ` +
				"nothing is known of what it would have listed"}}},
		"without iptables it fails": {noIPTables, 0, nil, nil,
			ProbeResult{State: ProbeFailed, Message: "the node's rules cannot be listed: iptables-save ended with exit code 1: " +
				"iptables-save v1.8.9: Permission denied; see whether iptables works on the node"}},
		"waits for the last program": {half, time.Second, nil, nil, ProbeResult{Message: "the node's rules are listed"}},
		"fails when the last program does not end": {half, time.Minute, nil, nil,
			ProbeResult{State: ProbeFailed, Message: "the node's rules could not be read within 1m0s: they are not all listed; see whether the node " +
				"is overloaded"}},
		"waits for the logs": {done, time.Second, nil, errors.New("no route to host"), ProbeResult{Message: "the node's rules are listed"}},
		"fails when the logs cannot be read": {done, time.Minute, nil, errors.New("no route to host"),
			ProbeResult{State: ProbeFailed, Message: "the node's rules could not be read within 1m0s: no route to host; " +
				"see whether the API server reaches kubelet there on port 10250"}},
	} {
		t.Run(name, func(t *testing.T) {
			probe := Probe{Kind: ProbeSurvey, Node: "k8s-wl-01", Hash: "0123456789", Mode: "iptables"}
			pod := probeSetup.Pod(probe)
			pod.Status = c.status
			c.want.Key = probe.Key()
			if diff := cmp.Diff(c.want, JudgeSurvey(ProbePod{Pod: pod, Running: c.running}, c.logs, c.unread)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzParseChains: whatever the log is, what is found is kube-proxy's, sorted and without doubles, and is found again in a list of it.
func FuzzParseChains(f *testing.F) {
	f.Add(ipvsChains)
	f.Add(kubeletChains)
	f.Add("*nat\n:KUBE-SVC-A\n:KUBE-SVC-A - [0:0]\n# Warning: iptables-legacy tables present, use iptables-legacy-save to see them")
	f.Add(":KUBE-SERVICES\n*\n:\n")
	f.Fuzz(func(t *testing.T, log string) {
		chains, _ := parseChains(log)
		var list strings.Builder
		for _, c := range chains {
			if c.modes() == nil {
				t.Errorf("%v is not kube-proxy's", c)
			}
			fmt.Fprintf(&list, "*%s\n:%s - [0:0]\nCOMMIT\n", c.Table, c.Name)
		}
		again, legacy := parseChains(list.String())
		if diff := cmp.Diff(chains, again); diff != "" || legacy {
			t.Errorf("legacy %v (-first +again):\n%s", legacy, diff)
		}
	})
}
