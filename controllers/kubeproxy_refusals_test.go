package controllers

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

var _ = Describe("A setting of kube-proxy", func() {
	// declare creates an object with the settings, without keeping it.
	declare := func(ctx SpecContext, set func(*v1alpha1.KubeProxySpec)) error {
		return k8s.Create(ctx, tutorial(func(s *v1alpha1.ClusterNetworkingSpec) {
			s.KubeProxy = &v1alpha1.KubeProxySpec{}
			set(s.KubeProxy)
		}), client.DryRunAll)
	}
	scheduler := func(name v1alpha1.IPVSScheduler) func(*v1alpha1.KubeProxySpec) {
		return func(s *v1alpha1.KubeProxySpec) { s.IPVS.Scheduler = name }
	}
	excluded := func(cidr v1alpha1.ExcludedCIDR) func(*v1alpha1.KubeProxySpec) {
		return func(s *v1alpha1.KubeProxySpec) { s.IPVS.ExcludeCIDRs = []v1alpha1.ExcludedCIDR{cidr} }
	}
	timeout := func(time v1alpha1.IPVSTimeout) func(*v1alpha1.KubeProxySpec) {
		return func(s *v1alpha1.KubeProxySpec) { s.IPVS.UDPTimeout = time }
	}
	nodePorts := func(addresses ...v1alpha1.NodePortAddress) func(*v1alpha1.KubeProxySpec) {
		return func(s *v1alpha1.KubeProxySpec) { s.NodePortAddresses = addresses }
	}
	metrics := func(address v1alpha1.MetricsBindAddress) func(*v1alpha1.KubeProxySpec) {
		return func(s *v1alpha1.KubeProxySpec) { s.MetricsBindAddress = address }
	}
	pods := func(cidr v1alpha1.ClusterCIDR) func(*v1alpha1.KubeProxySpec) {
		return func(s *v1alpha1.KubeProxySpec) { s.ClusterCIDR = cidr }
	}

	DescribeTable("is refused at apply, with the field, the value and the remedy",
		func(ctx SpecContext, set func(*v1alpha1.KubeProxySpec), field, says string) {
			err := declare(ctx, set)
			Expect(err).To(MatchError(And(ContainSubstring("spec.kubeProxy."+field+": "), ContainSubstring(": "+says))))
			Expect(err).NotTo(MatchError(ContainSubstring("evaluation")), "no rule fails to judge the value")
		},
		Entry("a scheduler that IPVS does not have", scheduler("round-robin"), "ipvs.scheduler", `Unsupported value: "round-robin": supported values: "rr", "wrr"`),
		Entry("an excluded address without its length", excluded("10.9.0.1"),
			"ipvs.excludeCIDRs[0]", `"10.9.0.1" is no CIDR: write it like 10.9.0.0/16 or fd00:9::/64; for one address 10.9.0.1/32`),
		Entry("a number as a time", timeout("300"),
			"ipvs.udpTimeout", `"300" is no time that IPVS knows: write hours, minutes and whole seconds, like 15m, 1h30m or 900s; 0s leaves it to the kernel`),
		Entry("a part of a second", timeout("500ms"), "ipvs.udpTimeout", `"500ms" is no time that IPVS knows`),
		Entry("a time before now", timeout("-5m"), "ipvs.udpTimeout", `"-5m" is no time that IPVS knows`),
		Entry("a time that overflows in the kernel", timeout("597h"), "ipvs.udpTimeout", `597h is more than the kernel takes: write 596h or less`),
		Entry("a time that overflows nearly everywhere", timeout("999999h9999999m9999999s"), "ipvs.udpTimeout", `999999h9999999m9999999s is more than the kernel takes`),
		Entry("a misspelt keyword for NodePorts", nodePorts("Primary"),
			"nodePortAddresses[0]", `"Primary" is neither a CIDR nor one of primary, localhost and all: write a network like 192.168.1.0/24, or "primary" for the address that each Node shows`),
		Entry("an interface for NodePorts", nodePorts("192.168.1.0/24", "eth0"), "nodePortAddresses[1]", `"eth0" is neither`),
		Entry("an address for metrics that one node has alone", metrics("192.168.1.10:10249"),
			"metricsBindAddress", `"192.168.1.10:10249" is no address at which each node reaches its own kube-proxy: write 127.0.0.1:10249, or 0.0.0.0:10249 or "[::]:10249" to serve the whole network`),
		Entry("an address for metrics without a port", metrics("127.0.0.1"), "metricsBindAddress", `"127.0.0.1" is no address`),
		Entry("an address for metrics that is none", metrics("127.0.0.256:10249"), "metricsBindAddress", `"127.0.0.256:10249" is no address`),
		Entry("an IPv6 address for metrics without brackets", metrics("::1:10249"), "metricsBindAddress", `"::1:10249" is no address`),
		Entry("a port that no host has", metrics("127.0.0.1:65536"),
			"metricsBindAddress", `"127.0.0.1:65536" has no port between 1 and 65535: kube-proxy's own is 10249`),
		Entry("a pod network without its length", pods("10.244.0.0"),
			"clusterCIDR", `"10.244.0.0" is neither one CIDR nor a pair of an IPv4 and an IPv6 one: write it like 10.244.0.0/16 or 10.244.0.0/16,fd00:10:244::/56, without spaces`),
		Entry("two pod networks of one family", pods("10.244.0.0/16,10.245.0.0/16"), "clusterCIDR", `"10.244.0.0/16,10.245.0.0/16" is neither`),
		Entry("three pod networks", pods("10.244.0.0/16,fd00::/56,10.245.0.0/16"), "clusterCIDR", `"10.244.0.0/16,fd00::/56,10.245.0.0/16" is neither`),
		Entry("a space between pod networks", pods("10.244.0.0/16, fd00::/56"), "clusterCIDR", `"10.244.0.0/16, fd00::/56" is neither`),
		Entry("more NodePort addresses than a spec holds", nodePorts(make([]v1alpha1.NodePortAddress, 33)...), "nodePortAddresses", `Too many: 33: must have at most 32 items`),
		Entry("a time longer than a text may be", timeout(v1alpha1.IPVSTimeout(strings.Repeat("9", 25))), "ipvs.udpTimeout", `Too long: may not be more than 24`),
	)

	DescribeTable("is taken as kube-proxy spells it", func(ctx SpecContext, set func(*v1alpha1.KubeProxySpec)) {
		Expect(declare(ctx, set)).To(Succeed())
	},
		Entry("a scheduler", scheduler("mh")),
		Entry("an IPv6 network that is excluded", excluded("fd00:9::/64")),
		Entry("a time of two units", timeout("1h30m")),
		Entry("the kernel's own time", timeout("0s")),
		Entry("the longest time", timeout("2147483s")),
		Entry("no NodePort address, which is kube-proxy's default", nodePorts([]v1alpha1.NodePortAddress{}...)),
		Entry("keywords and networks for NodePorts, which kube-proxy 1.37 mixes", nodePorts("primary", "localhost", "192.168.1.0/24", "fd00::/64")),
		Entry("metrics on another loopback address", metrics("127.0.0.2:1")),
		Entry("metrics for everyone", metrics("0.0.0.0:10249")),
		Entry("metrics on IPv6", metrics("[::1]:65535")),
		Entry("metrics for everyone on IPv6", metrics("[::]:10249")),
		Entry("one pod network", pods("10.244.0.0/16")),
		Entry("two pod networks", pods("10.244.0.0/16,fd00:10:244::/56")),
		Entry("switches that are off", func(s *v1alpha1.KubeProxySpec) { s.IPVS.StrictARP, s.Conntrack.TCPBeLiberal = new(bool), new(bool) }),
	)

	It("tells an empty list from none", func(ctx SpecContext) {
		cnet := tutorial(func(s *v1alpha1.ClusterNetworkingSpec) {
			s.KubeProxy = &v1alpha1.KubeProxySpec{NodePortAddresses: []v1alpha1.NodePortAddress{}}
		})
		create(ctx, cnet)
		Expect(cnet.Spec.KubeProxy.NodePortAddresses).To(And(BeEmpty(), Not(BeNil())))
		Expect(cnet.Spec.KubeProxy.IPVS.ExcludeCIDRs).To(BeNil())
	})
})
