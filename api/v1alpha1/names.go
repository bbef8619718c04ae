package v1alpha1

// The annotations that Lanyard writes on a Service.
const (
	// AllocatedAnnotation remembers a Service's addresses and the pools that they come from ("192.168.1.200=lan-pool", more
	// than one joined by commas). It is memory, never title: what a tenant writes there passes every check again.
	AllocatedAnnotation = "networking.lanyard.dev/allocated"
)

// The annotations by which a Service asks for addresses. MetalLB's of the same meaning, under either of its prefixes, are read too.
const (
	// IPPoolAnnotation names the pool to get addresses from.
	IPPoolAnnotation = "networking.lanyard.dev/ip-pool"
	// IPsAnnotation is the address wanted, or one of each family, with a comma between them.
	IPsAnnotation = "networking.lanyard.dev/ips"
	// SharingKeyAnnotation lets Services with the same value have one address, if they have no port in common.
	SharingKeyAnnotation = "networking.lanyard.dev/sharing-key"
	// SharingNamespacesAnnotation names the namespaces with whose Services this one shares too, with commas between them, or "*" for all. The
	// others have to name this one's.
	SharingNamespacesAnnotation = "networking.lanyard.dev/sharing-namespaces"
)

// The annotations by which the speakers' gossip gets a new key.
const (
	// RotateMembershipKeyAnnotation on the ClusterNetworking asks for a new key. Any value that differs from the one before asks anew.
	RotateMembershipKeyAnnotation = "networking.lanyard.dev/rotate-membership-key"
	// RotatedForAnnotation on the Secret is the value for which the manager made a key last.
	RotatedForAnnotation = "networking.lanyard.dev/rotated-for"
)

// The names that the manager, the speakers and the manifests share.
const (
	// FieldManager is the manager's name in managedFields.
	FieldManager = "lanyard-manager"
	// ConfigurationConfigMap is the ConfigMap, in the manager's namespace, that holds the configuration in force.
	ConfigurationConfigMap = "lanyard-configuration"
	// ConfigurationKey is the key of its YAML document.
	ConfigurationKey = "configuration.yaml"
	// AwayKey is the key of the nodes, one a line, whose addresses others should answer for while their kube-proxy is restarted.
	AwayKey = "away"
	// KubeProxyLedger is the ConfigMap, in the manager's namespace, that remembers kube-proxy's configurations that worked and the change
	// under way, and LedgerKey the key of its JSON document.
	KubeProxyLedger = "lanyard-kube-proxy"
	LedgerKey       = "ledger.json"
	// LedgerRestoreKey is the key of a word for whoever removes Lanyard: RestorePending while kube-proxy is still to get back, once the
	// ClusterNetworking is gone, what spec.kubeProxy.onDelete Restore promises, and RestoreNone when nothing is left to do.
	LedgerRestoreKey = "restore"
	RestorePending   = "pending"
	RestoreNone      = "none"
	// SpeakerDaemonSet is the name of the speakers' DaemonSet.
	SpeakerDaemonSet = "lanyard-speaker"
	// SpeakerService is the name of the Service, in the manager's namespace, by which each speaker tries its node's Service rules: it leads
	// to the speaker itself.
	SpeakerService = "lanyard-speaker"
	// MembershipSecret is the Secret, in the manager's namespace, with the keys of the speakers' gossip, each of 32 random bytes.
	MembershipSecret = "lanyard-membership"
	// MembershipKey is its entry with the key that speakers encrypt with.
	MembershipKey = "key"
	// MembershipNextKey and MembershipPreviousKey are its entries with the keys that speakers read too while one key gives way to another:
	// the one that will encrypt, and the one that did. They are empty otherwise.
	MembershipNextKey     = "next"
	MembershipPreviousKey = "previous"
)

// KubeProxyMetricsAddress is where speakers ask kube-proxy: where it serves its metrics unless told otherwise, on the node's loopback.
const KubeProxyMetricsAddress = "127.0.0.1:10249"

// PodSecurityLabel on a namespace is the level to which Pod Security holds the pods there. Speakers, on the node's own network, need "privileged".
const PodSecurityLabel = "pod-security.kubernetes.io/enforce"

// PodSecurityAnnotation on the speakers' DaemonSet is the level of its namespace. Its change makes Kubernetes try at once what it had refused
// before: left alone, it waits longer after each refusal, up to a quarter of an hour.
const PodSecurityAnnotation = "networking.lanyard.dev/pod-security"

// ExcludeLabel on a node asks load balancers to leave it out. kubeadm puts it on every control plane. Lanyard obeys it while
// another node is left.
const ExcludeLabel = "node.kubernetes.io/exclude-from-external-load-balancers"
