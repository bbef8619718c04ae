// Package rbac reads from manifests what each of Lanyard's accounts may do, for the tests that compare it with the page and with the cluster.
package rbac
