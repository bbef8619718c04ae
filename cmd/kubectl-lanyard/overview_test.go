package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func rack() (v1alpha1.ClusterNetworking, []v1alpha1.NodeNetworking) {
	since := metav1.NewTime(noon.Add(-90 * time.Minute))
	cnet := v1alpha1.ClusterNetworking{Status: v1alpha1.ClusterNetworkingStatus{
		Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady},
			{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonComplete},
			{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAsExpected},
		},
		KubeProxy: v1alpha1.KubeProxyStatus{Mode: "nftables", Phase: v1alpha1.PhaseIdle},
		Speakers:  v1alpha1.SpeakersStatus{Summary: "2/2"},
		IPPools:   []v1alpha1.IPPoolStatus{{Name: "lan-pool", Total: "11", Allocated: "1", Available: "10"}},
		AllocatedIPs: []v1alpha1.AllocatedIP{{IP: "192.168.1.200", IPPool: "lan-pool", Services: []string{"default/lb-test"}, Node: "k8s-wl-01",
			Interface: "eth0", MAC: "02:00:00:00:00:01", Since: &since, LastMove: &v1alpha1.AddressMove{From: "k8s-wl-02", Reason: v1alpha1.MoveNodeSilent}}},
	}}
	report := func(name, mode, message string, announces int32) v1alpha1.NodeNetworking {
		return v1alpha1.NodeNetworking{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NodeNetworkingStatus{
			KubeProxy: v1alpha1.NodeKubeProxy{Mode: mode, Message: message}, AnnouncedCount: announces, PeersCount: 1}}
	}
	return cnet, []v1alpha1.NodeNetworking{report("k8s-wl-02", "", "it does not answer", 0), report("k8s-wl-01", "nftables", "", 1)}
}

func screen(t *testing.T, o overview, wide bool) string {
	t.Helper()
	var text strings.Builder
	if err := o.print(&text, noon, wide); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range strings.Split(text.String(), "\n") {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return strings.Join(lines, "\n")
}

func TestTheOverviewOfARackThatWorks(t *testing.T) {
	cnet, reports := rack()
	const want = `READY  MODE      PHASE  SPEAKERS
True   nftables  Idle   2/2

NODE       KUBE-PROXY          ANNOUNCES  HEARS
k8s-wl-01  nftables            1          1
k8s-wl-02  it does not answer  0          1

POOL      USED                             FREE  QUARANTINED  DRAINING
lan-pool  [#-------------------]  1 of 11  10    0            0

ADDRESS        SERVICE          POOL      NODE       SINCE
192.168.1.200  default/lb-test  lan-pool  k8s-wl-01  90m
`
	if diff := cmp.Diff(want, screen(t, over(cnet, reports), false)); diff != "" {
		t.Errorf("the screen (-want +got):\n%s", diff)
	}
}

func TestTheWideOverviewSaysWhereAndWhy(t *testing.T) {
	cnet, reports := rack()
	const want = `192.168.1.200  default/lb-test  lan-pool  k8s-wl-01  90m    eth0       02:00:00:00:00:01  NodeSilent k8s-wl-02`
	if got := screen(t, over(cnet, reports), true); !strings.Contains(got, want) {
		t.Errorf("the screen has no line %q:\n%s", want, got)
	}
}

func TestTheOverviewSaysWhatToLookAt(t *testing.T) {
	cnet, reports := rack()
	s := &cnet.Status
	s.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonServicesPending, Message: "sums up"},
		{Type: v1alpha1.ConditionIPPoolsReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonServicesPending, Message: "1 Service has no address"},
		{Type: v1alpha1.ConditionKubeProxyReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, Message: "kube-proxy runs as asked"},
		{Type: v1alpha1.ConditionKubeProxyDeprecated, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonIPVSDeprecated, Message: "ipvs ends"},
		{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonServicesPending, Message: "less than asked for"},
	}
	s.AllocatedIPs[0].Node, s.AllocatedIPs[0].Since, s.AllocatedIPsOmitted = "", nil, 3
	s.QuarantinedIPs = []v1alpha1.QuarantinedIP{{IP: "192.168.1.205", IPPool: "lan-pool", MAC: "02:00:00:00:00:99"}}
	s.KubeProxy.LastFailure = &v1alpha1.KubeProxyFailure{Message: "k8s-wl-02 lacks the module"}
	const want = `ADDRESS                                              SERVICE          POOL      NODE            SINCE
192.168.1.200                                        default/lb-test  lan-pool  nobody answers
and 3 more: kubectl get services --all-namespaces

Look at:
- IPPoolsReady is False (ServicesPending): 1 Service has no address
- KubeProxyDeprecated is True (IPVSDeprecated): ipvs ends
- Degraded is True (ServicesPending): less than asked for
- 192.168.1.205 of pool lan-pool is answered for by a foreign host, 02:00:00:00:00:99: take it from the host, or out of the pool
- kube-proxy's last change failed: k8s-wl-02 lacks the module
`
	_, got, _ := strings.Cut(screen(t, over(cnet, reports), false), "ADDRESS")
	got = "ADDRESS" + got
	if diff := cmp.Diff(strings.ReplaceAll(want, " ", ""), strings.ReplaceAll(got, " ", "")); diff != "" {
		t.Errorf("the end of the screen, without blanks (-want +got):\n%s", diff)
	}
}

func TestBar(t *testing.T) {
	for name, tc := range map[string]struct{ used, total, want string }{
		"nothing":                                {"0", "11", "--------------------"},
		"one of many shows":                      {"1", "65536", "#-------------------"},
		"half":                                   {"8", "16", "##########----------"},
		"all but one of many shows what is left": {"65535", "65536", "###################-"},
		"all":                                    {"11", "11", "####################"},
		"more than the pool gives, as others drain": {"12", "11", "####################"},
		"an empty pool": {"0", "0", "--------------------"},
		"an IPv6 pool":  {"9223372036854775808", "18446744073709551616", "##########----------"},
		"no number yet": {"", "", "--------------------"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := bar(tc.used, tc.total); got != tc.want {
				t.Errorf("%s of %s is [%s], want [%s]", tc.used, tc.total, got, tc.want)
			}
		})
	}
}
