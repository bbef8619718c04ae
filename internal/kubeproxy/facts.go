package kubeproxy

import (
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// Pod is a node's kube-proxy pod.
type Pod struct {
	Name, UID string
	// Created is when the API server took the pod on, by its clock, and Met when the manager saw it first, by its own; zero when that is not
	// known. Found means that it was there when the manager began to look.
	Created, Met time.Time
	Found        bool
	// Started is when its container was started, by the node's clock; zero while it does not run.
	Started time.Time
	Ready   bool
	// Failure says why its container does not stay up, with the end of what it said; empty when it does.
	Failure string
}

// Node is a node and its kube-proxy.
type Node struct {
	Name  string
	Ready bool
	// ControlPlane nodes are restarted after the others.
	ControlPlane bool
	// Announces is how many addresses the node answers for.
	Announces int
	Witness   Witness
	// Mode is what kube-proxy says of itself; empty when it does not answer, and Says then tells why.
	Mode, Says string
	// Settings are what the process runs with; nil when it does not say, as up to Kubernetes 1.35.
	Settings Settings
	// Rules say whether the process has written its rules; empty when that is not known.
	Rules v1alpha1.RulesState
	// Failures is how often it failed to write them.
	Failures int64
	// Untried means that the speaker has not tried connections through the rules that are there now.
	Untried bool
	// Blocked says which connection through the rules the speaker could not make, and why; empty when it could make all.
	Blocked string
	// LooseARP are the interfaces on which the node answers ARP for every address of every Service, as mode ipvs does without strictARP.
	LooseARP []string
	// Residue is what the speaker sees in the kernel of a mode that does not run any more.
	Residue []string
	// Dated means that Mode is known to be of the pod's own process, not of one before it.
	Dated bool
	// Since is since when the node lacks a pod, its speaker's report, or rules that work; zero when it does not, or when that is not known.
	Since time.Time
	// Verified is since when the node has run as asked without a break; zero when it does not, or when that is not known.
	Verified time.Time
	// Away is since when the other nodes are asked to answer for its addresses; zero when they are not.
	Away time.Time
	// Pod is nil while there is none, or while it is being deleted.
	Pod *Pod
	// Left is since when its pod is being deleted, which lasts for as long as a dead node is away, and Missed since when the manager knows that;
	// zero when none is.
	Left, Missed time.Time
}

// Facts are all that a step is decided from. They are read anew each time: what has to outlive the manager stands in the Ledger.
type Facts struct {
	// Spec is nil when kube-proxy is not to be touched.
	Spec *v1alpha1.KubeProxySpec
	// Announcing says whether an L2 advertisement exists; with ipvs it needs strictARP.
	Announcing bool
	Layout     Layout
	// Config is config.conf.
	Config Config
	// Written is when it was last written, by the API server's clock, and Writer by whom. Pods from before are restarted. Zero when it is
	// not known: every pod then counts as having read it, and none is restarted.
	Written time.Time
	Writer  string
	// Image is the cluster's own kube-proxy image.
	Image string
	// Enclosed names the pool that holds the address at which kube-proxy reaches the API server, with the address; empty when none does.
	Enclosed string
	Nodes    []Node
	// OwnNode is the manager's node, whose kube-proxy is restarted last.
	OwnNode string
	// Paused means that nothing is to be done, only said.
	Paused bool
	Now    time.Time
	Ledger Ledger
	// Probes are the probes that exist or have ended, for what Probe asks.
	Probes map[ProbeKey]ProbeResult

	// off are the rules that a test turns off, to see that their absence is noticed.
	off safeguard
}

// safeguard is a rule of the roll that keeps a cluster from harm.
type safeguard int

// The rules.
const (
	probeFirst     safeguard = 1 << iota // no node gets a configuration that it has not shown to run
	oneAtATime                           // no more nodes without kube-proxy than allowed
	canaryFirst                          // the first node is verified before a second is touched
	countUnplanned                       // restarts by others count too
	rollBack                             // after a failure all go back
	tryOnce                              // what was rolled back is not tried again
	byNFTables                           // iptables and ipvs never follow each other
	wholeProof                           // a mode is not proof enough: settings, rules and connections count
	mendFirst                            // a node without kube-proxy comes before those that have one
)

func (f Facts) holds(r safeguard) bool { return f.off&r == 0 }

// Config is config.conf, read.
type Config struct {
	Document string
	// Settings are those of the declared kind.
	Settings Settings
	// Err says why the document cannot be edited.
	Err error
}

// ReadConfig reads config.conf.
func ReadConfig(document string) Config {
	settings, err := Read(document)
	return Config{Document: document, Settings: settings, Err: err}
}
