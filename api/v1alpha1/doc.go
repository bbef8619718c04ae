// Package v1alpha1 holds Lanyard's API: one ClusterNetworking object that says what the cluster's network should be, and one
// NodeNetworking object per node that says what the node's speaker sees.
//
// +kubebuilder:object:generate=true
// +groupName=networking.lanyard.dev
package v1alpha1
