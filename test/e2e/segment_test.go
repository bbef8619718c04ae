package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// onSecond is an address of the second LAN, on which the nodes have nothing else: their gossip stays on the first one.
const onSecond = "10.1.0.200"

// answeringOnSecond returns the hardware addresses that answer for it.
func answeringOnSecond(ctx context.Context) []string { return answeringOn(ctx, "eth1", onSecond) }

// agreeOnSecond waits until exactly one host answers there, the one that the status names.
func agreeOnSecond(ctx context.Context) v1alpha1.AllocatedIP {
	GinkgoHelper()
	return agreeOn(ctx, "eth1", onSecond)
}

// onSecondLAN gives the nodes a second LAN, and a Service an address there.
func onSecondLAN(ctx context.Context) {
	GinkgoHelper()
	lab(ctx, "second-lan")
	DeferCleanup(func(ctx SpecContext) { lab(ctx, "second-lan", "--remove") })
	cnet, err := clusterNetworking(ctx)
	Expect(err).NotTo(HaveOccurred())
	pools, err := json.Marshal(cnet.Spec.IPPools)
	Expect(err).NotTo(HaveOccurred())
	patchSpec(ctx, `{"ipPools":[{"name":"second","addresses":["10.1.0.200-10.1.0.209"]},{"name":"lan-pool","addresses":["192.168.1.200-192.168.1.210"]}],`+
		`"l2Advertisements":[{"name":"everywhere"}]}`)
	DeferCleanup(func(ctx SpecContext) {
		patchSpec(ctx, `{"ipPools":`+string(pools)+`,"l2Advertisements":[{"name":"lan-l2","ipPools":["lan-pool"]}]}`)
		ready(ctx)
	})
	kubectl(ctx, "expose", "deployment", "lb-test", "--type=LoadBalancer", "--port=80")
	DeferCleanup(func(ctx SpecContext) { kubectl(ctx, "delete", "service", "lb-test") })
	Eventually(addressOf("lb-test")).WithContext(ctx).Should(Equal(onSecond))
}

// segmentSpecs have an address on a LAN of its own, and take nodes off that LAN alone: their speakers go on hearing each other.
func segmentSpecs() {
	It("moves an address off a node that has lost its LAN, with carrier or without, and leaves it there", func(ctx SpecContext) {
		onSecondLAN(ctx)
		for _, fault := range []struct {
			what string
			cut  []string
			// moved is why the address moved.
			moved v1alpha1.MoveReason
		}{
			{"loss of carrier", []string{"cut", "--second"}, v1alpha1.MoveNoInterface},
			{"death of the switch port", []string{"cut", "--second", "--silent"}, v1alpha1.MoveNoInterface},
		} {
			owner := agreeOnSecond(ctx)
			moveWebServersOff(ctx, owner.Node)
			By(fault.what + " of " + owner.Node)
			outage := measureOutage(ctx, onSecond)
			lab(ctx, append(fault.cut, owner.Node)...)
			DeferCleanup(func(ctx SpecContext) { lab(ctx, "mend", "--second", owner.Node) })
			Eventually(answeringOnSecond).WithContext(ctx).Should(And(HaveLen(1), Not(ContainElement(owner.MAC))))
			Eventually(curl(onSecond)).WithContext(ctx).Should(ContainSubstring("Welcome to nginx!"))
			longest, _ := outage.stop()
			AddReportEntry("longest time without an answer after the "+fault.what+" on the second LAN", longest.String())
			successor := agreeOnSecond(ctx)
			Expect(successor.Node).NotTo(Equal(owner.Node))
			Expect(*successor.LastMove).To(And(HaveField("From", owner.Node), HaveField("Reason", fault.moved)))

			lab(ctx, "mend", "--second", owner.Node)
			Consistently(answeringOnSecond).WithTimeout(5 * time.Second).WithPolling(time.Second).WithContext(ctx).Should(Equal([]string{successor.MAC}))
		}
	})

	It("moves an address within 250 ms of the loss of carrier, each time", long, func(ctx SpecContext) {
		const times, within = 20, 250 * time.Millisecond
		onSecondLAN(ctx)
		var gaps []time.Duration
		for range times {
			owner := agreeOnSecond(ctx)
			outage := measureOutage(ctx, onSecond)
			DeferCleanup(func(ctx SpecContext) { lab(ctx, "mend", "--second", owner.Node) })
			lab(ctx, "cut", "--second", owner.Node)
			Eventually(answeringOnSecond).WithContext(ctx).Should(And(HaveLen(1), Not(ContainElement(owner.MAC))))
			Eventually(curl(onSecond)).WithContext(ctx).Should(ContainSubstring("Welcome to nginx!"))
			longest, _ := outage.stop()
			gaps = append(gaps, longest)
			lab(ctx, "mend", "--second", owner.Node)
			Expect(agreeOnSecond(ctx).Node).NotTo(Equal(owner.Node))
		}
		slices.Sort(gaps)
		AddReportEntry("times without an answer after the loss of carrier", fmt.Sprint(gaps))
		Expect(gaps[times-1]).To(BeNumerically("<=", within))
	}, SpecTimeout(10*time.Minute))

	It("moves an address once, however often the cable of the node that had it is cut", long, func(ctx SpecContext) {
		const flaps, period = 20, 9 * time.Second
		owner := ready(ctx)
		moveWebServersOff(ctx, owner.Node)
		DeferCleanup(func(ctx SpecContext) { lab(ctx, "mend", owner.Node) })
		owners := []string{owner.Node}
		look := func(until time.Time) {
			for time.Now().Before(until) {
				if now, err := ownerOf(first)(ctx); err == nil && now.Node != "" && now.Node != owners[len(owners)-1] {
					owners = append(owners, now.Node)
				}
				time.Sleep(200 * time.Millisecond)
			}
		}
		for range flaps {
			lab(ctx, "cut", owner.Node)
			look(time.Now().Add(period / 3))
			lab(ctx, "mend", owner.Node)
			look(time.Now().Add(2 * period / 3))
		}
		AddReportEntry("owners while the cable flapped", owners)
		Expect(owners).To(HaveLen(2), "it went once, and nobody gave it back")
		Expect(agree(ctx, first).Node).To(Equal(owners[1]))
	})
}
