package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeNetworking is what the speaker of one node sees. It has the node's name, is written by that speaker alone, and goes with
// the Node.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=nodenetworkings,singular=nodenetworking,shortName=nnet
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.status.kubeProxy.mode`
// +kubebuilder:printcolumn:name="Announcing",type=integer,JSONPath=`.status.announcedCount`
// +kubebuilder:printcolumn:name="Peers",type=integer,JSONPath=`.status.peersCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeNetworking struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Status is what the speaker sees.
	// +optional
	Status NodeNetworkingStatus `json:"status,omitzero"`
}

// NodeNetworkingList is a list of NodeNetworking objects.
//
// +kubebuilder:object:root=true
type NodeNetworkingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeNetworking `json:"items"`
}

// AnnouncedLimit, UnannouncedLimit and ForeignLimit are how many addresses a NodeNetworking lists; the others are at most counted. They keep the object well
// below what etcd stores as one value (1.5 MiB): an announced address takes up to 300 bytes, an unannounced one, with its sentence, a
// thousand.
const (
	AnnouncedLimit   = 4000
	UnannouncedLimit = 200
	ForeignLimit     = 200
)

// NodeNetworkingStatus is what the speaker of one node sees.
type NodeNetworkingStatus struct {
	// Interfaces are the node's interfaces that could announce an address: Ethernet, not enslaved, with an address.
	// +optional
	// +listType=map
	// +listMapKey=name
	Interfaces []NodeInterface `json:"interfaces,omitempty"`
	// Gateways are the routers of the node's routes to the other networks, in order. Lanyard does not give their addresses out.
	// +optional
	// +listType=set
	Gateways []string `json:"gateways,omitempty"`
	// KubeProxy is what kube-proxy on this node says of itself.
	// +optional
	KubeProxy NodeKubeProxy `json:"kubeProxy,omitzero"`
	// ConfigurationGeneration is the generation of the ClusterNetworking that the speaker acts on.
	// +optional
	ConfigurationGeneration int64 `json:"configurationGeneration,omitempty"`
	// Announced are the addresses that this node answers for, the first 4000 in order.
	// +optional
	// +listType=atomic
	Announced []AnnouncedIP `json:"announced,omitempty"`
	// AnnouncedCount is how many they are, with those that are not listed.
	AnnouncedCount int32 `json:"announcedCount"`
	// Unannounced are addresses of advertised pools that no node answers for, as far as this speaker knows: the first 200 in order.
	// +optional
	// +listType=atomic
	Unannounced []UnannouncedIP `json:"unannounced,omitempty"`
	// UnannouncedCount is how many they are, with those that are not listed.
	// +optional
	UnannouncedCount int32 `json:"unannouncedCount,omitempty"`
	// Foreign are addresses of the pools that another host on the LAN has, the first 200 in order. Each stays for ten minutes after the host
	// was seen there last. Lanyard does not give them out.
	// +optional
	// +listType=map
	// +listMapKey=ip
	Foreign []ForeignIP `json:"foreign,omitempty"`
	// Free are addresses of the pools for which the speaker has asked the LAN, and nobody has answered: ranges of those that are given out
	// next. One speaker asks for each.
	// +optional
	// +listType=atomic
	Free []string `json:"free,omitempty"`
	// Peers are the nodes whose speakers this one hears, in order, without itself.
	// +optional
	// +listType=set
	Peers []string `json:"peers,omitempty"`
	// PeersCount is how many they are.
	PeersCount int32 `json:"peersCount"`
	// SilentNodes are the nodes whose speakers this one has lost, and of which nothing answers it: neither their addresses nor their kubelets.
	// They are told only where markPodsNotReady is Enabled.
	// +optional
	// +listType=map
	// +listMapKey=name
	SilentNodes []SilentNode `json:"silentNodes,omitempty"`
	// MembershipKeys are the keys by which this speaker hears the others.
	// +optional
	MembershipKeys NodeMembershipKeys `json:"membershipKeys,omitzero"`
}

// SilentNode is a node of which nothing answers.
type SilentNode struct {
	// Name is the node's name.
	Name string `json:"name"`
	// Since is when its speaker was lost.
	Since metav1.Time `json:"since"`
}

// NodeMembershipKeys are the keys that a speaker has in force.
type NodeMembershipKeys struct {
	// Digest is a hash of the keys, the one that encrypts first: speakers that have the same keys show the same.
	// +optional
	Digest string `json:"digest,omitempty"`
	// Message says why the keys in force are not those of the Secret.
	// +optional
	Message string `json:"message,omitempty"`
}

