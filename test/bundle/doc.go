// Package bundle holds the bundle and the catalogs to what the Operator Lifecycle Manager's own validators ask of them. It is a module of its own, as
// those need other versions of Kubernetes' libraries than Lanyard does.
package bundle
