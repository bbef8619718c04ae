package v1alpha1

// ProxyMode is a kube-proxy mode, spelt as in KubeProxyConfiguration.
//
// +kubebuilder:validation:Enum=iptables;ipvs;nftables
type ProxyMode string

// The modes that kube-proxy has on Linux.
const (
	ProxyModeIPTables ProxyMode = "iptables"
	ProxyModeIPVS     ProxyMode = "ipvs"
	ProxyModeNFTables ProxyMode = "nftables"
)

// KubeProxySpec says how kube-proxy should run. What it does not name stays as it is in kube-proxy's ConfigMap.
type KubeProxySpec struct {
	// Mode is iptables, ipvs or nftables. Omitted, the cluster keeps the mode that it has. With ipvs and an L2 advertisement,
	// ipvs.strictARP is turned on too, because every node would answer ARP for every address without it.
	// +optional
	Mode ProxyMode `json:"mode,omitempty"`

	// IPVS are settings of mode ipvs. They are written whatever the mode is, and kube-proxy reads them in mode ipvs alone.
	// +optional
	IPVS KubeProxyIPVS `json:"ipvs,omitzero"`

	// NodePortAddresses are the node addresses at which NodePorts are served: CIDRs, or a keyword. "primary" is the node's own
	// addresses as its Node shows them; it stands alone before kube-proxy 1.37, which also has "localhost" and "all". An empty list is
	// kube-proxy's default: all addresses in modes iptables and ipvs, primary in nftables. Omitted, the list stays as it is.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	NodePortAddresses []NodePortAddress `json:"nodePortAddresses,omitzero"`

	// Conntrack are settings of the kernel's connection tracking.
	// +optional
	Conntrack KubeProxyConntrack `json:"conntrack,omitzero"`

	// MetricsBindAddress is where kube-proxy serves its metrics, its mode and its configuration, as IP:PORT. Speakers ask there, on
	// their own node: it is a loopback address, or 0.0.0.0 or [::] to serve everyone who reaches the node.
	// +optional
	MetricsBindAddress MetricsBindAddress `json:"metricsBindAddress,omitempty"`

	// ClusterCIDR is the network of the cluster's pods, or an IPv4 and an IPv6 network with a comma between them. With
	// detectLocalMode ClusterCIDR, kube-proxy takes packets from there for the cluster's own.
	// +optional
	ClusterCIDR ClusterCIDR `json:"clusterCIDR,omitempty"`

	// Drift says what happens when somebody else changes what the spec declares: Enforce writes it back, Warn only says so.
	// +optional
	// +kubebuilder:default=Enforce
	Drift DriftPolicy `json:"drift,omitempty"`

	// Rollout says how a change goes from node to node.
	// +optional
	Rollout KubeProxyRollout `json:"rollout,omitzero"`

	// OnDelete says what happens to kube-proxy when this object is deleted, or this section removed: Keep leaves it as it runs then,
	// Restore gives the declared fields the values back that they had before Lanyard changed them first.
	// +optional
	// +kubebuilder:default=Keep
	OnDelete OnDeletePolicy `json:"onDelete,omitempty"`
}

// KubeProxyIPVS are settings of mode ipvs. What is omitted stays as it is.
type KubeProxyIPVS struct {
	// Scheduler is how IPVS chooses among a Service's endpoints, by the name of its kernel module without ip_vs_. kube-proxy's own
	// default is rr.
	// +optional
	Scheduler IPVSScheduler `json:"scheduler,omitempty"`

	// StrictARP keeps a node from answering ARP for the addresses that IPVS binds to it. Omitted, it is turned on while the mode is
	// ipvs and an L2 advertisement exists. False then leaves every node answering for every address.
	// +optional
	StrictARP *bool `json:"strictARP,omitempty"`

	// ExcludeCIDRs are networks whose virtual servers in IPVS kube-proxy leaves alone, because somebody else made them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	ExcludeCIDRs []ExcludedCIDR `json:"excludeCIDRs,omitzero"`

	// TCPTimeout is how long an idle TCP connection is remembered. 0s leaves the kernel's time, which is 15 minutes.
	// +optional
	TCPTimeout IPVSTimeout `json:"tcpTimeout,omitempty"`

	// TCPFinTimeout is how long a TCP connection is remembered after its FIN. 0s leaves the kernel's time, which is 2 minutes.
	// +optional
	TCPFinTimeout IPVSTimeout `json:"tcpFinTimeout,omitempty"`

	// UDPTimeout is how long UDP packets are remembered. 0s leaves the kernel's time, which is 5 minutes.
	// +optional
	UDPTimeout IPVSTimeout `json:"udpTimeout,omitempty"`
}

// IPVSScheduler is a scheduler of the kernel's IPVS. kube-proxy takes any name, and does not start when the kernel has no such module.
//
// +kubebuilder:validation:Enum=rr;wrr;lc;wlc;fo;ovf;lblc;lblcr;sh;dh;mh;sed;nq;twos
type IPVSScheduler string

// ExcludedCIDR is a network that kube-proxy leaves alone in IPVS.
//
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="isCIDR(self)",messageExpression="'\"' + self + '\" is no CIDR: write it like 10.9.0.0/16 or fd00:9::/64; for one address 10.9.0.1/32'"
type ExcludedCIDR string

