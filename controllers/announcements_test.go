package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// TestArrivals: Services are told once which node answers for their addresses, and why it is another than before.
func TestArrivals(t *testing.T) {
	const ip = "192.168.1.200"
	by := func(node string, m *v1alpha1.AddressMove) v1alpha1.AllocatedIP {
		return v1alpha1.AllocatedIP{IP: ip, Services: []string{"default/web"}, Node: node, Interface: "eth0", LastMove: m}
	}
	silent := &v1alpha1.AddressMove{From: "w1", Reason: v1alpha1.MoveNodeSilent, FailoverMilliseconds: 412}
	stopped := &v1alpha1.AddressMove{From: "w2", Reason: v1alpha1.MoveSpeakerStopped}
	told := func(reason, message string) []news { return []news{{[]string{"default/web"}, reason, message}} }
	var known announcers
	for _, step := range []struct {
		what string
		all  []v1alpha1.AllocatedIP
		want []news
	}{
		{"the manager starts: what it finds is no news", []v1alpha1.AllocatedIP{by("w9", nil)}, nil},
		{"the Service is gone", nil, nil},
		{"a Service has an address that nobody announces yet", []v1alpha1.AllocatedIP{by("", nil)}, nil},
		{"a node announces it", []v1alpha1.AllocatedIP{by("w1", &v1alpha1.AddressMove{Reason: v1alpha1.MoveUnowned})},
			told("AddressAnnounced", "192.168.1.200 is announced by w1 on eth0")},
		{"nothing has changed", []v1alpha1.AllocatedIP{by("w1", nil)}, nil},
		{"nobody does for a moment", []v1alpha1.AllocatedIP{by("", nil)}, nil},
		{"another node does", []v1alpha1.AllocatedIP{by("w2", silent)},
			told("AddressMoved", "192.168.1.200 moved from w1 to w2, on eth0: the speaker of w1 is not heard any more; nobody answered for 412 ms at most")},
		{"it moves on as planned", []v1alpha1.AllocatedIP{by("w3", stopped)},
			told("AddressMoved", "192.168.1.200 moved from w2 to w3, on eth0: the speaker of w2 was ended")},
		{"a speaker that does not know why", []v1alpha1.AllocatedIP{by("w1", &v1alpha1.AddressMove{Reason: v1alpha1.MoveUnowned})},
			told("AddressMoved", "192.168.1.200 moved from w3 to w1, on eth0")},
	} {
		var got []news
		got, known = arrivals(known, step.all)
		if diff := cmp.Diff(step.want, got, cmp.AllowUnexported(news{})); diff != "" {
			t.Errorf("%s: told (-want +got):\n%s", step.what, diff)
		}
	}
}

// TestEveryMoveHasASentence that a person understands.
func TestEveryMoveHasASentence(t *testing.T) {
	for _, reason := range []v1alpha1.MoveReason{v1alpha1.MoveNodeSilent, v1alpha1.MoveNoInterface, v1alpha1.MoveNetworkUnavailable,
		v1alpha1.MoveNotSelected, v1alpha1.MoveNoEndpoint, v1alpha1.MoveUnlisted, v1alpha1.MoveExcluded, v1alpha1.MoveKubeProxyRestart,
		v1alpha1.MoveSpeakerStopped, v1alpha1.MoveGivenUp} {
		if moveReasons[reason] == "" {
			t.Errorf("%s has none", reason)
		}
	}
}
