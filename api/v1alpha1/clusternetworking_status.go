package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AllocatedIPsLimit is how many addresses status.allocatedIPs lists; the others are counted in allocatedIPsOmitted. It keeps
// the object well below the 1.5 MiB that etcd stores.
const AllocatedIPsLimit = 500

// ClusterNetworkingStatus is the network that is.
type ClusterNetworkingStatus struct {
	// ObservedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready (the summary), KubeProxyReady, IPPoolsReady, SpeakersReady, Progressing and Degraded; and KubeProxyDeprecated while
	// a coming version of Kubernetes ends the way in which kube-proxy runs.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// KubeProxy is how kube-proxy runs on the nodes.
	// +optional
	KubeProxy KubeProxyStatus `json:"kubeProxy,omitzero"`

	// Addresses sums up the pools.
	// +optional
	Addresses AddressSummary `json:"addresses,omitzero"`

	// Speakers counts the speakers.
	// +optional
	Speakers SpeakersStatus `json:"speakers,omitzero"`

	// IPPools is how far each pool is used.
	// +optional
	// +listType=map
	// +listMapKey=name
	IPPools []IPPoolStatus `json:"ipPools,omitempty"`

	// QuarantinedIPs are addresses of the pools that foreign hosts on the LAN have, in order. The first 100 are listed.
	// +optional
	// +listType=map
	// +listMapKey=ip
	QuarantinedIPs []QuarantinedIP `json:"quarantinedIPs,omitempty"`

	// AllocatedIPs are the addresses that Services have, in order, with the node that answers for each. The first 500 are
	// listed.
	// +optional
	// +listType=map
	// +listMapKey=ip
	AllocatedIPs []AllocatedIP `json:"allocatedIPs,omitempty"`

	// AllocatedIPsOmitted is how many further addresses are allocated but not listed.
	// +optional
	AllocatedIPsOmitted int32 `json:"allocatedIPsOmitted,omitempty"`
}

