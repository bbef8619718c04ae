package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// TestAForeignHostIsToldOnce, and again when another one has the address, or when it comes back.
func TestAForeignHostIsToldOnce(t *testing.T) {
	one := v1alpha1.QuarantinedIP{IP: "192.168.1.200", MAC: "02:00:00:00:00:09"}
	another := v1alpha1.QuarantinedIP{IP: "192.168.1.200", MAC: "02:00:00:00:00:0a"}
	heard := one
	heard.Node = "w2"
	var told hosts
	for _, step := range []struct {
		what        string
		seen, fresh []v1alpha1.QuarantinedIP
	}{
		{what: "nobody is there"},
		{"a host is", []v1alpha1.QuarantinedIP{one}, []v1alpha1.QuarantinedIP{one}},
		{what: "another node hears it", seen: []v1alpha1.QuarantinedIP{heard}},
		{"another host is", []v1alpha1.QuarantinedIP{another}, []v1alpha1.QuarantinedIP{another}},
		{what: "it goes"},
		{"it comes back", []v1alpha1.QuarantinedIP{another}, []v1alpha1.QuarantinedIP{another}},
	} {
		var fresh []v1alpha1.QuarantinedIP
		fresh, told = untoldHosts(told, step.seen)
		if diff := cmp.Diff(step.fresh, fresh); diff != "" {
			t.Errorf("%s: told (-want +got):\n%s", step.what, diff)
		}
	}
}

// TestQuarantined speaks of addresses that no Service has.
func TestQuarantined(t *testing.T) {
	foreign := []v1alpha1.QuarantinedIP{
		{IP: "192.168.1.200", MAC: "02:00:00:00:00:09", Node: "w1", Interface: "eth0"},
		{IP: "192.168.1.201", MAC: "02:00:00:00:00:09", Node: "w1", Interface: "eth0"},
	}
	plan := &ipam.Result{Assignments: []ipam.Assignment{{Service: "default/old", Addresses: []ipam.Holding{{Addr: addrs("192.168.1.200")[0]}}}}}
	want := []string{"192.168.1.201 (the host 02:00:00:00:00:09 on the LAN, which w1 hears on eth0, has it)"}
	if diff := cmp.Diff(want, quarantined(foreign, plan)); diff != "" {
		t.Errorf("sentences (-want +got):\n%s", diff)
	}
}
