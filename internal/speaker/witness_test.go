package speaker

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// newTestWitness is the one of w1. What it tells is noted.
func newTestWitness(t *testing.T, dial dialer, objects ...client.Object) (w *witness, told *[]v1alpha1.NodeKubeProxy) {
	t.Helper()
	told = &[]v1alpha1.NodeKubeProxy{}
	config := Config{Node: "w1", Namespace: "lanyard-system", Addr: netip.MustParseAddr("192.168.1.7")}
	s := source{reader: fake.NewClientBuilder().WithObjects(objects...).Build(), namespace: config.Namespace}
	w = newWitness(config, s, testr.New(t), func(heard v1alpha1.NodeKubeProxy) { *told = append(*told, heard) })
	w.dial = dial
	return w, told
}

var (
	passes = []v1alpha1.NodeCheck{{Name: "default/kubernetes", Result: v1alpha1.CheckPassed}}
	fails  = []v1alpha1.NodeCheck{{Name: "default/kubernetes", Result: v1alpha1.CheckFailed}}
)

// TestOnlyChangesAreTold, and a check is told only of the process, and of the rules, that it was made under.
func TestOnlyChangesAreTold(t *testing.T) {
	says := func(start int, rules v1alpha1.RulesState, failures int64) v1alpha1.NodeKubeProxy {
		return v1alpha1.NodeKubeProxy{Mode: "ipvs", StartTime: at(start), Rules: rules, SyncFailures: failures}
	}
	with := func(said v1alpha1.NodeKubeProxy, checks []v1alpha1.NodeCheck) *v1alpha1.NodeKubeProxy {
		said.Checks = checks
		return &said
	}
	pending, written, next := says(7, v1alpha1.RulesPending, 0), says(7, v1alpha1.RulesWritten, 0), says(8, v1alpha1.RulesPending, 0)
	down := v1alpha1.NodeKubeProxy{Message: "kube-proxy does not answer"}
	start := time.Unix(1000, 0)
	w, told := newTestWitness(t, nil)
	before, stage := 0, 0 // the stages when the step before, and this one, began
	for _, step := range []struct {
		what   string
		checks []v1alpha1.NodeCheck // made since the step before began
		late   []v1alpha1.NodeCheck // made since before the step before
		hears  v1alpha1.NodeKubeProxy
		after  time.Duration
		want   *v1alpha1.NodeKubeProxy // what is told; nil when nothing is
	}{
		{what: "checks alone are not told", checks: passes},
		{what: "kube-proxy starts", hears: pending, want: &pending},
		{what: "it says the same", hears: pending},
		{what: "a check fails", checks: fails, want: with(pending, fails)},
		{what: "it fails again", checks: fails},
		{what: "the rules are written: the check is made again", hears: written, want: &written},
		{what: "one that was begun before comes late", late: fails},
		{what: "a check passes", checks: passes, want: with(written, passes)},
		{what: "it says the same, and the check holds", hears: written},
		{what: "it fails to write rules", hears: says(7, v1alpha1.RulesWritten, 1), want: with(says(7, v1alpha1.RulesWritten, 1), passes)},
		{what: "it fails each second", hears: says(7, v1alpha1.RulesWritten, 20), after: failuresEvery - time.Second},
		{what: "that is told now and then", hears: says(7, v1alpha1.RulesWritten, 30), after: time.Second,
			want: with(says(7, v1alpha1.RulesWritten, 30), passes)},
		{what: "it is down: the check is made again", hears: down, want: &down},
		{what: "a check passes by the rules that it left", checks: passes, want: with(down, passes)},
		{what: "another process starts: the check is made again", hears: next, want: &next},
	} {
		*told = nil
		start = start.Add(step.after)
		switch {
		case step.late != nil:
			w.note(before, step.late)
		case step.checks != nil:
			w.note(stage, step.checks)
		default:
			w.hear(step.hears, start)
		}
		before, stage = stage, w.stageNow()
		var want []v1alpha1.NodeKubeProxy
		if step.want != nil {
			want = append(want, *step.want)
		}
		if diff := cmp.Diff(want, *told); diff != "" {
			t.Errorf("%s: told (-want +got):\n%s", step.what, diff)
		}
	}
}

