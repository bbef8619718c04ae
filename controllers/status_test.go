package controllers

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/conditions"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// at is a moment, in minutes after the Services were made.
func at(minute int) metav1.Time {
	return metav1.Time{Time: created.Add(time.Duration(minute) * time.Minute)}
}

// report is the report of a node whose speaker hears the peers.
func report(node string, peers string, change ...func(*v1alpha1.NodeNetworkingStatus)) v1alpha1.NodeNetworking {
	n := v1alpha1.NodeNetworking{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: v1alpha1.NodeNetworkingStatus{Peers: strings.Fields(peers)}}
	for _, c := range change {
		c(&n.Status)
	}
	return n
}

func announces(ip string, minute int, message ...string) func(*v1alpha1.NodeNetworkingStatus) {
	return func(s *v1alpha1.NodeNetworkingStatus) {
		s.Announced = append(s.Announced, v1alpha1.AnnouncedIP{IP: ip, Interface: "eth0", MAC: "52:54:00:00:00:01", Since: at(minute),
			Message: strings.Join(message, "")})
	}
}

func explains(ip, why string) func(*v1alpha1.NodeNetworkingStatus) {
	return func(s *v1alpha1.NodeNetworkingStatus) {
		s.Unannounced = append(s.Unannounced, v1alpha1.UnannouncedIP{IP: ip, Reason: "NoCandidate", Message: why})
	}
}

// allocated is an address of default/lb that nobody answers for; with a node, one that this node answers for.
func allocated(ip, message string) v1alpha1.AllocatedIP {
	return v1alpha1.AllocatedIP{IP: ip, IPPool: "lan-pool", Services: []string{"default/lb"}, Message: message}
}

func allocatedOn(node, ip string, minute int, message string) v1alpha1.AllocatedIP {
	a := allocated(ip, message)
	since := at(minute)
	a.Node, a.Interface, a.MAC, a.Since = node, "eth0", "52:54:00:00:00:01", &since
	return a
}

