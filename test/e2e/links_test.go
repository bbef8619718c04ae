package e2e

import (
	"context"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// The nodes with kernels of their own: this machine's may have neither bonding nor 802.1q.
const (
	announcer = "k8s-uml-01"
	neighbour = "k8s-uml-02"
)

// cableMAC is the hardware address of the announcer's eth0.
const cableMAC = "02:00:c0:a8:01:bf"

// onVLAN is an address of the network 10.10.0.0/24, which exists in VLAN 10 alone.
const onVLAN = "10.10.0.200"

// onePerRequest is what arping's three requests should be answered with.
func onePerRequest(mac string) reply { return reply{sent: 3, received: 3, macs: []string{mac}} }

// links runs commands of iproute2 on a node, which has a console besides its network. It forgets its routes with its address.
func (o otherLab) links(ctx context.Context, node string, commands ...string) {
	GinkgoHelper()
	_, err := o.on(ctx, node, "sh", "-ec", "ip "+strings.Join(commands, "\nip "))
	Expect(err).NotTo(HaveOccurred())
}

// rehome moves the announcer's own address from one link to another.
func rehome(from, to string) []string {
	return []string{
		"address flush dev " + from,
		"address replace 192.168.1.191/24 dev " + to,
		"route replace default via 192.168.1.1",
		"route replace 10.244.1.0/24 via 192.168.1.125",
	}
}

var _ = Describe("Links that are made of others", long, func() {
	It("answers each request once, with the hardware address of the bond, the bridge or the VLAN that has the network", func(ctx SpecContext) {
		cluster := startLab(ctx, "links", "--nodes", "1", "--uml-nodes", "2")
		cluster.kubectl(ctx, "create", "deployment", "lb-test", "--image=nginx:1.22")
		cluster.kubectl(ctx, "expose", "deployment", "lb-test", "--type=LoadBalancer", "--port=80")
		cluster.kubectl(ctx, "apply", "--server-side", "-f", "dist/install.yaml")
		cluster.kubectl(ctx, "apply", "-f", "config/samples/tutorial.yaml")
		cluster.kubectl(ctx, specPatch(`{"ipPools":[{"name":"lan-pool","addresses":["192.168.1.200-192.168.1.210"]},{"name":"vlan","addresses":["10.10.0.200-10.10.0.209"]}],`+
			`"l2Advertisements":[{"name":"everything","nodeSelector":{"matchLabels":{"kubernetes.io/hostname":"`+announcer+`"}}}]}`)...)
		Eventually(cluster.asked).WithArguments("k8s-ops", "eth0", first).WithTimeout(5*time.Minute).WithContext(ctx).Should(Equal(onePerRequest(cableMAC)), "on the cable itself")

		const bond, bridge = "02:00:00:00:0b:01", "02:00:00:00:0b:02"
		By("putting the cable into a bond")
		cluster.links(ctx, announcer, slices.Concat([]string{"link add bond1 type bond mode active-backup miimon 100", "link set bond1 address " + bond,
			"link set eth0 down", "link set eth0 master bond1", "link set bond1 up"}, rehome("eth0", "bond1"))...)
		Eventually(cluster.asked).WithArguments("k8s-ops", "eth0", first).WithContext(ctx).Should(Equal(onePerRequest(bond)))
		Consistently(cluster.asked).WithArguments("k8s-ops", "eth0", first).WithContext(ctx).Should(Equal(onePerRequest(bond)))

		By("taking it out again")
		cluster.links(ctx, announcer, slices.Concat([]string{"link delete bond1", "link set eth0 address " + cableMAC, "link set eth0 up"}, rehome("eth0", "eth0"))...)
		Eventually(cluster.asked).WithArguments("k8s-ops", "eth0", first).WithContext(ctx).Should(Equal(onePerRequest(cableMAC)))

		By("putting it into a bridge")
		cluster.links(ctx, announcer, slices.Concat([]string{"link add br1 type bridge", "link set br1 address " + bridge, "link set eth0 master br1",
			"link set br1 up"}, rehome("eth0", "br1"))...)
		Eventually(cluster.asked).WithArguments("k8s-ops", "eth0", first).WithContext(ctx).Should(Equal(onePerRequest(bridge)))
		Consistently(cluster.asked).WithArguments("k8s-ops", "eth0", first).WithContext(ctx).Should(Equal(onePerRequest(bridge)))
		cluster.links(ctx, announcer, slices.Concat([]string{"link delete br1"}, rehome("eth0", "eth0"))...)
		Eventually(cluster.asked).WithArguments("k8s-ops", "eth0", first).WithContext(ctx).Should(Equal(onePerRequest(cableMAC)))

		By("adding a VLAN, and a Service with an address there")
		for node, address := range map[string]string{announcer: "10.10.0.191/24", neighbour: "10.10.0.192/24"} {
			cluster.links(ctx, node, "link add link eth0 name eth0.10 type vlan id 10", "address add "+address+" dev eth0.10", "link set eth0.10 up")
		}
		cluster.kubectl(ctx, "expose", "deployment", "lb-test", "--name=on-vlan", "--type=LoadBalancer", "--port=80",
			"--overrides", `{"metadata":{"annotations":{"networking.lanyard.dev/ips":"`+onVLAN+`"}}}`)
		Eventually(cluster.asked).WithArguments(neighbour, "eth0.10", onVLAN).WithContext(ctx).Should(Equal(onePerRequest(cableMAC)))
		Consistently(cluster.asked).WithArguments(neighbour, "eth0.10", onVLAN).WithContext(ctx).Should(Equal(onePerRequest(cableMAC)))
		Expect(cluster.asked(ctx, "k8s-ops", "eth0", onVLAN)).To(Equal(reply{sent: 3}), "outside of the VLAN nobody has it")
		Expect(cluster.asked(ctx, "k8s-ops", "eth0", first)).To(Equal(onePerRequest(cableMAC)), "and the LAN's own address is where it was")
	}, SpecTimeout(20*time.Minute))
})
