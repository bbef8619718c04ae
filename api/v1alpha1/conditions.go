package v1alpha1

// The condition types of a ClusterNetworking.
const (
	// ConditionReady is the summary: True when everything that the spec asks for is so.
	ConditionReady = "Ready"
	// ConditionKubeProxyReady is True when kube-proxy runs as the spec asks on every node, or is not managed.
	ConditionKubeProxyReady = "KubeProxyReady"
	// ConditionIPPoolsReady is True when the pools are valid and every Service that asks for an address has one.
	ConditionIPPoolsReady = "IPPoolsReady"
	// ConditionSpeakersReady is True when every speaker runs and every allocated address is announced, by one of them.
	ConditionSpeakersReady = "SpeakersReady"
	// ConditionProgressing is True while a change is being made.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True when something needs a person.
	ConditionDegraded = "Degraded"
	// ConditionKubeProxyDeprecated is True while a coming version of Kubernetes ends the way in which kube-proxy is to run, and absent
	// otherwise. Nothing is wrong until that upgrade: neither Ready nor Degraded speaks of it.
	ConditionKubeProxyDeprecated = "KubeProxyDeprecated"
)

// The reasons of conditions. Each stands in the README's table with its remedy.
const (
	// ReasonReady says that all is as the spec asks.
	ReasonReady = "Ready"
	// ReasonPaused says that spec.managementState is Paused.
	ReasonPaused = "Paused"
	// ReasonNotManaged says that the spec has no section for this.
	ReasonNotManaged = "NotManaged"
	// ReasonUnmanagedLayout says that kube-proxy is not laid out as kubeadm does it, so that Lanyard does not touch it.
	ReasonUnmanagedLayout = "UnmanagedLayout"
	// ReasonStrictARPMissing says that kube-proxy runs ipvs without strictARP, so that every node answers for every address.
	ReasonStrictARPMissing = "StrictARPMissing"
	// ReasonInvalidConfiguration says that the spec contradicts itself; the last good configuration stays in force.
	ReasonInvalidConfiguration = "InvalidConfiguration"
	// ReasonApplyFailed says that a write to the cluster failed; it is tried again.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonRollingOut says that a change goes from node to node.
	ReasonRollingOut = "RollingOut"
	// ReasonRolloutStalled says that kube-proxy does not come up as asked on a node; the other nodes are left alone.
	ReasonRolloutStalled = "RolloutStalled"
	// ReasonPreflightFailed says that a node has shown, in a pod of its own, that it cannot run what the spec asks of kube-proxy.
	ReasonPreflightFailed = "PreflightFailed"
	// ReasonRolledBack says that kube-proxy did not come up as asked on a node, and all went back to what worked before.
	ReasonRolledBack = "RolledBack"
	// ReasonResidueFound says that the mode before has left rules or addresses in the kernel of a node.
	ReasonResidueFound = "ResidueFound"
	// ReasonDrifted says that somebody else has changed what the spec declares, and spec.kubeProxy.drift is Warn.
	ReasonDrifted = "Drifted"
	// ReasonContested says that somebody else keeps changing what the spec declares.
	ReasonContested = "Contested"
	// ReasonServerInPool says that kube-proxy reaches the API server at an address that it has to serve itself.
	ReasonServerInPool = "ServerInPool"
	// ReasonIPVSDeprecated says that kube-proxy's mode is ipvs, which Kubernetes gives up.
	ReasonIPVSDeprecated = "IPVSDeprecated"
	// ReasonModeLeftOpen says that kube-proxy's mode is left open, which a coming version takes for another one.
	ReasonModeLeftOpen = "ModeLeftOpen"
	// ReasonServicesPending says that Services ask for addresses and cannot get one.
	ReasonServicesPending = "ServicesPending"
	// ReasonSpeakersNotReady says that speakers are missing or not ready.
	ReasonSpeakersNotReady = "SpeakersNotReady"
	// ReasonSpeakersSplit says that speakers which do not hear each other answer for the same address.
	ReasonSpeakersSplit = "SpeakersSplit"
	// ReasonMembershipKeyInvalid says that the keys of the speakers' gossip cannot be read from their Secret.
	ReasonMembershipKeyInvalid = "MembershipKeyInvalid"
	// ReasonRotatingMembershipKey says that a key of the speakers' gossip gives way to a new one.
	ReasonRotatingMembershipKey = "RotatingMembershipKey"
	// ReasonAddressesNotAnnounced says that no node answers for some allocated addresses.
	ReasonAddressesNotAnnounced = "AddressesNotAnnounced"
	// ReasonAddressQuarantined says, in an Event, that a foreign host on the LAN has an address of a pool.
	ReasonAddressQuarantined = "AddressQuarantined"
	// ReasonAddressAnnounced says, in an Event of a Service, that a node answers for its address.
	ReasonAddressAnnounced = "AddressAnnounced"
	// ReasonAddressMoved says, in an Event of a Service, that another node answers for its address than before, and why.
	ReasonAddressMoved = "AddressMoved"
	// ReasonNodeLost says, of a pod that is not ready and in an Event, that nothing of its node answers the others.
	ReasonNodeLost = "NodeLost"
	// ReasonAllocated says, in a Service's condition, that it has all that it asks for.
	ReasonAllocated = "Allocated"
	// ReasonStatusContested says that somebody else keeps changing a Service's status.
	ReasonStatusContested = "StatusContested"
	// ReasonIPPoolFillsUp says, in an Event, how much of a pool is in use.
	ReasonIPPoolFillsUp = "IPPoolFillsUp"
	// ReasonComplete says that no change is under way.
	ReasonComplete = "Complete"
	// ReasonAsExpected says that nothing needs a person.
	ReasonAsExpected = "AsExpected"
)

// ServiceAllocated is the type of the condition that Lanyard writes into the status of a Service: whether it has an address, and why not.
const ServiceAllocated = "networking.lanyard.dev/Allocated"
