package controllers

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/conditions"
	"github.com/lanyard-dev/lanyard/internal/ipam"
	"github.com/lanyard-dev/lanyard/internal/keyring"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// at is a moment, in minutes after the Services were made.
func at(minute int) metav1.Time {
	return metav1.Time{Time: created.Add(time.Duration(minute) * time.Minute)}
}

func TestPoolStatus(t *testing.T) {
	huge := ipam.Usage{Pool: "six", Total: new(big.Int).Lsh(big.NewInt(1), 64), Allocated: big.NewInt(2), Available: new(big.Int), Quarantined: big.NewInt(3), Draining: big.NewInt(1)}
	huge.Available.Sub(huge.Total, huge.Allocated)
	pools, all := poolStatus([]ipam.Usage{usage("lan-pool", 11, 3), huge})
	wantPools := []v1alpha1.IPPoolStatus{
		{Name: "lan-pool", Total: "11", Allocated: "3", Available: "8"},
		{Name: "six", Total: "18446744073709551616", Allocated: "2", Available: "18446744073709551614", Quarantined: "3", Draining: "1"},
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
		down    string // a node that is not Ready
		want    []conditions.MissingSpeaker
	}{
		"one that is ready is not missing": {desired: 1, pods: []corev1.Pod{pod(running, podReady)}},
		"each with its reason, in the order of nodes; who does not start without a person goes first": {
			desired: 4,
			pods: []corev1.Pod{pod(on("w3"), waiting("ContainerCreating", "")), pod(on("w1"), waiting("ImagePullBackOff", "")), pod(on("w2"), running, podReady),
				pod(on("w4"), running, stopping)},
			want: []conditions.MissingSpeaker{{Text: "w1 (ImagePullBackOff; see events and log of pod p-x)", Stuck: true},
				{Text: "w3 (starting)"}, {Text: "w4 (being replaced)"}},
		},
		"who is stuck goes before who starts, whatever the names": {
			desired: 2, pods: []corev1.Pod{pod(on("a"), waiting("ContainerCreating", "")), pod(on("b"), waiting("ErrImagePull", "not found"))},
			want: []conditions.MissingSpeaker{{Text: "b (ErrImagePull: not found; see events and log of pod p-x)", Stuck: true}, {Text: "a (starting)"}},
		},
		"one that runs and is not ready, on a node that is": {
			desired: 1, pods: []corev1.Pod{pod(running, podCondition(corev1.PodReady, corev1.ConditionFalse, "", ""))},
			want: []conditions.MissingSpeaker{{Text: "w1 (runs but is not ready: if this lasts, see the log of pod p-x)"}},
		},
		"a node that died leaves a pod that seems to run": {
			desired: 1, pods: []corev1.Pod{pod(running, podCondition(corev1.PodReady, corev1.ConditionFalse, "", ""))}, down: "w1",
			want: []conditions.MissingSpeaker{{Text: "w1 (the node is not Ready: see whether it and its kubelet run)", Stuck: true}},
		},
		"a pod that no node takes": {
			desired: 1, pods: []corev1.Pod{pod(on(""), podCondition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "1 Insufficient cpu"))},
			want: []conditions.MissingSpeaker{
				{Text: "pod p-x without a node (Unschedulable: 1 Insufficient cpu; see events and log of pod p-x)", Stuck: true}},
		},
		"pods that nobody may make": {
			desired: 3, pods: []corev1.Pod{pod(running, podReady)},
			want: []conditions.MissingSpeaker{{Text: "2 without a pod (if this lasts, see the events of DaemonSet lanyard-speaker)"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			up := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
			nodes := []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: up}, {ObjectMeta: metav1.ObjectMeta{Name: "w1"}, Status: up}}
			for i := range nodes {
				if nodes[i].Name == tc.down {
					nodes[i].Status.Conditions[0].Status = corev1.ConditionUnknown
				}
			}
			if diff := cmp.Diff(tc.want, missingSpeakers(tc.desired, tc.pods, nodes)); diff != "" {
				t.Errorf("missing speakers (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLastRefusal: what was refused before a pod was made is over.
func TestLastRefusal(t *testing.T) {
	at := func(second int) metav1.Time {
		return metav1.Time{Time: created.Add(time.Duration(second) * time.Second)}
	}
	refused := func(second int, why string) corev1.Event {
		return corev1.Event{LastTimestamp: at(second), Message: why}
	}
	for name, tc := range map[string]struct {
		events []corev1.Event
		made   int // seconds after which a pod was made; 0: none was
		want   string
	}{
		"nothing was refused":   {},
		"the last word counts":  {events: []corev1.Event{refused(1, "a"), refused(3, "b"), refused(2, "c")}, want: "b"},
		"a pod was made since":  {events: []corev1.Event{refused(1, "a")}, made: 2},
		"a pod was made before": {events: []corev1.Event{refused(3, "a")}, made: 2, want: "a"},
		"the newer API's Event of a row": {events: []corev1.Event{refused(1, "a"), {EventTime: metav1.NewMicroTime(created.Time), Message: "b",
			Series: &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(at(4).Time)}}}, want: "b"},
		"the newer API's Event, once": {events: []corev1.Event{{EventTime: metav1.NewMicroTime(at(4).Time), Message: "b"}, refused(1, "a")}, want: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			var pods []corev1.Pod
			if tc.made > 0 {
				pods = append(pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(tc.made)}})
			}
			if got := lastRefusal(tc.events, pods); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// network is a cluster of two nodes where all is well; change, if any, changes what was observed.
func network(change func(*reports)) (*v1alpha1.ClusterNetworking, reports, seen, []v1alpha1.NodeNetworking) {
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
	return cnet, r, seen{Speakers: conditions.Speakers{Desired: 2, Ready: 2}}, nodes
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
		badKey    = "Secret lanyard-membership: entry is bad. Speakers that run keep the keys that they have, and no other can start; deleted, the Secret is made anew"
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
		"somebody lists a Service's address among its externalIPs: a remark, for everyone may do that": {
			observe: func(r *reports) {
				r.addresses.clashes = []ipam.Refusal{refusal("lb", ipam.AddressContested, "claimed by another")}
			},
			conditions: map[string]string{
				"IPPoolsReady": "True Ready: every Service that asks for an address has one; default/lb (AddressContested): claimed by another",
			},
		},
		"a coming version of Kubernetes ends kube-proxy's mode": {
			observe: func(r *reports) {
				r.kubeProxy.deprecation = kubeproxy.Deprecation{Reason: "IPVSDeprecated", Message: "before the upgrade"}
			},
			conditions: map[string]string{"KubeProxyDeprecated": "True IPVSDeprecated: before the upgrade"},
		},
		"a key of the speakers' gossip gives way to another": {
			observe: func(r *reports) { r.dataplane.keys = keysReport{reason: keyring.Rotating, message: "step 1 of 3"} },
			conditions: map[string]string{
				"Progressing": "True RotatingMembershipKey: step 1 of 3",
			},
		},
		"a key of the speakers' gossip cannot be read": {
			observe: func(r *reports) { r.dataplane.keys = keysReport{reason: keyring.Invalid, message: "entry is bad"} },
			conditions: map[string]string{
				"Ready":         "False MembershipKeyInvalid: SpeakersReady: " + badKey,
				"SpeakersReady": "False MembershipKeyInvalid: " + badKey,
				"Degraded":      "True MembershipKeyInvalid: " + badKey,
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
			cnet.Status.Conditions = []metav1.Condition{{Type: "KubeProxyDeprecated", Status: "True", Reason: "ModeLeftOpen", Message: "of before"}}
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
