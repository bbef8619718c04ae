package kubeproxy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// fault is what becomes of a machine's kube-proxy in the new mode.
type fault int

const (
	sound     fault = iota
	crashes         // it exits, and kubelet tries again
	fallsBack       // it runs in the old mode instead
	hangs           // its container never starts
)

// machine is a simulated node: what the manager is told of it, and what is true.
type machine struct {
	Node
	fault fault
	// runs is the mode of the living process; empty while there is none.
	runs string
	// starts is when the pod's process starts, or is tried again.
	starts time.Time
	// process is when the living process was started, by the node's clock, which is off by skew.
	process time.Time
	skew    time.Duration
	// said is the last report of the node's speaker; a mute one has died behind it.
	said v1alpha1.NodeKubeProxy
	mute bool
	// restarted says that the plan has restarted it since the last write, and nobody else since then.
	restarted bool
	restarts  int
}

// cluster is a simulated cluster under the plan, second by second.
type cluster struct {
	Facts
	t        *testing.T
	rng      *rand.Rand
	machines []*machine
	// before is config.conf before the last write: a kubelet may hand it out for a while.
	before string
	writes int
	// calm ends the disturbances from outside.
	calm  bool
	waits Waits
}

// newCluster makes 1 to 7 nodes that run iptables; some cannot run anything else. Without speakers, only what a pod shows can be found out.
func newCluster(t *testing.T, seed uint64) *cluster {
	c := &cluster{t: t, rng: rand.New(rand.NewPCG(seed, 3)), waits: Waits{}}
	c.Facts = Facts{Spec: &v1alpha1.KubeProxySpec{}, Layout: Layout{Managed: true}, Document: config(`""`), Now: at(0), Announcing: true}
	witness, faults := Reporting, []fault{crashes, fallsBack, hangs}
	if c.rng.IntN(4) == 0 {
		witness, faults = NoSpeaker, []fault{crashes, hangs}
	}
	faulty := c.rng.IntN(2) == 0
	for i := range 1 + c.rng.IntN(7) {
		m := &machine{Node: node(fmt.Sprintf("n%d", i), "", at(-1000)), runs: "iptables", skew: time.Duration(c.rng.IntN(7200)-3600) * time.Second}
		m.process = at(-1000).Add(m.skew)
		m.Pod.Started = m.process
		if m.Witness = NoSpeaker; witness == Reporting {
			m.Witness = Silent
			m.report()
			m.mute = c.rng.IntN(12) == 0
		}
		if faulty && c.rng.IntN(3) == 0 {
			m.fault = faults[c.rng.IntN(len(faults))]
		}
		c.machines = append(c.machines, m)
	}
	c.OwnNode = "n0"
	return c
}

func (c *cluster) hits(oneIn int) bool { return c.rng.IntN(oneIn) == 0 }

// live lets a second pass on a machine.
func (c *cluster) live(m *machine) {
	switch {
	case !m.Ready:
		m.Ready = c.calm || c.hits(20)
	case !c.calm && c.hits(80):
		m.Ready = false
	case !c.calm && c.hits(300): // somebody else restarts it
		m.Pod, m.runs, m.restarted = nil, "", false
	case m.Pod == nil:
		if c.hits(2) {
			m.Pod = &Pod{Name: "kube-proxy-" + m.Name, UID: fmt.Sprint(m.Name, c.Now.Unix()), Created: c.Now}
			m.starts = c.Now.Add(time.Duration(c.rng.IntN(30)) * time.Second)
		}
	case m.runs == "" && !c.Now.Before(m.starts):
		c.start(m)
	}
	if m.Ready && !m.mute && m.Witness == Silent && c.hits(2) {
		m.report()
	}
}

// report lets a machine's speaker ask its kube-proxy.
func (m *machine) report() {
	m.said = v1alpha1.NodeKubeProxy{Message: "kube-proxy does not answer: connection refused"}
	if m.runs != "" {
		m.said = v1alpha1.NodeKubeProxy{Mode: m.runs, StartTime: &metav1.Time{Time: m.process}}
	}
}

