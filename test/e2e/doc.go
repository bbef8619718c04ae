// Package e2e replays the tutorial on a lab cluster, as a person would on its workstation, and then hurts the cluster.
package e2e
