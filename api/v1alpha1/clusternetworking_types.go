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
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.kubeProxy.phase`,description="what is being done to kube-proxy"
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

	// LoadBalancerClass makes Services of this spec.loadBalancerClass Lanyard's, and those without one somebody else's. Omitted, it is the other way
	// round. A Service that has an address of Lanyard's keeps it whatever is written here.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	LoadBalancerClass string `json:"loadBalancerClass,omitempty"`

	// IPPools are the addresses that Services of type LoadBalancer get, lowest first.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	IPPools []IPPool `json:"ipPools,omitempty"`

	// L2Advertisements say which pools are announced on the LAN, by ARP and for IPv6 by NDP, and from which nodes.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	L2Advertisements []L2Advertisement `json:"l2Advertisements,omitempty"`

	// FailureDetection says what is done for Services when a node is lost, besides moving its addresses.
	// +optional
	FailureDetection FailureDetectionSpec `json:"failureDetection,omitzero"`

	// Speaker sets where and how the speakers run: the pods that announce addresses, one per node.
	// +optional
	Speaker SpeakerSpec `json:"speaker,omitzero"`
}

// L2Advertisement says that pools are announced on the LAN: IPv4 addresses by ARP, IPv6 addresses by NDP.
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

// FailureDetectionSpec says what is done for Services when a node is lost.
type FailureDetectionSpec struct {
	// MarkPodsNotReady is Enabled to say of a lost node's pods that they are not ready, so that Services leave them out within about two
	// seconds; Kubernetes does so after 40 seconds and more. A node is lost when the speakers of most nodes do not hear its speaker any more, and
	// neither its addresses nor its kubelet answer any of them. A kubelet that lives after all says within some ten seconds that they are ready.
	// With fewer than three speakers there are no most, and it never happens.
	// +optional
	// +kubebuilder:default=Disabled
	MarkPodsNotReady MarkPodsNotReady `json:"markPodsNotReady,omitempty"`
}

// MarkPodsNotReady says whether the pods of lost nodes are said not to be ready.
//
// +kubebuilder:validation:Enum=Disabled;Enabled
type MarkPodsNotReady string

// The choices.
const (
	MarkPodsNotReadyDisabled MarkPodsNotReady = "Disabled"
	MarkPodsNotReadyEnabled  MarkPodsNotReady = "Enabled"
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
