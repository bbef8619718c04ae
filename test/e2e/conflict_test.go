package e2e

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"time"

	"github.com/mdlayher/arp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// stranger is the hardware address of a host that the cluster knows nothing of.
var stranger = net.HardwareAddr{0x02, 0, 0, 0, 0, 0x99}

// onLAN opens the workstation's interface for ARP packets.
func onLAN() *arp.Client {
	GinkgoHelper()
	eth0, err := net.InterfaceByName("eth0")
	Expect(err).NotTo(HaveOccurred())
	lan, err := arp.Dial(eth0)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(lan.Close)
	return lan
}

// strangerAnnounces says to everybody that a stranger has an address, as a host does that has just been given it (RFC 5227, section 2.3).
func strangerAnnounces(lan *arp.Client, address string) {
	GinkgoHelper()
	addr := netip.MustParseAddr(address)
	packet, err := arp.NewPacket(arp.OperationRequest, stranger, addr, net.HardwareAddr{0, 0, 0, 0, 0, 0}, addr)
	Expect(err).NotTo(HaveOccurred())
	Expect(lan.WriteTo(packet, net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})).To(Succeed())
}

// quarantined returns what the status says of foreign hosts, by address.
func quarantined(ctx context.Context) (map[string]string, error) {
	cnet, err := clusterNetworking(ctx)
	if err != nil {
		return nil, err
	}
	hosts := map[string]string{}
	for _, q := range cnet.Status.QuarantinedIPs {
		hosts[q.IP] = q.MAC
	}
	return hosts, nil
}

// conflictSpecs put hosts on the LAN that have addresses of the pools.
func conflictSpecs() {
	It("gives no Service an address that a host has which has never said so", func(ctx SpecContext) {
		eth0, err := net.InterfaceByName("eth0")
		Expect(err).NotTo(HaveOccurred())
		run(ctx, "ip", "address", "add", "192.168.1.220/32", "dev", "eth0")
		DeferCleanup(func(ctx SpecContext) { run(ctx, "ip", "address", "delete", "192.168.1.220/32", "dev", "eth0") })
		cnet, err := clusterNetworking(ctx)
		Expect(err).NotTo(HaveOccurred())
		pools, err := json.Marshal(cnet.Spec.IPPools)
		Expect(err).NotTo(HaveOccurred())
		seen := addressesSeen(ctx, "lb-test")
		patchSpec(ctx, `{"ipPools":[{"name":"guests","addresses":["192.168.1.220-192.168.1.221"]},`+
			`{"name":"lan-pool","addresses":["192.168.1.200-192.168.1.210"]}]}`)
		DeferCleanup(func(ctx SpecContext) {
			patchSpec(ctx, `{"ipPools":`+string(pools)+`}`)
			Eventually(condition("Ready")).WithContext(ctx).Should(HavePrefix("True Ready: "))
		})
		kubectl(ctx, "expose", "deployment", "lb-test", "--type=LoadBalancer", "--port=80")
		DeferCleanup(func(ctx SpecContext) { kubectl(ctx, "delete", "service", "lb-test") })
		Eventually(addressOf("lb-test")).WithContext(ctx).Should(Equal("192.168.1.221"))
		Expect(seen()).To(Equal([]string{"", "192.168.1.221"}))
		Eventually(quarantined).WithContext(ctx).Should(HaveKeyWithValue("192.168.1.220", eth0.HardwareAddr.String()))
		Eventually(condition("IPPoolsReady")).WithContext(ctx).Should(And(HavePrefix("True Ready: "),
			ContainSubstring("not given out: 192.168.1.220 (the host "+eth0.HardwareAddr.String()+" on the LAN, which ")))
		Eventually(output).WithContext(ctx).WithArguments("kubectl", "get", "events", "--all-namespaces", "--field-selector", "reason=AddressQuarantined").
			Should(ContainSubstring("192.168.1.220 of pool guests is answered for by the host " + eth0.HardwareAddr.String()))
	})

	It("defends an address that a host takes later, and tells who that is", func(ctx SpecContext) {
		owner := ready(ctx)
		lan := onLAN()
		start := time.Now()
		strangerAnnounces(lan, first)
		Expect(lan.SetReadDeadline(start.Add(10 * time.Second))).To(Succeed())
		for { // until the owner announces it again
			packet, _, err := lan.Read()
			Expect(err).NotTo(HaveOccurred(), "the owner does not announce it again")
			if packet.SenderIP == netip.MustParseAddr(first) && packet.TargetIP == packet.SenderIP && packet.SenderHardwareAddr.String() == owner.MAC {
				break
			}
		}
		AddReportEntry("the owner announced it again after", time.Since(start).String())
		Eventually(quarantined).WithContext(ctx).WithPolling(20 * time.Millisecond).Should(HaveKeyWithValue(first, stranger.String()))
		AddReportEntry("the status named the host after", time.Since(start).String())
		Eventually(condition("IPPoolsReady")).WithContext(ctx).Should(And(HavePrefix("True Ready: "),
			ContainSubstring(first+", which this Service has, is claimed by the host "+stranger.String()+" on the LAN, which ")))
		Eventually(output).WithContext(ctx).WithArguments("kubectl", "get", "events", "--field-selector", "reason=AddressContested").
			Should(ContainSubstring("is claimed by the host " + stranger.String()))
		Expect(addressOf("lb-next")(ctx)).To(Equal(first))
		Expect(agree(ctx, first).Node).To(Equal(owner.Node))
	})
}
