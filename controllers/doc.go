// Package controllers holds the manager's reconcilers, one file each: they gather facts, call a pure package, apply what it
// decides, and post a report from which the status reconciler writes the ClusterNetworking's status.
package controllers