// TestChecksGoOn: every ten seconds while all is well, every two while something is not, and at once when kube-proxy was restarted.
func TestChecksGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &wires{failures: map[string]int{}}
		w, told := newTestWitness(t, net.dial, clusterIP("default", "kubernetes", 443, "10.96.0.1"))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.watchRules(ctx) }()
		tried := func(after time.Duration) int {
			synctest.Wait()
			net.mu.Lock()
			net.tries = 0
			net.mu.Unlock()
			time.Sleep(after)
			synctest.Wait()
			net.mu.Lock()
			defer net.mu.Unlock()
			return net.tries
		}
		w.hear(v1alpha1.NodeKubeProxy{Mode: "ipvs", StartTime: at(7), Rules: v1alpha1.RulesPending}, time.Now())
		synctest.Wait()
		if diff := cmp.Diff(passes, (*told)[len(*told)-1].Checks); diff != "" {
			t.Errorf("the first check (-want +got):\n%s", diff)
		}
		if n := tried(20 * time.Second); n != 10 {
			t.Errorf("while rules are to be written it was made %d times in 20 seconds, want 10", n)
		}
		w.hear(v1alpha1.NodeKubeProxy{Mode: "ipvs", StartTime: at(7), Rules: v1alpha1.RulesWritten}, time.Now())
		if n := tried(20*time.Second + time.Millisecond); n != 2 {
			t.Errorf("while all is well it was made %d times in 20 seconds, want 2", n)
		}
		net.mu.Lock()
		net.failures["10.96.0.1:443"] = 1000
		net.mu.Unlock()
		tried(10 * time.Second)
		if n := tried(20 * time.Second); n != 10*checkTries {
			t.Errorf("while it fails %d connections were tried in 20 seconds, want %d", n, 10*checkTries)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

// TestAKernelThatCannotBeReadIsLoggedOnce, and nothing is said of it.
func TestAKernelThatCannotBeReadIsLoggedOnce(t *testing.T) {
	w, _ := newTestWitness(t, nil, clusterIP("default", "kubernetes", 443, "10.96.0.1"))
	lines := 0
	w.log = funcr.New(func(string, string) { lines++ }, funcr.Options{})
	var left traces
	for _, step := range []struct {
		k    kernel
		err  error
		want traces
	}{
		{err: errors.New("no netlink here"), want: traces{complaint: "no netlink here"}},
		{err: errors.New("no netlink here"), want: traces{complaint: "no netlink here"}},
		{k: kernel{linkAddresses: -1, virtual: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, sysctls: map[string]string{"a": "1"}},
			want: traces{sysctls: map[string]string{"a": "1"}, residue: []string{
				"mode ipvs left 1 virtual services for ClusterIPs in the kernel's IPVS table: run `kube-proxy --cleanup` on the node and restart its " +
					"kube-proxy, whose rules go with it, or reboot the node"}}},
	} {
		w.look = func() (kernel, error) { return step.k, step.err }
		left = w.traces(t.Context(), "iptables", left)
		if diff := cmp.Diff(step.want, left, cmp.AllowUnexported(traces{})); diff != "" {
			t.Errorf("traces (-want +got):\n%s", diff)
		}
	}
	if lines != 1 {
		t.Errorf("it was logged %d times, want once", lines)
	}
}

// TestKubeProxyIsAskedWhereTheConfigurationSays, and when the speaker ends its silence is not told as kube-proxy's.
func TestKubeProxyIsAskedWhereTheConfigurationSays(t *testing.T) {
	f := newFakeProxy(t)
	f.mode, f.metrics, f.configz = "ipvs", started(7)+written, configz
	heard := make(chan v1alpha1.NodeKubeProxy, 10)
	w, _ := newTestWitness(t, nil)
	w.tell = func(said v1alpha1.NodeKubeProxy) { heard <- said }
	w.look = func() (kernel, error) {
		return kernel{linkAddresses: 1, answering: []string{"eth0"}, sysctls: map[string]string{"net.ipv4.conf.all.route_localnet": "1"}}, nil
	}
	w.askAt(f.address())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.watchProxy(ctx) }()
	want := v1alpha1.NodeKubeProxy{Mode: "ipvs", StartTime: at(7), Rules: v1alpha1.RulesWritten, Settings: settingsInConfigz,
		Sysctls:  map[string]string{"net.ipv4.conf.all.route_localnet": "1"},
		LooseARP: []string{"eth0"}}
	select {
	case got := <-heard:
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it tells nothing")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	if len(heard) > 0 {
		t.Errorf("its last word is %+v", <-heard)
	}
}
