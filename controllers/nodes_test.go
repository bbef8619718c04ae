package controllers

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// pod is a pod with one container, on node w1.
func pod(change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p-x", UID: "uid-of-p-x", CreationTimestamp: created},
		Spec:       corev1.PodSpec{NodeName: "w1"},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{}}},
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

func podCondition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message})
	}
}

var podReady = podCondition(corev1.PodReady, corev1.ConditionTrue, "", "")

func running(p *corev1.Pod) {
	p.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{StartedAt: created}
}

func waiting(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
	}
}

// ended is how the process before ended.
func ended(code int32, reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}
	}
}

func TestPodOf(t *testing.T) {
	for name, tc := range map[string]struct {
		pod     corev1.Pod
		ready   bool
		started time.Time
		failure string
	}{
		"a pod that runs":                 {pod: pod(running, podReady), ready: true, started: created.Time},
		"a pod that is not ready":         {pod: pod(running, podCondition(corev1.PodReady, corev1.ConditionFalse, "", "")), started: created.Time},
		"a pod of which nothing is known": {pod: pod(func(p *corev1.Pod) { p.Status = corev1.PodStatus{} })},
		"a first start is no failure":     {pod: pod(waiting("ContainerCreating", ""))},
		"nor is the wait for a pod's sandbox": {
			pod: pod(waiting("PodInitializing", ""), ended(1, "Error", ""))},
		"a pod that came up again after a crash": {
			pod: pod(running, podReady, ended(1, "Error", "gone wrong")), ready: true, started: created.Time},
		"a crash, with the end of what the process said, not with how long the next has to wait": {
			pod:     pod(waiting("CrashLoopBackOff", "back-off 40s restarting failed container"), ended(1, "Error", "no such mode\n")),
			failure: "CrashLoopBackOff, exit code 1: no such mode"},
		"a crash without a word, with what the kubelet says of it": {
			pod: pod(waiting("CrashLoopBackOff", "back-off 40s"), ended(137, "OOMKilled", "")), failure: "CrashLoopBackOff, exit code 137: OOMKilled"},
		"a crash of which nothing is known any more": {
			pod: pod(waiting("CrashLoopBackOff", "back-off 40s restarting failed container")), failure: "CrashLoopBackOff: back-off 40s restarting failed container"},
		"an image that cannot be pulled": {
			pod: pod(waiting("ErrImagePull", "not found")), failure: "ErrImagePull: not found"},
		"an image that cannot be pulled any more is not blamed on how the process before ended": {
			pod: pod(waiting("ImagePullBackOff", ""), ended(0, "Completed", "")), failure: "ImagePullBackOff"},
		"a pod that no node takes": {
			pod:     pod(podCondition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "1 Insufficient cpu")),
			failure: "Unschedulable: 1 Insufficient cpu"},
	} {
		t.Run(name, func(t *testing.T) {
			want := &kubeproxy.Pod{Name: "p-x", UID: "uid-of-p-x", Created: created.Time, Started: tc.started, Ready: tc.ready, Failure: tc.failure}
			if diff := cmp.Diff(want, podOf(&tc.pod)); diff != "" {
				t.Errorf("pod (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSightings says what is believed of kube-proxy on the node w1, whose speaker asked when its process had just started.
func TestSightings(t *testing.T) {
	started := metav1.NewTime(created.Add(-time.Second)) // the runtime makes the process, then calls the container started
	earlier := metav1.NewTime(created.Add(-time.Minute))
	speaker, elsewhere := pod(), pod(func(p *corev1.Pod) { p.Spec.NodeName = "w2" })
	daemonSet := func(observed int64) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Generation: 1}, Status: appsv1.DaemonSetStatus{ObservedGeneration: observed}}
	}
	reports := func(of v1alpha1.NodeKubeProxy) v1alpha1.NodeNetworkingList {
		return v1alpha1.NodeNetworkingList{Items: []v1alpha1.NodeNetworking{{ObjectMeta: metav1.ObjectMeta{Name: "w1"}, Status: v1alpha1.NodeNetworkingStatus{KubeProxy: of}}}}
	}
	nftables := v1alpha1.NodeKubeProxy{Mode: "nftables", StartTime: &started}
	old := v1alpha1.NodeKubeProxy{Mode: "iptables", StartTime: &earlier}
	for name, tc := range map[string]struct {
		speakers  []corev1.Pod
		daemonSet *appsv1.DaemonSet
		reports   v1alpha1.NodeNetworkingList
		want      kubeproxy.Node
	}{
		"no speaker at all": {},
		"the speaker reports": {
			speakers: []corev1.Pod{elsewhere, speaker}, daemonSet: daemonSet(1), reports: reports(nftables),
			want: kubeproxy.Node{Witness: kubeproxy.Reporting, Mode: "nftables", Dated: true, Untried: true}},
		"the speaker has not reported": {
			speakers: []corev1.Pod{speaker}, daemonSet: daemonSet(1), want: kubeproxy.Node{Witness: kubeproxy.Silent}},
		"the speaker has reported of a process before this one only": {
			speakers: []corev1.Pod{speaker}, daemonSet: daemonSet(1), reports: reports(old), want: kubeproxy.Node{Witness: kubeproxy.Silent}},
		"a taint keeps the speaker off: none is expected, whatever the selector says": {
			speakers: []corev1.Pod{elsewhere}, daemonSet: daemonSet(1)},
		"a taint keeps it off since a while, and its last report is old": {
			speakers: []corev1.Pod{elsewhere}, daemonSet: daemonSet(1), reports: reports(old)},
		"while the speaker's pods are not made yet, the selector counts": {
			daemonSet: daemonSet(0), want: kubeproxy.Node{Witness: kubeproxy.Silent}},
	} {
		t.Run(name, func(t *testing.T) {
			s := sightings{proxies: corev1.PodList{Items: []corev1.Pod{elsewhere, pod(running, podReady)}}, speakers: corev1.PodList{Items: tc.speakers},
				reports: tc.reports, daemonSet: tc.daemonSet}
			tc.want.Name, tc.want.Pod = "w1", &kubeproxy.Pod{Name: "p-x", UID: "uid-of-p-x", Created: created.Time, Started: created.Time, Ready: true}
			if diff := cmp.Diff(tc.want, s.of(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}})); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
		})
	}
}

