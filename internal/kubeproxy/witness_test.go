package kubeproxy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

func TestHear(t *testing.T) {
	// The node's clock is an hour behind the API server's, which gave the pod its time.
	started := at(10).Add(-time.Hour)
	said := func(mode, message string, start time.Time) v1alpha1.NodeKubeProxy {
		return v1alpha1.NodeKubeProxy{Mode: mode, Message: message, StartTime: &metav1.Time{Time: start}}
	}
	speaker := node("a", "", at(9), silent, func(n *Node) { n.Pod.Started = started })
	gone := node("a", "", at(9), noSpeaker, func(n *Node) { n.Pod.Started = started })
	hears := func(n Node, mode, says string, dated bool) Node {
		n.Witness, n.Mode, n.Says, n.Dated, n.Untried = Reporting, mode, says, dated, mode != ""
		return n
	}
	notRunning := node("a", "", at(9), silent, crashing, func(n *Node) { n.Pod.Started = time.Time{} })
	podless := node("a", "", at(9), silent, noPod)
	tried := said("ipvs", "", started)
	tried.LooseARP, tried.Checks = []string{"eth0"}, []v1alpha1.NodeCheck{{Name: "default/kubernetes", Result: v1alpha1.CheckPassed}}
	loosely := hears(speaker, "ipvs", "", true)
	loosely.Untried, loosely.LooseARP = false, []string{"eth0"}
	for name, tc := range map[string]struct {
		node Node
		said v1alpha1.NodeKubeProxy
		want Node
	}{
		"its rules were tried, and its kernel looked at":      {speaker, tried, loosely},
		"the process that runs":                               {speaker, said("nftables", "", started), hears(speaker, "nftables", "", true)},
		"the runtime made the process before the container":   {speaker, said("ipvs", "", started.Add(-10*time.Second)), hears(speaker, "ipvs", "", true)},
		"a process from before is not heard":                  {speaker, said("iptables", "", started.Add(-11*time.Second)), speaker},
		"nor is one whose container has ended":                {notRunning, said("iptables", "", started), notRunning},
		"nor one whose pod is gone":                           {podless, said("iptables", "", started), podless},
		"a speaker that is gone still spoke of this process":  {gone, said("nftables", "", started), hears(gone, "nftables", "", true)},
		"a speaker that is gone is not believed without date": {gone, v1alpha1.NodeKubeProxy{Mode: "nftables"}, gone},
		"a speaker that has not asked yet":                    {speaker, v1alpha1.NodeKubeProxy{}, speaker},
		"no answer is a report, with its cause": {speaker, v1alpha1.NodeKubeProxy{Message: "connection refused"},
			hears(speaker, "", "connection refused", false)},
		"a mode without a date": {speaker, v1alpha1.NodeKubeProxy{Mode: "ipvs", Message: "no metrics"}, hears(speaker, "ipvs", "no metrics", false)},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.node.Hear(tc.said)); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWaits follows one node: what it lacks is timed from when it began to lack just that.
func TestWaits(t *testing.T) {
	waits := Waits{}
	for _, step := range []struct {
		what   string
		second int
		node   Node
		since  time.Time
	}{
		{"its speaker has not reported", 1, node("a", "", at(0), silent), at(1)},
		{"it still has not", 5, node("a", "", at(0), silent), at(1)},
		{"it is restarted", 6, node("a", "", at(0), silent, noPod), at(6)},
		{"its new kube-proxy is not reported", 8, node("a", "", at(8), silent), at(8)},
		{"it is reported", 9, node("a", "nftables", at(8)), time.Time{}},
		{"the pod is deleted again", 20, node("a", "nftables", at(8), noPod), at(20)},
		{"nobody waits for a node that is not Ready", 21, node("a", "", at(8), noPod, notReady), time.Time{}},
		{"it returns", 30, node("a", "", at(8), noPod), at(30)},
		{"its rules lead nowhere", 30, node("a", "nftables", at(8), blocked), at(30)},
		{"a kube-proxy that is down needs no report", 31, node("a", "", at(31), silent, crashing), time.Time{}},
	} {
		nodes := []Node{step.node}
		waits.Mark(nodes, at(step.second))
		if !nodes[0].Since.Equal(step.since) {
			t.Errorf("%s: it lacks something since %s, want %s", step.what, nodes[0].Since, step.since)
		}
	}
	pods := []Node{node("c", "nftables", at(8)), node("b", "nftables", at(8), notReady, leaving(50))}
	waits.Mark(pods, at(60))
	waits.Mark(pods, at(70))
	anew := []Node{node("c", "nftables", at(8))}
	again := Waits{}
	again.Mark(anew, at(71))
	again.Mark(anew, at(72))
	type seen struct {
		met, missed time.Time
		found       bool
	}
	got := []seen{{pods[0].Pod.Met, time.Time{}, pods[0].Pod.Found}, {time.Time{}, pods[1].Missed, false}, {anew[0].Pod.Met, time.Time{}, anew[0].Pod.Found}}
	want := []seen{{at(60), time.Time{}, false}, {time.Time{}, at(60), false}, {at(71), time.Time{}, true}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(seen{})); diff != "" {
		t.Errorf("a pod was met, one missed, and one found by a manager that was started anew (-want +got):\n%s", diff)
	}
	if waits.Mark(nil, at(80)); len(waits) > 0 {
		t.Errorf("nodes that are gone are remembered: %v", waits)
	}
}