// IPVSTimeout is a time in hours, minutes and whole seconds, which is what IPVS counts in: "15m", "1h30m", "900s". The kernel takes up to
// 2147483s, some 24 days.
//
// +kubebuilder:validation:MaxLength=24
// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,7}s)?$')",messageExpression="'\"' + self + '\" is no time that IPVS knows: write hours, minutes and whole seconds, like 15m, 1h30m or 900s; 0s leaves it to the kernel'"
// +kubebuilder:validation:XValidation:rule="self.size() == 0 || !self.matches('^([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,7}s)?$') || duration(self) <= duration('2147483s')",messageExpression="self + ' is more than the kernel takes: write 596h or less'"
type IPVSTimeout string

// NodePortAddress is a CIDR or one of kube-proxy's keywords.
//
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="self in ['primary', 'localhost', 'all'] || isCIDR(self)",messageExpression="'\"' + self + '\" is neither a CIDR nor one of primary, localhost and all: write a network like 192.168.1.0/24, or \"primary\" for the address that each Node shows'"
type NodePortAddress string

// KubeProxyConntrack are settings of the kernel's connection tracking. What is omitted stays as it is.
type KubeProxyConntrack struct {
	// TCPBeLiberal keeps the kernel from calling a TCP packet invalid whose sequence number is out of the window. Mode iptables drops
	// invalid packets, mode nftables does not, and the connection that they belong to may be reset then. kube-proxy has it from 1.29 on.
	// +optional
	TCPBeLiberal *bool `json:"tcpBeLiberal,omitempty"`
}

// MetricsBindAddress is an IP and a port that every node has and reaches itself.
//
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="self.matches('^(127([.][0-9]{1,3}){3}|0[.]0[.]0[.]0|\\\\[::1?\\\\]):[0-9]{1,5}$') && (self.startsWith('[') || isIP(self.split(':')[0]))",messageExpression="'\"' + self + '\" is no address at which each node reaches its own kube-proxy: write 127.0.0.1:10249, or 0.0.0.0:10249 or \"[::]:10249\" to serve the whole network'"
// +kubebuilder:validation:XValidation:rule="!self.matches(':[0-9]{1,5}$') || int(self.split(':')[self.split(':').size() - 1]) >= 1 && int(self.split(':')[self.split(':').size() - 1]) <= 65535",messageExpression="'\"' + self + '\" has no port between 1 and 65535: kube-proxy\\'s own is 10249'"
type MetricsBindAddress string

// ClusterCIDR is one network, or an IPv4 and an IPv6 network with a comma between them.
//
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:XValidation:rule="self.split(',').all(c, isCIDR(c)) && (self.split(',').size() == 1 || self.split(',').size() == 2 && cidr(self.split(',')[0]).ip().family() != cidr(self.split(',')[1]).ip().family())",messageExpression="'\"' + self + '\" is neither one CIDR nor a pair of an IPv4 and an IPv6 one: write it like 10.244.0.0/16 or 10.244.0.0/16,fd00:10:244::/56, without spaces'"
type ClusterCIDR string

// DriftPolicy says what happens when somebody else changes what the spec declares.
//
// +kubebuilder:validation:Enum=Enforce;Warn
type DriftPolicy string

// The drift policies.
const (
	DriftEnforce DriftPolicy = "Enforce"
	DriftWarn    DriftPolicy = "Warn"
)

// OnDeletePolicy says what happens to kube-proxy when it is not managed any more.
//
// +kubebuilder:validation:Enum=Keep;Restore
type OnDeletePolicy string

// The policies on deletion.
const (
	OnDeleteKeep    OnDeletePolicy = "Keep"
	OnDeleteRestore OnDeletePolicy = "Restore"
)

// RolloutState says whether changes of kube-proxy are made.
//
// +kubebuilder:validation:Enum=Active;Paused
type RolloutState string

// The rollout states.
const (
	// RolloutActive makes the changes.
	RolloutActive RolloutState = "Active"
	// RolloutPaused only says what would change: nothing is probed, written or restarted.
	RolloutPaused RolloutState = "Paused"
)

// FailurePolicy says what happens when kube-proxy does not come up as asked on a node.
//
// +kubebuilder:validation:Enum=Rollback;Pause
type FailurePolicy string

// The failure policies.
const (
	// FailureRollback takes every node back to the last configuration that worked.
	FailureRollback FailurePolicy = "Rollback"
	// FailurePause stops the roll, touches no further node, and waits for a person.
	FailurePause FailurePolicy = "Pause"
)

// KubeProxyRollout says how a change of kube-proxy goes from node to node. The first node is always alone.
type KubeProxyRollout struct {
	// MaxUnavailable is how many nodes may be without a verified kube-proxy at once, once the first node has shown that it works.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxUnavailable int32 `json:"maxUnavailable,omitempty"`

	// PauseSeconds is how long a node has to stay verified before the next is restarted.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	PauseSeconds *int32 `json:"pauseSeconds,omitempty"`

	// ProgressDeadlineSeconds is how long a node may take until the pod that tries a new configuration there has started, which then has half
	// as long to show that it works, and, once its kube-proxy was restarted, until that runs as asked; a node that takes longer has failed.
	// Raise it where nodes are slow.
	// +optional
	// +kubebuilder:default=120
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=3600
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// State is Active, or Paused to see in status.kubeProxy.plannedDiff what would change while nothing is probed, written or
	// restarted.
	// +optional
	// +kubebuilder:default=Active
	State RolloutState `json:"state,omitempty"`

	// OnFailure is Rollback to take every node back to the last configuration that worked when one fails, or Pause to stop there.
	// +optional
	// +kubebuilder:default=Rollback
	OnFailure FailurePolicy `json:"onFailure,omitempty"`
}