// Carrier is the state of an interface's link.
//
// +kubebuilder:validation:Enum=Up;Down
type Carrier string

// The carrier states.
const (
	CarrierUp   Carrier = "Up"
	CarrierDown Carrier = "Down"
)

// NodeInterface is an interface that could announce an address.
type NodeInterface struct {
	// Name is the interface's name.
	Name string `json:"name"`
	// MAC is its hardware address.
	MAC string `json:"mac"`
	// Addresses are its addresses with their prefix lengths, in order.
	// +optional
	// +listType=set
	Addresses []string `json:"addresses,omitempty"`
	// Carrier is Up when the link works.
	Carrier Carrier `json:"carrier"`
	// Message says why the speaker cannot answer on the interface although the link works: no address is announced there.
	// +optional
	Message string `json:"message,omitempty"`
}

// NodeKubeProxy is what kube-proxy on a node says of itself.
type NodeKubeProxy struct {
	// Mode is the answer of kube-proxy's /proxyMode. Empty means that it did not answer.
	// +optional
	Mode string `json:"mode,omitempty"`
	// StartTime is when the kube-proxy process that answered was started, to the second. It tells an answer of the process
	// before a restart from one after it.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// Message says why kube-proxy did not answer, or did not answer all that it was asked.
	// +optional
	Message string `json:"message,omitempty"`
	// Settings are those settings that a ClusterNetworking can declare, as the running process has them by its /configz: its field's
	// path, and the value. Settings at their zero value are left out. Without any, as with kube-proxy up to 1.35, they are not known.
	// +optional
	Settings map[string]string `json:"settings,omitempty"`
	// Rules say whether the process has written the node's rules, of every IP family that it serves, since it started, and still can.
	// +optional
	Rules RulesState `json:"rules,omitempty"`
	// SyncFailures is how often the process tried to write them since it started and could not. Of failures that go on it is renewed
	// about every half minute.
	// +optional
	SyncFailures int64 `json:"syncFailures,omitempty"`
	// Checks are connections through the rules that the speaker tries itself, to default/kubernetes and to its own Service, of which the
	// second does not leave the node. Each was tried while this process ran, and since its rules are in the state that is told.
	// +optional
	// +listType=map
	// +listMapKey=name
	Checks []NodeCheck `json:"checks,omitempty"`
	// LooseARP are the interfaces on which the node answers ARP for every address of every Service, whichever node announces it: kube-proxy
	// runs in mode ipvs there, and strictARP is not in force in the kernel.
	// +optional
	// +listType=set
	LooseARP []string `json:"looseARP,omitempty"`
	// Residue is what a mode that does not run any more has left in the node's kernel, as far as the speaker can see it: one sentence each.
	// +optional
	// +listType=atomic
	Residue []string `json:"residue,omitempty"`
	// Sysctls are the kernel settings that kube-proxy turns on and never off, where they are not 0: net.ipv4.conf.all.arp_ignore,
	// net.ipv4.conf.all.arp_announce and net.ipv4.conf.all.route_localnet.
	// +optional
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// Uses are features in use on the node that another mode lacks: one word each, see the README.
	// +optional
	// +listType=set
	Uses []KubeProxyUse `json:"uses,omitempty"`
}

// RulesState says whether kube-proxy has written its rules.
//
// +kubebuilder:validation:Enum=Written;Pending;Failing
type RulesState string

// The states of the rules.
const (
	RulesWritten RulesState = "Written"
	RulesPending RulesState = "Pending"
	// RulesFailing: it has written them, and has failed since when there was something to change.
	RulesFailing RulesState = "Failing"
)

// CheckResult is how a check ended.
//
// +kubebuilder:validation:Enum=Passed;Failed
type CheckResult string

// The results of a check.
const (
	CheckPassed CheckResult = "Passed"
	CheckFailed CheckResult = "Failed"
)

// NodeCheck is a connection that the speaker tries.
type NodeCheck struct {
	// Name is the Service that it goes to, as namespace/name.
	Name string `json:"name"`
	// Result is Passed when the connection was made.
	Result CheckResult `json:"result"`
	// Message says why it was not.
	// +optional
	Message string `json:"message,omitempty"`
}

// KubeProxyUse is a feature of kube-proxy's iptables mode that is in use.
//
// +kubebuilder:validation:Enum=LocalhostNodePorts;InvalidPacketsDropped
type KubeProxyUse string