// start starts a machine's kube-proxy on the configuration that its kubelet has.
func (c *cluster) start(m *machine) {
	document := c.Document
	if m.Witness == Silent && m.Pod.Failure == "" && c.Now.Sub(c.Written) < time.Minute && c.hits(4) {
		document = c.before
	}
	mode, err := Mode(document)
	if err != nil {
		c.t.Fatal(err)
	}
	mode = Effective(mode)
	switch fault := m.fault; {
	case mode == "iptables" || fault == sound:
		m.runs = mode
	case fault == fallsBack:
		m.runs = "iptables"
	case fault == crashes:
		m.Pod.Failure, m.starts = "CrashLoopBackOff, exit code 1: no such module", c.Now.Add(20*time.Second)
		return
	case fault == hangs:
		return
	}
	m.process = c.Now.Add(m.skew)
	m.Pod.Ready, m.Pod.Failure, m.Pod.Started = true, "", m.process.Add(time.Duration(c.rng.IntN(4))*time.Second)
}

// step lets a second pass, asks for a decision and follows it.
func (c *cluster) step() Decision {
	c.Now = c.Now.Add(time.Second)
	c.Nodes = nil
	for _, m := range c.machines {
		c.live(m)
		told := m.Node
		if m.Pod != nil {
			pod := *m.Pod
			told.Pod = &pod
		}
		c.Nodes = append(c.Nodes, told.Hear(m.said))
	}
	c.waits.Mark(c.Nodes, c.Now)
	d := Plan(c.Facts)
	c.checkDecision(d)
	switch d.Action {
	case Write:
		c.before, c.Document, c.Written = c.Document, d.Edited, c.Now
		c.writes++
		for _, m := range c.machines {
			m.restarted, m.restarts = false, 0
		}
	case Restart:
		i := slices.IndexFunc(c.machines, func(m *machine) bool { return m.Pod != nil && m.Pod.UID == d.Restart.UID })
		m := c.machines[i]
		c.checkRestart(m)
		m.Pod, m.runs, m.restarted = nil, "", true
		m.restarts++
	case Rest, Wait:
	}
	return d
}

// checkDecision checks what holds for every decision.
func (c *cluster) checkDecision(d Decision) {
	reasons := map[Progress][]string{Done: {v1alpha1.ReasonReady}, Underway: {v1alpha1.ReasonRollingOut}, Stuck: {v1alpha1.ReasonRolloutStalled}}
	if !slices.Contains(reasons[d.Progress], d.Reason) || d.Message == "" || strings.Contains(d.Message, "\n") {
		c.t.Errorf("the decision says %q and %q", d.Reason, d.Message)
	}
	if d.Progress == Stuck && (d.Action != Wait || !strings.Contains(d.Message, "Set spec.kubeProxy.mode to") &&
		!strings.Contains(d.Message, "See whether the speaker there runs")) {
		c.t.Errorf("a stalled roll acts, or names no remedy: %+v", d)
	}
	if d.Action == Write && (len(d.Changes) == 0 || d.Edited == c.Document) {
		c.t.Errorf("a write without a difference: %+v", d)
	}
	if (d.Action == Wait || d.Action == Restart) && d.After <= 0 {
		c.t.Errorf("nobody looks again: %+v", d)
	}
	for _, m := range c.machines { // what others restart, the speaker reports a moment later
		if d.Progress == Done && (m.restarted || m.runs != "") && m.runs != string(c.Spec.Mode) {
			c.t.Errorf("done, and %s runs %q", m.Name, m.runs)
		}
	}
	shuffled := c.Facts
	shuffled.Nodes = slices.Clone(c.Nodes)
	c.rng.Shuffle(len(shuffled.Nodes), func(i, j int) {
		shuffled.Nodes[i], shuffled.Nodes[j] = shuffled.Nodes[j], shuffled.Nodes[i]
	})
	if diff := cmp.Diff(d, Plan(shuffled)); diff != "" {
		c.t.Errorf("the order of nodes matters (-first +second):\n%s", diff)
	}
}

