package kubeproxy

import (
	"net/netip"
	"net/url"

	"go.yaml.in/yaml/v3"
)

// Server returns the address at which kube-proxy reaches the API server, as its kubeconfig has it. A name is not resolved: that is the
// node's business.
func Server(kubeconfig string) (addr netip.Addr, known bool) {
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string `yaml:"server"`
			} `yaml:"cluster"`
		} `yaml:"clusters"`
	}
	if err := yaml.Unmarshal([]byte(kubeconfig), &config); err != nil || len(config.Clusters) == 0 {
		return netip.Addr{}, false
	}
	server, err := url.Parse(config.Clusters[0].Cluster.Server)
	if err != nil {
		return netip.Addr{}, false
	}
	addr, err = netip.ParseAddr(server.Hostname())
	return addr, err == nil
}
