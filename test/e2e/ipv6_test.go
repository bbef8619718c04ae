package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	firstSix = "fd00:192:168:1::200"
	dualPool = `apiVersion: networking.lanyard.dev/v1alpha1
kind: ClusterNetworking
metadata: {name: cluster}
spec:
  ipPools: [{name: lan-pool, addresses: [192.168.1.200-192.168.1.210, "fd00:192:168:1::200-fd00:192:168:1::20a"]}]
  l2Advertisements: [{name: lan-l2}]
`
)

// longestSilence asks for a page over new connections for some seconds, each for 100 ms at most, and prints the longest time from one answer to
// the next in nanoseconds.
const longestSilence = `last=$(date +%%s%%N); longest=0; end=$((last + %d)); while [ $(date +%%s%%N) -lt $end ]; do
  if curl --silent --fail --output /dev/null --max-time 0.1 '%s'; then
    now=$(date +%%s%%N); [ $((now - last)) -gt $longest ] && longest=$((now - last)); last=$now
  fi
done; now=$(date +%%s%%N); [ $((now - last)) -gt $longest ] && longest=$((now - last)); echo $longest`

var _ = Describe("A dual-stack cluster", long, func() {
	It("has an address of each family, which one host answers for, however it is asked, and another when that one is lost", func(ctx SpecContext) {
		dual := startLab(ctx, "dual", "--dual-stack")
		dual.kubectl(ctx, "create", "deployment", "lb-test", "--image=nginx:1.22", "--replicas=2")
		dual.kubectl(ctx, "apply", "--server-side", "-f", "dist/install.yaml")
		dual.kubectl(ctx, "-n", "lanyard-system", "rollout", "status", "deployment", "lanyard-manager", "--timeout=120s")
		dual.apply(ctx, dualPool)
		dual.apply(ctx, service("lb-test", "RequireDualStack", "IPv4, IPv6"))
		dual.apply(ctx, service("lb-four", "SingleStack", "IPv4"))
		dual.apply(ctx, service("lb-six", "SingleStack", "IPv6"))
		for name, want := range map[string]string{
			"lb-test": first + " " + firstSix, "lb-four": "192.168.1.201", "lb-six": "fd00:192:168:1::201",
		} {
			Eventually(dual.ops).WithContext(ctx).WithArguments("kubectl", "get", "service", name, "-o", "jsonpath={.status.loadBalancer.ingress[*].ip}").
				Should(Equal(want))
		}
		for _, url := range []string{"http://" + first, "http://[" + firstSix + "]"} {
			Eventually(dual.ops).WithContext(ctx).WithArguments("curl", "--silent", "--max-time", "1", url).Should(ContainSubstring("Welcome to nginx!"))
		}
		Eventually(dual.told("Ready")).WithContext(ctx).Should(ContainSubstring(" True "))

		owner := dual.ownerOf(ctx, firstSix)
		solicit := func(how string) []string {
			GinkgoHelper()
			printed, err := dual.ops(ctx, "bin/solicit", "--target", firstSix, "--how", how, "--to", owner.mac)
			Expect(err).NotTo(HaveOccurred())
			return strings.Split(strings.TrimSpace(printed), "\n")
		}
		const workstation = "fd00:192:168:1::122"
		Eventually(solicit).WithContext(ctx).WithArguments("multicast").Should(Equal([]string{owner.mac + " SO " + workstation}))
		Expect(solicit("unicast")).To(Equal([]string{owner.mac + " SO " + workstation}))
		Expect(solicit("without-option")).To(Equal([]string{owner.mac + " SO " + workstation}))
		Expect(solicit("duplicate")).To(Equal([]string{owner.mac + " O ff02::1"}), "everybody is told that the address is taken")

		dual.moveWebServersOff(ctx, owner.node)
		measured := make(chan string, 1)
		go func() {
			printed, err := dual.ops(ctx, "sh", "-c", fmt.Sprintf(longestSilence, int64(15*time.Second), "http://["+firstSix+"]"))
			measured <- fmt.Sprint(strings.TrimSpace(printed), err)
		}()
		time.Sleep(time.Second) // the page is asked for some times before
		dual.run(ctx, "cut", owner.node)
		text := <-measured
		longest, err := strconv.ParseInt(strings.TrimSuffix(text, "<nil>"), 10, 64)
		Expect(err).NotTo(HaveOccurred(), text)
		AddReportEntry("longest time without an answer by IPv6 after a cut of the cable", time.Duration(longest).String())
		Expect(time.Duration(longest)).To(BeNumerically("<=", failover))
		// By the wire: the manager, which writes the status, may run on the node that was lost.
		answers := solicit("multicast")
		Expect(answers).To(HaveLen(1))
		successor := strings.Fields(answers[0])
		Expect(successor).To(HaveExactElements(Not(Equal(owner.mac)), "SO", workstation))
		Expect(dual.ops(ctx, "ip", "-6", "neighbour", "show", firstSix)).To(ContainSubstring(successor[0]), "the client's neighbour table is right")
	}, SpecTimeout(10*time.Minute))
})

// service is a load balancer's manifest.
func service(name, policy, families string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %s}
spec: {type: LoadBalancer, ipFamilyPolicy: %s, ipFamilies: [%s], selector: {app: lb-test}, ports: [{port: 80}]}
`, name, policy, families)
}

// apply applies a manifest there.
func (o otherLab) apply(ctx context.Context, manifest string) {
	GinkgoHelper()
	_, err := o.ops(ctx, "sh", "-c", "kubectl apply -f - <<'END'\n"+manifest+"END")
	Expect(err).NotTo(HaveOccurred())
}

// answerer is who answers for an address.
type answerer struct{ node, mac string }

// ownerOf waits until its status names who answers.
func (o otherLab) ownerOf(ctx context.Context, address string) answerer {
	GinkgoHelper()
	var owner []string
	Eventually(func(ctx context.Context) ([]string, error) {
		printed, err := o.ops(ctx, "kubectl", "get", "clusternetworking", "cluster", "-o",
			`jsonpath={range .status.allocatedIPs[?(@.ip=="`+address+`")]}{.node} {.mac}{end}`)
		owner = strings.Fields(printed)
		return owner, err
	}).WithContext(ctx).Should(HaveLen(2))
	return answerer{owner[0], owner[1]}
}

// moveWebServersOff moves the web servers off a node that is going to be hurt.
func (o otherLab) moveWebServersOff(ctx context.Context, node string) {
	GinkgoHelper()
	o.kubectl(ctx, "patch", "deployment", "lb-test", "-p", webServersOff(node))
	o.kubectl(ctx, "rollout", "status", "deployment", "lb-test", "--timeout=120s")
}