// checkRestart checks that nothing else is at risk when a machine's kube-proxy is restarted. A node that went away before its new pod
// was there never ran the new configuration, so it does not count.
func (c *cluster) checkRestart(target *machine) {
	for _, m := range c.machines {
		if m != target && m.restarted && m.runs != string(c.Spec.Mode) && (m.Ready || m.Pod != nil) {
			c.t.Errorf("%s is restarted while %s runs %q after its restart", target.Name, m.Name, m.runs)
		}
	}
	if !target.Ready {
		c.t.Errorf("%s is restarted and is not Ready", target.Name)
	}
	most := 1 + int(staleFor/staleAfter)
	if target.mute { // nobody says that its kube-proxy runs the old mode
		most = 1
	}
	if target.restarts >= most {
		c.t.Errorf("%s is restarted more than %d times", target.Name, most)
	}
	old := func(m *machine) bool {
		return m.Ready && m.Pod != nil && m.Pod.Created.Before(c.Written) && m.said.Mode != string(c.Spec.Mode)
	}
	if others := slices.DeleteFunc(slices.Clone(c.machines), func(m *machine) bool { return m == target }); target.Name == c.OwnNode &&
		old(target) && slices.ContainsFunc(others, old) {
		c.t.Errorf("the manager's own %s is restarted before the others", target.Name)
	}
}

// roll asks for a mode and lets the cluster live: some minutes of disturbance, then calm, until the plan is done or time is up.
func (c *cluster) roll(mode v1alpha1.ProxyMode) Decision {
	c.Spec, c.writes, c.calm = &v1alpha1.KubeProxySpec{Mode: mode}, 0, false
	var last Decision
	for second := 0; second < 1000 && !c.t.Failed(); second++ {
		c.calm = second > 150
		if last = c.step(); c.calm && last.Progress == Done {
			break
		}
		if last.Progress == Stuck && second > 600 {
			break
		}
	}
	if c.writes != 1 {
		c.t.Errorf("config.conf was written %d times for one change", c.writes)
	}
	return last
}

// TestRollSimulation rolls clusters with slow pods, nodes that come and go, old content, restarts by others, clocks that differ,
// speakers that have died behind their last report, and nodes that cannot run the new mode. The roll ends where every node can run it, and
// stalls where one cannot or nobody says so, with one node at risk at most; going back to the old mode then mends everything.
func TestRollSimulation(t *testing.T) {
	stalled := 0
	for seed := range uint64(30) {
		c := newCluster(t, seed)
		mode := []v1alpha1.ProxyMode{v1alpha1.ProxyModeNFTables, v1alpha1.ProxyModeIPVS}[c.rng.IntN(2)]
		d := c.roll(mode)
		faulty := slices.ContainsFunc(c.machines, func(m *machine) bool { return m.fault != sound || m.mute })
		if want := map[bool]Progress{false: Done, true: Stuck}[faulty]; d.Progress != want {
			t.Errorf("with faulty nodes %v, the roll to %s ends in: %s", faulty, mode, d.Message)
		}
		if d.Progress == Stuck {
			stalled++
		}
		for _, m := range c.machines {
			m.mute = false
		}
		if d := c.roll(v1alpha1.ProxyModeIPTables); d.Progress != Done {
			t.Errorf("the way back to iptables ends in: %s", d.Message)
		}
		if t.Failed() {
			t.Fatalf("at seed %d, second %d", seed, int(c.Now.Sub(at(0)).Seconds()))
		}
	}
	if stalled < 5 {
		t.Errorf("only %d of 30 rolls stalled: the simulation is too kind", stalled)
	}
}
