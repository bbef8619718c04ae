package kubeproxy

import "testing"

func TestMetricsAddress(t *testing.T) {
	const head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
	for name, tc := range map[string]struct{ document, want string }{
		"nothing is said":                                   {document: "mode: ipvs", want: "127.0.0.1:10249"},
		"kubeadm writes an empty one":                       {document: `metricsBindAddress: ""`, want: "127.0.0.1:10249"},
		"there is only the head":                            {want: "127.0.0.1:10249"},
		"the document cannot be read":                       {document: "metricsBindAddress: {", want: "127.0.0.1:10249"},
		"kube-proxy would not take the value":               {document: "metricsBindAddress: localhost:10249", want: "127.0.0.1:10249"},
		"the value is no text":                              {document: "metricsBindAddress: 10249", want: "127.0.0.1:10249"},
		"another port":                                      {document: "metricsBindAddress: 127.0.0.1:20249", want: "127.0.0.1:20249"},
		"an address of one node's own":                      {document: "metricsBindAddress: 192.168.1.125:10249", want: "192.168.1.125:10249"},
		"every IPv4 address has the loopback":               {document: "metricsBindAddress: 0.0.0.0:10249", want: "127.0.0.1:10249"},
		"every address has the loopback, on its port":       {document: `metricsBindAddress: "[::]:20249"`, want: "127.0.0.1:20249"},
		"an address without a port":                         {document: "metricsBindAddress: 0.0.0.0", want: "127.0.0.1:10249"},
		"an IPv6 address without a port":                    {document: `metricsBindAddress: "fd00::7"`, want: "[fd00::7]:10249"},
		"the IPv6 loopback":                                 {document: `metricsBindAddress: "[::1]:10249"`, want: "[::1]:10249"},
		"an IPv4 address in IPv6 writing":                   {document: `metricsBindAddress: "[::ffff:127.0.0.1]:20249"`, want: "127.0.0.1:20249"},
		"the default follows the family of IPv6":            {document: `bindAddress: "::"`, want: "[::1]:10249"},
		"the default follows the family of IPv4":            {document: "bindAddress: 0.0.0.0", want: "127.0.0.1:10249"},
		"what is named goes before bindAddress":             {document: "bindAddress: \"::\"\nmetricsBindAddress: 127.0.0.1:10249", want: "127.0.0.1:10249"},
		"bindAddress is nonsense, which kube-proxy refuses": {document: "bindAddress: everywhere", want: "127.0.0.1:10249"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := MetricsAddress(head + tc.document); got != tc.want {
				t.Errorf("address is %s, want %s", got, tc.want)
			}
		})
	}
}
