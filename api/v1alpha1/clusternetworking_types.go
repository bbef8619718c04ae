package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterNetworkingName is the only name that a ClusterNetworking can have: the cluster has one network.
const ClusterNetworkingName = "cluster"

// ClusterNetworking is the network of this cluster: kube-proxy's mode, the addresses for Services of type LoadBalancer, and
// how they are announced on the LAN. There is one, named "cluster".
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=clusternetworkings,singular=clusternetworking,shortName=cnet
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'cluster'",message="metadata.name: there is one ClusterNetworking in a cluster and its name is \"cluster\": rename this object to \"cluster\""
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.status.kubeProxy.mode`,description="kube-proxy's mode, as the nodes report it"
// +kubebuilder:printcolumn:name="IPs Used",type=string,JSONPath=`.status.addresses.used`
// +kubebuilder:printcolumn:name="IPs Free",type=string,JSONPath=`.status.addresses.free`
// +kubebuilder:printcolumn:name="Speakers",type=string,JSONPath=`.status.speakers.summary`,description="speakers that are ready, of those that should be"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type ClusterNetworking struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the network that should be.
	// +optional
	Spec ClusterNetworkingSpec `json:"spec,omitzero"`
	// Status is the network that is.
	// +optional
	Status ClusterNetworkingStatus `json:"status,omitzero"`
}

// ClusterNetworkingList is a list of ClusterNetworking objects.
//
// +kubebuilder:object:root=true
type ClusterNetworkingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterNetworking `json:"items"`
}

// ManagementState says whether Lanyard acts on the cluster.
//
// +kubebuilder:validation:Enum=Managed;Paused
type ManagementState string

// The management states.
const (
	// Managed lets Lanyard write what the spec asks for.
	Managed ManagementState = "Managed"
	// Paused stops every write but this object's status; the addresses that are announced go on being announced.
	Paused ManagementState = "Paused"
)

// ClusterNetworkingSpec is the network that should be.
type ClusterNetworkingSpec struct {
	// ManagementState is Managed, or Paused to stop every write of Lanyard's while announced addresses go on working.
	// +optional
	// +kubebuilder:default=Managed
	ManagementState ManagementState `json:"managementState,omitempty"`

	// KubeProxy says how kube-proxy should run. Without it, kube-proxy is never touched.
	// +optional
	KubeProxy *KubeProxySpec `json:"kubeProxy,omitempty"`

	// IPPools are the addresses that Services of type LoadBalancer get, lowest first.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	IPPools []IPPool `json:"ipPools,omitempty"`

	// L2Advertisements say which pools are announced on the LAN, by ARP, and from which nodes.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	L2Advertisements []L2Advertisement `json:"l2Advertisements,omitempty"`

	// Speaker sets where and how the speakers run: the pods that announce addresses, one per node.
	// +optional
	Speaker SpeakerSpec `json:"speaker,omitzero"`
}

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

// AddressRange is a CIDR ("192.168.1.192/28") or a range, both ends included ("192.168.1.200-192.168.1.210").
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="self.contains('-') ? self.split('-').size() == 2 && self.split('-').all(a, isIP(a)) : isCIDR(self)",messageExpression="'\"' + self + '\" is neither a CIDR nor a range of two addresses: write it like 192.168.1.192/28 or 192.168.1.200-192.168.1.210, without spaces'"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self) == cidr(self).masked()",messageExpression="'\"' + self + '\" has host bits set: write the network with its first address, or a range FIRST-LAST for a part of it'"
// +kubebuilder:validation:XValidation:rule="!self.contains(':')",messageExpression="'\"' + self + '\" is IPv6, which Lanyard does not announce yet: list IPv4 addresses only'"
type AddressRange string

// IPPool is a named set of addresses.
type IPPool struct {
	// Name identifies the pool in advertisements, status and annotations.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// Addresses are the ranges and CIDRs of the pool, every address of which can be given to a Service. They may not overlap,
	// within a pool or across pools.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Addresses []AddressRange `json:"addresses"`
}

// L2Advertisement says that pools are announced on the LAN by ARP.
type L2Advertisement struct {
	// Name identifies the advertisement.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// IPPools are the names of the pools that are announced. Empty means every pool.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	IPPools []string `json:"ipPools,omitempty"`

	// NodeSelector limits the nodes that may announce. Omitted means every node with a speaker.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// Interfaces limits the interfaces that may announce, by exact name or glob ("eth0", "bond*"). Empty means each interface
	// that has an address in the same subnet as the announced one.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Interfaces []string `json:"interfaces,omitempty"`
}

// LogLevel is how much a speaker writes to its log.
//
// +kubebuilder:validation:Enum=Info;Debug
type LogLevel string

// The log levels.
const (
	LogLevelInfo  LogLevel = "Info"
	LogLevelDebug LogLevel = "Debug"
)

// SpeakerSpec sets where and how the speakers run.
type SpeakerSpec struct {
	// NodeSelector limits the nodes that run a speaker. Omitted means every Linux node.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Tolerations replace the default, which tolerates every taint.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// Resources replace the default requests of a speaker. A CPU limit slows failover down: leave it out.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// LogLevel is Info or Debug.
	// +optional
	// +kubebuilder:default=Info
	LogLevel LogLevel `json:"logLevel,omitempty"`

	// MembershipPort is the TCP and UDP port on the node's network by which speakers watch each other. It differs from
	// MetalLB's 7946, so that both can run side by side. A change restarts the speakers one by one. Until the last has
	// restarted, those on the old port and those on the new do not hear each other, and one of each may answer for an address.
	// +optional
	// +kubebuilder:default=7956
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	MembershipPort int32 `json:"membershipPort,omitempty"`

	// ImagePullSecrets are Secrets in the speakers' namespace with which their image is pulled.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// Texts returns the pool's addresses as they are written.
func (p IPPool) Texts() []string {
	texts := make([]string, 0, len(p.Addresses))
	for _, a := range p.Addresses {
		texts = append(texts, string(a))
	}
	return texts
}
