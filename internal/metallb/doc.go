// Package metallb reads what MetalLB is told, and says the same as one ClusterNetworking.
package metallb
