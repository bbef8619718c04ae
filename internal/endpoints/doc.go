// Package endpoints reaches the API server without kube-proxy: by a list of its endpoints that the manager keeps in a ConfigMap, and that
// the manager and the speakers have as a file. Whoever repairs kube-proxy must not need it.
//
//	kube-proxy's kubeconfig ──┐
//	EndpointSlice kubernetes ─┼─▶ List ──▶ ConfigMap ──mounted──▶ Parse ──▶ Order ──▶ race ──▶ connection
//	Service kubernetes ───────┘                                  (each time that a connection is made)
package endpoints
