// Package kubeproxy decides how kube-proxy's configuration is edited, byte by byte, and which node's kube-proxy is restarted next.
package kubeproxy
