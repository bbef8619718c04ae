// Package conditions turns facts about the cluster into the conditions of the ClusterNetworking object.
package conditions