// requires is an affinity that takes only the nodes that meet what is required.
func requires(required ...corev1.NodeSelectorRequirement) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: required}}}}}
}

func TestRunsOn(t *testing.T) {
	const edge = "node-role.kubernetes.io/edge"
	notAtTheEdge := corev1.NodeSelectorRequirement{Key: edge, Operator: corev1.NodeSelectorOpDoesNotExist}
	for name, tc := range map[string]struct {
		selector map[string]string
		affinity *corev1.Affinity
		labels   map[string]string
		want     bool
	}{
		"without anything that selects, it runs on every node": {want: true},
		"a node that the nodeSelector takes": {
			selector: map[string]string{corev1.LabelOSStable: "linux"}, labels: map[string]string{corev1.LabelOSStable: "linux"}, want: true},
		"a node that it does not take": {
			selector: map[string]string{corev1.LabelOSStable: "linux"}, labels: map[string]string{corev1.LabelOSStable: "windows"}},
		"a node that the affinity takes":    {affinity: requires(notAtTheEdge), want: true},
		"a node that the affinity excludes": {affinity: requires(notAtTheEdge), labels: map[string]string{edge: ""}},
		"both have to take it": {
			selector: map[string]string{corev1.LabelOSStable: "linux"}, affinity: requires(notAtTheEdge), labels: map[string]string{corev1.LabelOSStable: "windows"}},
		"what is only preferred excludes nobody": {
			affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{notAtTheEdge}}}}}},
			labels: map[string]string{edge: ""}, want: true},
		"a term that cannot be read takes no node": {
			affinity: requires(corev1.NodeSelectorRequirement{Key: edge, Operator: "Near"})},
	} {
		t.Run(name, func(t *testing.T) {
			ds := &appsv1.DaemonSet{}
			ds.Spec.Template.Spec = corev1.PodSpec{NodeSelector: tc.selector, Affinity: tc.affinity}
			if got := runsOn(ds, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1", Labels: tc.labels}}); got != tc.want {
				t.Errorf("it runs there: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestNowhere(t *testing.T) {
	ds := &appsv1.DaemonSet{}
	ds.Spec.Template.Spec.Affinity = requires(corev1.NodeSelectorRequirement{Key: "kube-proxy", Operator: corev1.NodeSelectorOpExists})
	without, with := corev1.Node{}, corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"kube-proxy": ""}}}
	for name, tc := range map[string]struct {
		daemonSet *appsv1.DaemonSet
		nodes     []corev1.Node
		want      bool
	}{
		"no node is taken":              {daemonSet: ds, nodes: []corev1.Node{without, without}, want: true},
		"one of several is enough":      {daemonSet: ds, nodes: []corev1.Node{without, with}},
		"without nodes it is not known": {daemonSet: ds},
		"nor without a DaemonSet":       {nodes: []corev1.Node{without}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := nowhere(tc.daemonSet, tc.nodes); got != tc.want {
				t.Errorf("it runs nowhere: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestNodeReady(t *testing.T) {
	for name, tc := range map[string]struct {
		conditions []corev1.NodeCondition
		want       bool
	}{
		"Ready":     {[]corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}}, true},
		"not Ready": {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}, false},
		"its kubelet is silent: the node controller says Unknown": {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}, false},
		"its kubelet has said nothing yet":                        {[]corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := nodeReady(&corev1.Node{Status: corev1.NodeStatus{Conditions: tc.conditions}}); got != tc.want {
				t.Errorf("nodeReady is %v, want %v", got, tc.want)
			}
		})
	}
}

