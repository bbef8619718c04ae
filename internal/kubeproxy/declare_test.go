package kubeproxy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

func TestDeclared(t *testing.T) {
	on, off := true, false
	for name, tc := range map[string]struct {
		spec       v1alpha1.KubeProxySpec
		announcing bool
		mode       string
		want       Fields
	}{
		"an empty section declares nothing": {mode: "iptables"},
		"every setting, in order": {
			spec: v1alpha1.KubeProxySpec{
				Mode: "ipvs",
				IPVS: v1alpha1.KubeProxyIPVS{Scheduler: "lc", StrictARP: &off, ExcludeCIDRs: []v1alpha1.ExcludedCIDR{"10.9.0.0/16"},
					TCPTimeout: "15m", TCPFinTimeout: "2m", UDPTimeout: "300s"},
				NodePortAddresses: []v1alpha1.NodePortAddress{"primary"}, Conntrack: v1alpha1.KubeProxyConntrack{TCPBeLiberal: &on},
				MetricsBindAddress: "0.0.0.0:10249", ClusterCIDR: "10.244.0.0/16",
			},
			announcing: true, mode: "ipvs",
			want: Fields{
				{PathMode, "ipvs"}, {PathScheduler, "lc"}, {PathStrictARP, false}, {PathExcludeCIDRs, []string{"10.9.0.0/16"}},
				{PathTCPTimeout, "15m"}, {PathTCPFinTimeout, "2m"}, {PathUDPTimeout, "300s"}, {PathNodePortAddresses, []string{"primary"}},
				{PathTCPBeLiberal, true}, {PathMetricsBindAddress, "0.0.0.0:10249"}, {PathClusterCIDR, "10.244.0.0/16"},
			},
		},
		"an empty list is declared": {
			spec: v1alpha1.KubeProxySpec{NodePortAddresses: []v1alpha1.NodePortAddress{}}, want: Fields{{PathNodePortAddresses, []string{}}},
		},
		"strictARP comes with ipvs and announcements, also where the spec leaves the mode open": {
			announcing: true, mode: "ipvs", want: Fields{{PathStrictARP, true}},
		},
		"not without announcements": {mode: "ipvs"},
		"not in another mode":       {announcing: true, mode: "nftables"},
		"nor against the spec": {
			spec: v1alpha1.KubeProxySpec{IPVS: v1alpha1.KubeProxyIPVS{StrictARP: &off}}, announcing: true, mode: "ipvs",
			want: Fields{{PathStrictARP, false}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Declared(&tc.spec, tc.announcing, tc.mode)); diff != "" {
				t.Errorf("declared fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAgainst(t *testing.T) {
	for name, tc := range map[string]struct {
		want  Fields
		found Settings
		// open is the mode that no mode means; empty: iptables.
		open string
		diff []Change
	}{
		"what is as declared": {want: Fields{{PathMode, "ipvs"}, {PathStrictARP, true}}, found: Settings{PathMode: "ipvs", PathStrictARP: "true"}},
		"what is not, in order": {
			want:  Fields{{PathMode, "nftables"}, {PathScheduler, "lc"}, {PathNodePortAddresses, []string{"primary", "10.0.0.0/8"}}},
			found: Settings{PathMode: "ipvs", PathNodePortAddresses: "primary"},
			diff: []Change{
				{"mode", "ipvs", "nftables"}, {"ipvs.scheduler", "(absent)", "lc"}, {"nodePortAddresses", "primary", "[primary, 10.0.0.0/8]"},
			},
		},
		"what is not declared counts nothing": {want: Fields{{PathMode, "ipvs"}}, found: Settings{PathMode: "ipvs", PathScheduler: "lc"}},
		"a zero value is the same as none": {
			want: Fields{{PathStrictARP, false}, {PathTCPTimeout, "0s"}, {PathExcludeCIDRs, []string{}}, {PathClusterCIDR, ""}},
		},
		"no mode is iptables":                   {want: Fields{{PathMode, "iptables"}}},
		"from 1.40 no mode is nftables":         {want: Fields{{PathMode, "nftables"}}, open: nftables},
		"and is not iptables any more":          {want: Fields{{PathMode, "iptables"}}, open: nftables, diff: []Change{{"mode", "(absent)", "iptables"}}},
		"a mode left open is iptables":          {want: Fields{{PathMode, ""}}, found: Settings{PathMode: "iptables"}},
		"a time may be written in another unit": {want: Fields{{PathTCPTimeout, "900s"}}, found: Settings{PathTCPTimeout: "15m0s"}},
		"a list has no order": {
			want: Fields{{PathExcludeCIDRs, []string{"10.8.0.0/16", "10.9.0.0/16"}}}, found: Settings{PathExcludeCIDRs: "10.9.0.0/16,10.8.0.0/16"},
		},
		"nftables has the primary addresses by itself": {
			want: Fields{{PathMode, "nftables"}, {PathNodePortAddresses, []string{}}}, found: Settings{PathMode: "nftables", PathNodePortAddresses: "primary"},
		},
		"iptables has all addresses by itself": {
			want: Fields{{PathNodePortAddresses, []string{}}}, found: Settings{PathMode: "iptables", PathNodePortAddresses: "primary"},
			diff: []Change{{"nodePortAddresses", "primary", "[]"}},
		},
		"a process spells out where it serves its metrics": {
			want: Fields{{PathMetricsBindAddress, ""}}, found: Settings{PathMetricsBindAddress: "127.0.0.1:10249"},
		},
		"so does one whose addresses are IPv6": {
			want: Fields{{PathMetricsBindAddress, ""}}, found: Settings{PathMetricsBindAddress: "[::1]:10249"},
		},
		"and the port of an address that has none": {
			want: Fields{{PathMetricsBindAddress, "0.0.0.0"}}, found: Settings{PathMetricsBindAddress: "0.0.0.0:10249"},
		},
		"the loopback may be declared where nothing is written": {want: Fields{{PathMetricsBindAddress, "127.0.0.1:10249"}}},
		"metrics are served elsewhere": {
			want: Fields{{PathMetricsBindAddress, ""}}, found: Settings{PathMetricsBindAddress: "0.0.0.0:10249"},
			diff: []Change{{"metricsBindAddress", "0.0.0.0:10249", `""`}},
		},
		"an address that is none is only equal to itself": {
			want: Fields{{PathMetricsBindAddress, ""}}, found: Settings{PathMetricsBindAddress: "localhost"},
			diff: []Change{{"metricsBindAddress", "localhost", `""`}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			open := iptables
			if tc.open != "" {
				open = tc.open
			}
			if diff := cmp.Diff(tc.diff, tc.want.Against(tc.found, open)); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFieldsOf(t *testing.T) {
	settings := Settings{PathMode: "ipvs", PathStrictARP: "true", PathExcludeCIDRs: "10.9.0.0/16,fd00::/64", PathTCPTimeout: "15m0s"}
	want := Fields{
		{PathMode, "ipvs"}, {PathScheduler, ""}, {PathStrictARP, true}, {PathExcludeCIDRs, []string{"10.9.0.0/16", "fd00::/64"}},
		{PathTCPTimeout, "15m0s"}, {PathTCPFinTimeout, "0s"}, {PathUDPTimeout, "0s"}, {PathNodePortAddresses, []string{}},
		{PathTCPBeLiberal, false}, {PathMetricsBindAddress, ""}, {PathClusterCIDR, ""},
	}
	got := FieldsOf(settings, Paths)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(settings, got.Settings()); diff != "" {
		t.Errorf("settings of the fields (-want +got):\n%s", diff)
	}
}

func TestWith(t *testing.T) {
	f := Fields{{PathMode, "ipvs"}, {PathClusterCIDR, "10.244.0.0/16"}}
	for name, tc := range map[string]struct{ got, want Fields }{
		"another value": {f.With(PathMode, "nftables"), Fields{{PathMode, "nftables"}, {PathClusterCIDR, "10.244.0.0/16"}}},
		"one more":      {f.With(PathStrictARP, true), Fields{{PathMode, "ipvs"}, {PathStrictARP, true}, {PathClusterCIDR, "10.244.0.0/16"}}},
		"the first":     {Fields(nil).With(PathMode, "ipvs"), Fields{{PathMode, "ipvs"}}},
		"the original":  {f, Fields{{PathMode, "ipvs"}, {PathClusterCIDR, "10.244.0.0/16"}}},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