func TestAllocatedIPs(t *testing.T) {
	const ip, nobodyYet = "192.168.1.200", "no speaker has reported that it announces it yet"
	type reports = []v1alpha1.NodeNetworking
	for name, tc := range map[string]struct {
		addresses   []string // of default/lb; ip alone when none are named
		nodes       reports
		want        []v1alpha1.AllocatedIP
		wantMissing []conditions.Unannounced
		wantRemarks []string
	}{
		"the node that announces it": {
			nodes: reports{report("w1", "w2", announces(ip, 1)), report("w2", "w1")},
			want:  []v1alpha1.AllocatedIP{allocatedOn("w1", ip, 1, "")},
		},
		"the only node there is": {
			nodes: reports{report("w1", "", announces(ip, 1))},
			want:  []v1alpha1.AllocatedIP{allocatedOn("w1", ip, 1, "")},
		},
		"no speaker has spoken yet": {
			want:        []v1alpha1.AllocatedIP{allocated(ip, nobodyYet)},
			wantMissing: []conditions.Unannounced{{IP: ip, Message: nobodyYet}},
		},
		"a speaker says why nobody announces it": {
			nodes:       reports{report("w1", "w2", explains(ip, "no carrier")), report("w2", "w1")},
			want:        []v1alpha1.AllocatedIP{allocated(ip, "no carrier")},
			wantMissing: []conditions.Unannounced{{IP: ip, Message: "no carrier", Explained: true}},
		},
		"what is unusual about the announcer is remarked": {
			nodes:       reports{report("cp", "", announces(ip, 1, "only excluded nodes are left"))},
			want:        []v1alpha1.AllocatedIP{allocatedOn("cp", ip, 1, "only excluded nodes are left")},
			wantRemarks: []string{ip + ": only excluded nodes are left"},
		},
		"of two that announce it, the one that began last: the other has not reported its end yet": {
			nodes: reports{report("w1", "w2", announces(ip, 1)), report("w2", "w1", announces(ip, 2))},
			want:  []v1alpha1.AllocatedIP{allocatedOn("w2", ip, 2, "")},
		},
		"of two that began in the same second, always the same one": {
			nodes: reports{report("w1", "w2", announces(ip, 1)), report("w2", "w1", announces(ip, 1))},
			want:  []v1alpha1.AllocatedIP{allocatedOn("w1", ip, 1, "")},
		},
		"a dead node goes on claiming it in the report that it left, even as one that began later": {
			nodes: reports{report("cp", "w1"), report("w1", "cp", announces(ip, 1)), report("w2", "cp w1", announces(ip, 2))},
			want:  []v1alpha1.AllocatedIP{allocatedOn("w1", ip, 1, "")},
		},
		"nobody has taken over from the dead node yet": {
			nodes: reports{report("cp", "w1"), report("w1", "cp"), report("w2", "cp w1", announces(ip, 2))},
			want:  []v1alpha1.AllocatedIP{allocated(ip, "w2 said last that it announces it, but most other speakers do not hear w2")},
			wantMissing: []conditions.Unannounced{
				{IP: ip, Message: "w2 said last that it announces it, but most other speakers do not hear w2"}},
		},
		"nobody can take over from the dead node, and the living say why": {
			nodes:       reports{report("cp", "w1", explains(ip, "only w2 is selected")), report("w1", "cp"), report("w2", "cp w1", announces(ip, 2))},
			want:        []v1alpha1.AllocatedIP{allocated(ip, "only w2 is selected")},
			wantMissing: []conditions.Unannounced{{IP: ip, Message: "only w2 is selected", Explained: true}},
		},
		"what a dead node said before it died explains nothing now": {
			nodes:       reports{report("cp", "w1"), report("w1", "cp"), report("w2", "cp w1", explains(ip, "no pool"))},
			want:        []v1alpha1.AllocatedIP{allocated(ip, nobodyYet)},
			wantMissing: []conditions.Unannounced{{IP: ip, Message: nobodyYet}},
		},
		"in the order of addresses; what is missing for a known reason is named first, for messages name but a few": {
			addresses: []string{"192.168.1.10", "192.168.1.9", "192.168.1.200", "192.168.1.100"},
			nodes: reports{report("w1", "", announces("192.168.1.100", 1, "odd"), announces("192.168.1.9", 1, "odd"),
				explains("192.168.1.200", "no carrier"))},
			want: []v1alpha1.AllocatedIP{allocatedOn("w1", "192.168.1.9", 1, "odd"), allocated("192.168.1.10", nobodyYet),
				allocatedOn("w1", "192.168.1.100", 1, "odd"), allocated("192.168.1.200", "no carrier")},
			wantMissing: []conditions.Unannounced{{IP: "192.168.1.200", Message: "no carrier", Explained: true}, {IP: "192.168.1.10", Message: nobodyYet}},
			wantRemarks: []string{"192.168.1.9: odd", "192.168.1.100: odd"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.addresses == nil {
				tc.addresses = []string{ip}
			}
			for range 2 { // as listed, and the other way round: a cache lists in any order
				got, missing, remarks := allocatedIPs([]ipam.Assignment{has("lb", from("lan-pool", tc.addresses...)...)}, tc.nodes)
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("allocated (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.wantMissing, missing); diff != "" {
					t.Errorf("unannounced (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.wantRemarks, remarks); diff != "" {
					t.Errorf("remarks (-want +got):\n%s", diff)
				}
				slices.Reverse(tc.nodes)
			}
		})
	}
}

func TestHeardOf(t *testing.T) {
	type reports = []v1alpha1.NodeNetworking
	for name, tc := range map[string]struct {
		nodes reports
		want  string
	}{
		"a node that is alone":      {nodes: reports{report("w1", "")}, want: "w1"},
		"two that hear each other":  {nodes: reports{report("w1", "w2"), report("w2", "w1")}, want: "w1 w2"},
		"of two, the one that died": {nodes: reports{report("w1", ""), report("w2", "w1")}, want: "w1"},
		"two on either side of a cut, with nobody to tell which is alive": {nodes: reports{report("w1", ""), report("w2", "")}, want: "w1 w2"},
		"one that was cut off":         {nodes: reports{report("a", "b"), report("b", "a"), report("c", "")}, want: "a b"},
		"one whose report lags behind": {nodes: reports{report("a", "b c"), report("b", "a c"), report("c", "")}, want: "a b c"},
		"one that one of two misheard": {nodes: reports{report("a", "b c"), report("b", "a"), report("c", "a b")}, want: "a b c"},
		"one that has left no report":  {nodes: reports{report("a", "b new"), report("b", "a new")}, want: "a b"},
		"a newcomer that the reports of nodes that died before know nothing of": {
			nodes: reports{report("dead-1", "dead-2 dead-3 old"), report("dead-2", "dead-1 dead-3 old"), report("dead-3", "dead-1 dead-2 old"),
				report("old", "new other"), report("other", "new old"), report("new", "old other")},
			want: "new old other"},
	} {
		t.Run(name, func(t *testing.T) {
			heard := heardOf(tc.nodes)
			var got []string
			for _, n := range tc.nodes {
				if heard[n.Name] {
					got = append(got, n.Name)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("heard (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPoolStatus(t *testing.T) {
	huge := ipam.Usage{Pool: "six", Total: new(big.Int).Lsh(big.NewInt(1), 64), Allocated: big.NewInt(2), Available: new(big.Int)}
	huge.Available.Sub(huge.Total, huge.Allocated)
	pools, all := poolStatus([]ipam.Usage{usage("lan-pool", 11, 3), huge})
	wantPools := []v1alpha1.IPPoolStatus{
		{Name: "lan-pool", Total: "11", Allocated: "3", Available: "8"},
		{Name: "six", Total: "18446744073709551616", Allocated: "2", Available: "18446744073709551614"},
	}
	if diff := cmp.Diff(wantPools, pools); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(v1alpha1.AddressSummary{Used: "5", Free: "18446744073709551622"}, all); diff != "" {
		t.Errorf("sum (-want +got):\n%s", diff)
	}
}

func TestMissingSpeakers(t *testing.T) {
	on := func(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
	stopping := func(p *corev1.Pod) { p.DeletionTimestamp = &created }
	for name, tc := range map[string]struct {
		desired int
		pods    []corev1.Pod
		want    []string
	}{
		"one that is ready is not missing": {desired: 1, pods: []corev1.Pod{pod(running, podReady)}},
		"in the order of nodes, each with its reason": {
			desired: 4,
			pods: []corev1.Pod{pod(on("w3"), waiting("ContainerCreating", "")), pod(on("w1"), waiting("ImagePullBackOff", "")), pod(on("w2"), running, podReady),
				pod(on("w4"), running, stopping)},
			want: []string{"w1 (ImagePullBackOff)", "w3 (starting)", "w4 (being replaced)"},
		},
		"a node that died leaves a pod that seems to run": {
			desired: 1, pods: []corev1.Pod{pod(running, podCondition(corev1.PodReady, corev1.ConditionFalse, "", ""))},
			want: []string{"w1 (runs but is not ready: see whether the node is up, and the log of pod p-x)"},
		},
		"a pod that no node takes": {
			desired: 1, pods: []corev1.Pod{pod(on(""), podCondition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "1 Insufficient cpu"))},
			want: []string{"pod p-x without a node (Unschedulable: 1 Insufficient cpu)"},
		},
		"pods that nobody may make": {
			desired: 3, pods: []corev1.Pod{pod(running, podReady)}, want: []string{"2 without a pod (see the events of DaemonSet lanyard-speaker)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, missingSpeakers(tc.desired, tc.pods)); diff != "" {
				t.Errorf("missing speakers (-want +got):\n%s", diff)
			}
		})
	}
}

// network is a cluster of two nodes where all is well; change, if any, changes what was observed.
func network(change func(*reports)) (*v1alpha1.ClusterNetworking, reports, conditions.Speakers, []v1alpha1.NodeNetworking) {
	cnet := tutorial()
	cnet.Generation = 3
	r := reports{
		kubeProxy: &kubeProxyReport{
			verdict: conditions.Verdict{Standing: conditions.Settled, Reason: v1alpha1.ReasonReady, Message: "kube-proxy runs as asked"},
			status:  v1alpha1.KubeProxyStatus{Mode: "ipvs", UpdatedNodes: 2, TotalNodes: 2},
		},
		dataplane: &dataplaneReport{inForce: 3},
		addresses: &addressesReport{inForce: 3, plan: &ipam.Result{
			Assignments: []ipam.Assignment{has("lb", from("lan-pool", "192.168.1.200")...)},
			Pools:       []ipam.Usage{usage("lan-pool", 11, 1)},
		}},
	}
	if change != nil {
		change(&r)
	}
	nodes := []v1alpha1.NodeNetworking{report("w1", "w2", announces("192.168.1.200", 1)), report("w2", "w1")}
	return cnet, r, conditions.Speakers{Desired: 2, Ready: 2}, nodes
}

func TestFill(t *testing.T) {
	well := v1alpha1.ClusterNetworkingStatus{
		ObservedGeneration: 3,
		KubeProxy:          v1alpha1.KubeProxyStatus{Mode: "ipvs", UpdatedNodes: 2, TotalNodes: 2},
		Addresses:          v1alpha1.AddressSummary{Used: "1", Free: "10"},
		Speakers:           v1alpha1.SpeakersStatus{Desired: 2, Ready: 2, Summary: "2/2"},
		IPPools:            []v1alpha1.IPPoolStatus{{Name: "lan-pool", Total: "11", Allocated: "1", Available: "10"}},
		AllocatedIPs:       []v1alpha1.AllocatedIP{allocatedOn("w1", "192.168.1.200", 1, "")},
	}
	wellConditions := map[string]string{
		"Ready":          "True Ready: all is as the spec asks",
		"KubeProxyReady": "True Ready: kube-proxy runs as asked",
		"IPPoolsReady":   "True Ready: every Service that asks for an address has one",
		"SpeakersReady":  "True Ready: 2 of 2 speakers are ready",
		"Progressing":    "False Complete: no change is under way",
		"Degraded":       "False AsExpected: nothing needs a person",
	}
	const (
		nobodyYet = "10.9.9.9: no speaker has reported that it announces it yet"
		badRange  = "spec.ipPools[0].addresses[0]: ends before it begins; the last good configuration (generation 2) stays in force"
		timedOut  = "listing Services: timed out; it is tried again"
	)
	for name, tc := range map[string]struct {
		observe func(*reports)
		// The status and the conditions that differ from a network where all is well.
		status     func(*v1alpha1.ClusterNetworkingStatus)
		conditions map[string]string
	}{
		"all is well": {},
		"a Service waits, and nobody announces a second address, which no pool holds any more": {
			observe: func(r *reports) {
				r.addresses.plan.Assignments = append(r.addresses.plan.Assignments, has("two", from("", "10.9.9.9")...))
				r.addresses.plan.Refusals = []ipam.Refusal{refusal("waits", ipam.PoolExhausted, "all in use")}
			},
			status: func(s *v1alpha1.ClusterNetworkingStatus) {
				s.AllocatedIPs = slices.Insert(s.AllocatedIPs, 0, v1alpha1.AllocatedIP{IP: "10.9.9.9", Services: []string{"default/two"},
					Message: "no speaker has reported that it announces it yet"})
			},
			conditions: map[string]string{
				"Ready":         "False ServicesPending: IPPoolsReady: default/waits (PoolExhausted): all in use. SpeakersReady: " + nobodyYet,
				"IPPoolsReady":  "False ServicesPending: default/waits (PoolExhausted): all in use",
				"SpeakersReady": "False AddressesNotAnnounced: " + nobodyYet,
				"Progressing":   "True AddressesNotAnnounced: " + nobodyYet,
				"Degraded":      "True ServicesPending: default/waits (PoolExhausted): all in use",
			},
		},
		"while Services cannot be read, what was known of addresses stays": {
			observe: func(r *reports) { r.addresses = &addressesReport{err: errors.New("listing Services: timed out")} },
			conditions: map[string]string{
				"Ready":        "False ApplyFailed: IPPoolsReady: " + timedOut,
				"IPPoolsReady": "False ApplyFailed: " + timedOut,
				"Degraded":     "True ApplyFailed: " + timedOut,
			},
		},
		"the spec is bad, and the one before is in force": {
			observe: func(r *reports) {
				r.dataplane.problems = []conditions.Problem{{Field: "spec.ipPools[0].addresses[0]", Message: "ends before it begins"}}
				r.dataplane.inForce, r.addresses.inForce = 2, 2
			},
			conditions: map[string]string{
				"Ready":        "False InvalidConfiguration: IPPoolsReady: " + badRange,
				"IPPoolsReady": "False InvalidConfiguration: " + badRange,
				"Degraded":     "True InvalidConfiguration: " + badRange,
			},
		},
		"the first configuration could not be written: nobody says that spec.ipPools is empty": {
			observe: func(r *reports) {
				r.dataplane = &dataplaneReport{err: errors.New("writing ConfigMap: forbidden")}
				r.addresses = &addressesReport{plan: &ipam.Result{}}
			},
			status: func(s *v1alpha1.ClusterNetworkingStatus) {
				s.IPPools, s.AllocatedIPs, s.Addresses = nil, nil, v1alpha1.AddressSummary{Used: "0", Free: "0"}
			},
			conditions: map[string]string{
				"Ready":         "False ApplyFailed: SpeakersReady: writing ConfigMap: forbidden; it is tried again",
				"SpeakersReady": "False ApplyFailed: writing ConfigMap: forbidden; it is tried again",
				"Degraded":      "True ApplyFailed: writing ConfigMap: forbidden; it is tried again",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cnet, observed, speakers, nodes := network(tc.observe)
			cnet.Status = *well.DeepCopy()
			cnet.Status.ObservedGeneration = 2
			fill(cnet, observed, speakers, nodes)

			got := map[string]string{}
			for _, c := range cnet.Status.Conditions {
				got[c.Type] = fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
				if c.ObservedGeneration != 3 {
					t.Errorf("condition %s speaks of generation %d, want 3", c.Type, c.ObservedGeneration)
				}
			}
			wantConditions := maps.Clone(wellConditions)
			maps.Copy(wantConditions, tc.conditions)
			if diff := cmp.Diff(wantConditions, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			want := well.DeepCopy()
			if tc.status != nil {
				tc.status(want)
			}
			cnet.Status.Conditions = nil
			if diff := cmp.Diff(*want, cnet.Status); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFillListsTheFirstAddresses has more Services than a status can list.
func TestFillListsTheFirstAddresses(t *testing.T) {
	cnet, observed, speakers, nodes := network(func(r *reports) {
		a := netip.MustParseAddr("10.0.0.1")
		for i := range v1alpha1.AllocatedIPsLimit + 2 {
			r.addresses.plan.Assignments = append(r.addresses.plan.Assignments, has(fmt.Sprint(i), ipam.Holding{Addr: a}))
			a = a.Next()
		}
	})
	fill(cnet, observed, speakers, nodes)
	last := cnet.Status.AllocatedIPs[len(cnet.Status.AllocatedIPs)-1]
	got := fmt.Sprintf("%d up to %s, %d omitted", len(cnet.Status.AllocatedIPs), last.IP, cnet.Status.AllocatedIPsOmitted)
	if want := "500 up to 10.0.1.244, 3 omitted"; got != want { // the network's own address is one more
		t.Errorf("lists %s, want %s", got, want)
	}
}