func TestWrittenAt(t *testing.T) {
	at := func(minute int) *metav1.Time {
		return &metav1.Time{Time: created.Add(time.Duration(minute) * time.Minute)}
	}
	fields := func(keys string) *metav1.FieldsV1 { return metav1.NewFieldsV1(`{"f:data":{` + keys + `}}`) }
	const config, kubeconfig = `"f:config.conf":{}`, `"f:kubeconfig.conf":{}`
	for name, tc := range map[string]struct {
		fields []metav1.ManagedFieldsEntry
		want   time.Time
	}{
		"kubeadm wrote it": {
			fields: []metav1.ManagedFieldsEntry{{Manager: "kubeadm", Time: at(1), FieldsV1: fields(`".":{},` + config + "," + kubeconfig)}}, want: at(1).Time},
		"the last of several managers counts, wherever it stands": {
			fields: []metav1.ManagedFieldsEntry{{Manager: "lanyard-manager", Time: at(3), FieldsV1: fields(config)},
				{Manager: "kubectl-edit", Time: at(2), FieldsV1: fields(config)}}, want: at(3).Time},
		"whoever wrote another key, or an annotation, did not write it": {
			fields: []metav1.ManagedFieldsEntry{{Manager: "kubeadm", Time: at(1), FieldsV1: fields(config)},
				{Manager: "cert-rotator", Time: at(5), FieldsV1: fields(kubeconfig)},
				{Manager: "labeller", Time: at(6), FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:note":{}}}}`)}}, want: at(1).Time},
		"an entry without a time, or without fields, says nothing": {
			fields: []metav1.ManagedFieldsEntry{{Manager: "a", FieldsV1: fields(config)}, {Manager: "b", Time: at(2)}}},
		"nobody is known to have written it": {},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := lastWrite(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ManagedFields: tc.fields}})
			if !got.Equal(tc.want) {
				t.Errorf("written at %s, want %s", got, tc.want)
			}
		})
	}
}
