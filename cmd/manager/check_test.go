package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// TestJudge reads the findings as who runs `helm test` does.
func TestJudge(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	label := "kubectl label --overwrite namespace lanyard-system pod-security.kubernetes.io/enforce=privileged"
	good := []finding{
		{pass, "2 of 2 managers are available"},
		{pass, "lanyard-manager-7 leads"},
		{pass, "the namespace lets speakers onto the nodes' network"},
		{pass, "ClusterNetworking cluster is Ready: all is well"},
	}
	for name, tc := range map[string]struct {
		spoil func(*installation)
		// want are the findings that differ from the good ones, by their place.
		want map[int]finding
	}{
		"everything works": {spoil: func(*installation) {}},
		"one manager of two": {
			spoil: func(i *installation) { i.deployment.Status.AvailableReplicas = 1 },
			want: map[int]finding{0: {warn, "1 of 2 managers are available, which is enough until one is lost: " +
				"kubectl --namespace lanyard-system describe pods"}},
		},
		"no manager": {
			spoil: func(i *installation) { i.deployment.Status.AvailableReplicas = 0 },
			want:  map[int]finding{0: {fail, "0 of 2 managers are available: kubectl --namespace lanyard-system describe pods"}},
		},
		"no Deployment": {
			spoil: func(i *installation) { i.deployment = &appsv1.Deployment{} },
			want:  map[int]finding{0: {fail, "there is no Deployment of the manager: install Lanyard again"}},
		},
		"a lead that ran out": {
			spoil: func(i *installation) { i.lease.Spec.RenewTime.Time = now.Add(-16 * time.Second) },
			want:  map[int]finding{1: {fail, "no manager leads: see the managers' log"}},
		},
		"a lead that was given back": {
			spoil: func(i *installation) { i.lease.Spec.HolderIdentity = ptr.To("") },
			want:  map[int]finding{1: {fail, "no manager leads: see the managers' log"}},
		},
		"a namespace that Pod Security knows nothing of": {
			spoil: func(i *installation) { i.namespace.Labels = nil },
			want: map[int]finding{2: {warn, "the namespace has no label pod-security.kubernetes.io/enforce: where the cluster's default is stricter, " +
				"no speaker starts before " + label}},
		},
		"a namespace that is held to the baseline": {
			spoil: func(i *installation) { i.namespace.Labels[podSecurityLabel] = "baseline" },
			want: map[int]finding{2: {fail, "the namespace is labelled pod-security.kubernetes.io/enforce=baseline, which lets no speaker start: " +
				label}},
		},
		"no object yet": {
			spoil: func(i *installation) { i.network = nil },
			want:  map[int]finding{3: {pass, "there is no ClusterNetworking yet: apply one"}},
		},
		"an object that is not Ready": {
			spoil: func(i *installation) {
				i.network.Status.Conditions[0].Status, i.network.Status.Conditions[0].Reason = metav1.ConditionFalse, v1alpha1.ReasonServicesPending
			},
			want: map[int]finding{3: {fail, "ClusterNetworking cluster is not Ready (ServicesPending): all is well"}},
		},
		"an object that was changed since": {
			spoil: func(i *installation) { i.network.Generation = 4 },
			want:  map[int]finding{3: {fail, "no manager has said anything of ClusterNetworking cluster"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := working(now)
			tc.spoil(&i)
			want := append([]finding{}, good...)
			for place, f := range tc.want {
				want[place] = f
			}
			if diff := cmp.Diff(want, judge(i, now), cmp.AllowUnexported(finding{})); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// working is an installation with nothing wrong.
func working(now time.Time) installation {
	own := metav1.ObjectMeta{Namespace: "lanyard-system", Name: "lanyard-manager"}
	return installation{
		namespace:  &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lanyard-system", Labels: map[string]string{podSecurityLabel: "privileged"}}},
		deployment: &appsv1.Deployment{ObjectMeta: own, Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(2))}, Status: appsv1.DeploymentStatus{AvailableReplicas: 2}},
		lease: &coordinationv1.Lease{ObjectMeta: own, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("lanyard-manager-7"),
			LeaseDurationSeconds: ptr.To(int32(15)), RenewTime: &metav1.MicroTime{Time: now.Add(-14 * time.Second)}}},
		network: &v1alpha1.ClusterNetworking{ObjectMeta: metav1.ObjectMeta{Name: "cluster", Generation: 3}, Status: v1alpha1.ClusterNetworkingStatus{
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady,
				Message: "all is well", ObservedGeneration: 3}}}},
	}
}