// KubeProxyStatus is how kube-proxy runs on the nodes.
type KubeProxyStatus struct {
	// Mode is the mode that kube-proxy itself reports, with numbers of nodes while they differ ("iptables (2), nftables (1)").
	// +optional
	Mode string `json:"mode,omitempty"`
	// DesiredMode is the mode that the spec asks for. Empty means: the one that the cluster has.
	// +optional
	DesiredMode ProxyMode `json:"desiredMode,omitempty"`
	// ObservedModes are the modes that were found, with the nodes that run each.
	// +optional
	// +listType=map
	// +listMapKey=mode
	ObservedModes []ObservedMode `json:"observedModes,omitempty"`
	// UpdatedNodes is how many nodes run kube-proxy as the spec asks.
	// +optional
	UpdatedNodes int32 `json:"updatedNodes,omitempty"`
	// TotalNodes is how many nodes run kube-proxy.
	// +optional
	TotalNodes int32 `json:"totalNodes,omitempty"`
	// Phase is what is being done.
	// +optional
	Phase KubeProxyPhase `json:"phase,omitempty"`
	// PlannedDiff is what will change in config.conf, or would while paused: a line for each field.
	// +optional
	PlannedDiff string `json:"plannedDiff,omitempty"`
	// LastFailure is the failure because of which what the spec asks for was not done, or not kept. It is cleared when the spec
	// changes.
	// +optional
	LastFailure *KubeProxyFailure `json:"lastFailure,omitempty"`
	// Warnings are what could go wrong with the mode, and what to do. What an upgrade ends is in the condition KubeProxyDeprecated.
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`
}

// KubeProxyPhase is what is being done to kube-proxy.
//
// +kubebuilder:validation:Enum=Idle;Planned;Preflight;Canary;Rolling;Inspecting;RollingBack;Stalled
type KubeProxyPhase string

// The phases, in the order in which a change goes through them.
const (
	// PhaseIdle: nothing is to be done.
	PhaseIdle KubeProxyPhase = "Idle"
	// PhasePlanned: a change is known and waits, because the roll is paused or the cluster cannot take it now.
	PhasePlanned KubeProxyPhase = "Planned"
	// PhasePreflight: each node is asked, in a pod of its own, whether it can run the new configuration. Nothing is written yet.
	PhasePreflight KubeProxyPhase = "Preflight"
	// PhaseCanary: the new configuration is written, and the first node runs it.
	PhaseCanary KubeProxyPhase = "Canary"
	// PhaseRolling: the first node has shown that it works, the others follow.
	PhaseRolling KubeProxyPhase = "Rolling"
	// PhaseInspecting: every node runs it, and is searched for what the mode before may have left.
	PhaseInspecting KubeProxyPhase = "Inspecting"
	// PhaseRollingBack: a node failed, and all go back to the last configuration that worked.
	PhaseRollingBack KubeProxyPhase = "RollingBack"
	// PhaseStalled: nothing goes on without a person.
	PhaseStalled KubeProxyPhase = "Stalled"
)

// KubeProxyFailure is a failure that ended a change of kube-proxy.
type KubeProxyFailure struct {
	// Node is where it happened.
	// +optional
	Node string `json:"node,omitempty"`
	// Phase is when it happened.
	// +optional
	Phase KubeProxyPhase `json:"phase,omitempty"`
	// Message says what failed, with the end of kube-proxy's log where there is one.
	Message string `json:"message"`
}

// ObservedMode is a kube-proxy mode and the nodes that run it.
type ObservedMode struct {
	// Mode is what kube-proxy's /proxyMode says, or "unknown" where no speaker could ask it.
	Mode string `json:"mode"`
	// Nodes are the names of the nodes, in order.
	// +listType=set
	Nodes []string `json:"nodes"`
}

// AddressSummary sums up all pools. Numbers are text because an IPv6 pool holds more than an integer can.
type AddressSummary struct {
	// Used is how many addresses Services have.
	// +optional
	Used string `json:"used,omitempty"`
	// Free is how many addresses nobody has: neither a Service of Lanyard's nor anybody else that is known, such as a node.
	// +optional
	Free string `json:"free,omitempty"`
}

// SpeakersStatus counts the speakers.
type SpeakersStatus struct {
	// Desired is how many nodes should run a speaker.
	// +optional
	Desired int32 `json:"desired,omitempty"`
	// Ready is how many speakers are ready.
	// +optional
	Ready int32 `json:"ready,omitempty"`
	// Summary is Ready and Desired as one text ("3/3").
	// +optional
	Summary string `json:"summary,omitempty"`
}

// IPPoolStatus is how far a pool is used. Numbers are text because an IPv6 pool holds more than an integer can.
type IPPoolStatus struct {
	// Name is the pool's name.
	Name string `json:"name"`
	// Total is how many addresses the pool gives: without those that are excluded, and those that no pool gives, such as a subnet's broadcast address.
	Total string `json:"total"`
	// Allocated is how many of them Services have.
	Allocated string `json:"allocated"`
	// Available is how many of them nobody has. What somebody else has, such as a node, is neither allocated nor available.
	Available string `json:"available"`
	// Quarantined is how many of them are left out because a foreign host on the LAN has them: status.quarantinedIPs names it.
	// +optional
	Quarantined string `json:"quarantined,omitempty"`
	// Draining is how many addresses Services go on having although the pool does not give them any more.
	// +optional
	Draining string `json:"draining,omitempty"`
}

// QuarantinedIPsLimit is how many addresses status.quarantinedIPs lists; status.ipPools counts them all.
const QuarantinedIPsLimit = 100

// QuarantinedIP is an address of a pool that a foreign host on the LAN has. It is given to no Service; a Service that has it keeps it.
type QuarantinedIP struct {
	// IP is the address.
	IP string `json:"ip"`
	// IPPool is the pool that it belongs to.
	IPPool string `json:"ipPool"`
	// MAC is the hardware address of the host that has it.
	MAC string `json:"mac"`
	// Node is where the host was heard.
	Node string `json:"node"`
	// Interface is the one of that node's on which it was heard.
	Interface string `json:"interface"`
	// Since is when it was seen first.
	Since metav1.Time `json:"since"`
}

// AllocatedIP is an address that a Service has.
type AllocatedIP struct {
	// IP is the address.
	IP string `json:"ip"`
	// IPPool is the pool that it comes from. Empty means that no pool holds it any more; the Service keeps it.
	// +optional
	IPPool string `json:"ipPool,omitempty"`
	// Services are the Services that have it, as NAMESPACE/NAME.
	// +listType=set
	Services []string `json:"services"`
	// Node is the node that answers for the address. Empty means that none does; Message says why.
	// +optional
	Node string `json:"node,omitempty"`
	// Interface is the node's interface on which it answers.
	// +optional
	Interface string `json:"interface,omitempty"`
	// MAC is the hardware address that it answers with.
	// +optional
	MAC string `json:"mac,omitempty"`
	// Since is when the node began to answer.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// LastMove is how the address came to the node, unless its speaker was started anew since.
	// +optional
	LastMove *AddressMove `json:"lastMove,omitempty"`
	// Message says why no node answers, which nodes answer although one should, or what is unusual about the one that does.
	// +optional
	Message string `json:"message,omitempty"`
}
