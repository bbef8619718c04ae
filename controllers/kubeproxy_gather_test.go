package controllers

import (
	"strings"
	"testing"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

func TestEnclosed(t *testing.T) {
	const config = "apiVersion: v1\nkind: Config\ncurrent-context: default\ncontexts:\n- {name: default, context: {cluster: default}}\n" +
		"clusters:\n- {name: default, cluster: {server: \"SERVER\"}}\n"
	cnet := &v1alpha1.ClusterNetworking{Spec: v1alpha1.ClusterNetworkingSpec{IPPools: []v1alpha1.IPPool{
		{Name: "low", Addresses: []v1alpha1.AddressRange{"192.168.1.10-192.168.1.20"}},
		{Name: "high", Addresses: []v1alpha1.AddressRange{"192.168.1.200-192.168.1.210"}},
	}}}
	for name, tc := range map[string]struct {
		cnet               *v1alpha1.ClusterNetworking
		kubeconfig, server string
		want               string
	}{
		"an address in a pool is named with the pool":    {cnet: cnet, kubeconfig: config, server: "https://192.168.1.205:6443", want: "192.168.1.205, which is in pool high"},
		"so it is behind a path":                         {cnet: cnet, kubeconfig: config, server: "https://192.168.1.15/api", want: "192.168.1.15, which is in pool low"},
		"an address outside is fine":                     {cnet: cnet, kubeconfig: config, server: "https://192.168.1.125:6443"},
		"a name is not resolved":                         {cnet: cnet, kubeconfig: config, server: "https://k8s.example.com:6443"},
		"what is no kubeconfig says nothing":             {cnet: cnet, kubeconfig: "kept"},
		"without the object there are no pools":          {kubeconfig: config, server: "https://192.168.1.205:6443"},
		"a server that is no URL is somebody else's job": {cnet: cnet, kubeconfig: config, server: "https://[::1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := enclosed(tc.cnet, strings.ReplaceAll(tc.kubeconfig, "SERVER", tc.server)); got != tc.want {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
		})
	}
}
