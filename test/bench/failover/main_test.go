package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/bpf"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestOptions(t *testing.T) {
	type chosen struct {
		Products, Faults, Placements []string
		Cuts, Silent, Controls       int
	}
	for name, tc := range map[string]struct {
		args []string
		want chosen
	}{
		"the order is that of the list": {
			args: []string{"--products=metallb,lanyard", "--faults=drain,cut", "--placements=spread,survivors"},
			want: chosen{[]string{"metallb", "lanyard"}, []string{"drain", "cut"}, []string{"spread", "survivors"}, 20, 20, 3}},
		"silent cuts and controls are counted by themselves": {
			args: []string{"--faults=cut-silent", "--n=2", "--n-silent=200", "--n-control=1"},
			want: chosen{[]string{"lanyard"}, []string{"cut-silent"}, []string{"survivors"}, 2, 200, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parseOptions(tc.args)
			if err != nil {
				t.Fatal(err)
			}
			got := chosen{Placements: o.placements, Cuts: o.count(fault{name: "cut"}), Silent: o.count(fault{name: silentCut}), Controls: o.count(fault{name: control})}
			for _, p := range o.products {
				got.Products = append(got.Products, p.name)
			}
			for _, f := range o.faults {
				got.Faults = append(got.Faults, f.name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("chosen (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, bad := range []string{"--products=other", "--faults=", "--placements=nowhere", "--vips=0", "--vips=1001", "--n=-1", "--n=many"} {
		if _, err := parseOptions([]string{bad}); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

func TestEveryFaultIsBounded(t *testing.T) {
	for _, f := range everyFault {
		if f.atLeast <= 0 || f.atMost <= f.atLeast || f.atMost > runLimit || f.inflict == nil {
			t.Errorf("%s is watched from %s to %s", f.name, f.atLeast, f.atMost)
		}
	}
}

func TestServices(t *testing.T) {
	var names []string
	ports, backends := 0, map[string]int{}
	for _, manifest := range strings.Split(services(1000), "---\n")[1:] {
		var s corev1.Service
		if err := yaml.UnmarshalStrict([]byte(manifest), &s); err != nil {
			t.Fatal(err)
		}
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyCluster {
			t.Fatalf("%s is a %s, %s", s.Name, s.Spec.Type, s.Spec.ExternalTrafficPolicy)
		}
		names = append(names, s.Name)
		ports += len(s.Spec.Ports)
		backends[s.Spec.Selector["app"]]++
	}
	if len(names) != 1000 || ports != 1001 || names[0] != "echo-0" || names[999] != "echo-999" {
		t.Errorf("%d Services, %s to %s, have %d ports", len(names), names[0], names[len(names)-1], ports)
	}
	if diff := cmp.Diff(map[string]int{"echo": 1 + sampled, "still": 999 - sampled}, backends); diff != "" {
		t.Errorf("Services by their backends (-want +got):\n%s", diff)
	}
}

func TestAwaitTellsWhatWasMissing(t *testing.T) {
	err := await(context.Background(), "rain", 10*time.Millisecond, func(context.Context) error { return errors.New("the sun shines") })
	if err == nil || !strings.Contains(err.Error(), "rain") || !strings.Contains(err.Error(), "the sun shines") {
		t.Errorf("the error is %v", err)
	}
}

// TestReplyFilterHasItsEnds: a jump that misses its mark lets all pass, or nothing.
func TestReplyFilterHasItsEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		protocol byte
		port     uint16
		want     bool
	}{
		"a reply passes":            {protocol: 17, port: 7007, want: true},
		"another datagram does not": {protocol: 17, port: 53},
		"a connection's does not":   {protocol: 6, port: 7007},
	} {
		t.Run(name, func(t *testing.T) {
			frame := make([]byte, 60)
			frame[14], frame[23], frame[34], frame[35] = 0x45, tc.protocol, byte(tc.port>>8), byte(tc.port)
			vm, err := bpf.NewVM(onlyReplies)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := vm.Run(frame); err != nil || (n > 0) != tc.want {
				t.Errorf("%d bytes pass, %v", n, err)
			}
		})
	}
}

// TestOneBenchmarkALab: two that inflict faults at once measure each other's.
func TestOneBenchmarkALab(t *testing.T) {
	lock, err := lockLab(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const want = "another benchmark runs on this lab: wait until it has ended, or end it"
	if _, err := lockLab(t.Context()); err == nil || err.Error() != want {
		t.Errorf("locked a second time: %v, want %q", err, want)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lockLab(t.Context())
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	_ = again.Close()
}