// The features.
const (
	// UseLocalhostNodePorts: NodePorts were reached at 127.0.0.1, where nftables does not serve them
	// (kubeproxy_iptables_localhost_nodeports_accepted_packets_total).
	UseLocalhostNodePorts KubeProxyUse = "LocalhostNodePorts"
	// UseInvalidPacketsDropped: packets that conntrack calls invalid were dropped, which nftables does not do
	// (kubeproxy_iptables_ct_state_invalid_dropped_packets_total).
	UseInvalidPacketsDropped KubeProxyUse = "InvalidPacketsDropped"
)

// AnnouncedIP is an address that the node answers for.
type AnnouncedIP struct {
	// IP is the address.
	IP string `json:"ip"`
	// Interface is the interface on which the node answers.
	Interface string `json:"interface"`
	// MAC is the hardware address that it answers with.
	MAC string `json:"mac"`
	// Since is when this node began to answer.
	Since metav1.Time `json:"since"`
	// Reason is why it is this node.
	// +optional
	Reason string `json:"reason,omitempty"`
	// LastMove is how the address came to this node, unless its speaker was started anew since.
	// +optional
	LastMove *AddressMove `json:"lastMove,omitempty"`
	// Message says what is unusual about it, for example that only excluded nodes are left.
	// +optional
	Message string `json:"message,omitempty"`
}

// MoveReason is why an address came to another node.
//
// +kubebuilder:validation:Enum=Unowned;NodeSilent;NoInterface;NetworkUnavailable;NotSelected;NoEndpoint;Unlisted;Excluded;KubeProxyRestart;SpeakerStopped;GivenUp
type MoveReason string

// The reasons.
const (
	// MoveUnowned: no node is known to have answered for it before.
	MoveUnowned MoveReason = "Unowned"
	// MoveNodeSilent: the speaker of the node before is not heard any more.
	MoveNodeSilent MoveReason = "NodeSilent"
	// MoveNoInterface: the node before has no interface with carrier in the address's subnet any more.
	MoveNoInterface MoveReason = "NoInterface"
	// MoveNetworkUnavailable: the node before has the condition NetworkUnavailable.
	MoveNetworkUnavailable MoveReason = "NetworkUnavailable"
	// MoveNotSelected: the advertisement's node selector leaves the node before out.
	MoveNotSelected MoveReason = "NotSelected"
	// MoveNoEndpoint: externalTrafficPolicy is Local, and the node before has no ready endpoint any more.
	MoveNoEndpoint MoveReason = "NoEndpoint"
	// MoveUnlisted: the node before is no node of the cluster any more.
	MoveUnlisted MoveReason = "Unlisted"
	// MoveExcluded: the node before carries the label node.kubernetes.io/exclude-from-external-load-balancers.
	MoveExcluded MoveReason = "Excluded"
	// MoveKubeProxyRestart: kube-proxy of the node before was about to be restarted.
	MoveKubeProxyRestart MoveReason = "KubeProxyRestart"
	// MoveSpeakerStopped: the speaker of the node before was ended.
	MoveSpeakerStopped MoveReason = "SpeakerStopped"
	// MoveGivenUp: the node before has let go, for a reason of its own.
	MoveGivenUp MoveReason = "GivenUp"
)

// AddressMove is how an address came to a node.
type AddressMove struct {
	// From is the node that answered before. Empty when none is known.
	// +optional
	From string `json:"from,omitempty"`
	// Reason is why it does not any more.
	Reason MoveReason `json:"reason"`
	// FailoverMilliseconds is how long nobody answered, at most: from when the node before was heard for the last time. Where that one went
	// on answering until it was relieved, there is none.
	// +optional
	FailoverMilliseconds int64 `json:"failoverMilliseconds,omitempty"`
}

// ForeignIP is an address of a pool that a host other than a speaker has.
type ForeignIP struct {
	// IP is the address.
	IP string `json:"ip"`
	// MAC is the host's hardware address.
	MAC string `json:"mac"`
	// Interface is the node's interface on which the host was heard.
	Interface string `json:"interface"`
	// Since is when it was seen first.
	Since metav1.Time `json:"since"`
}

// UnannouncedIP is an address that no node answers for.
type UnannouncedIP struct {
	// IP is the address.
	IP string `json:"ip"`
	// Reason is why, as one CamelCase word.
	Reason string `json:"reason"`
	// Message is why, as a sentence.
	Message string `json:"message"`
}
