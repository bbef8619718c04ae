package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// otherLab is a lab beside the suite's own, for clusters of another shape. It goes when the spec ends.
type otherLab string

// startLab starts a lab of a size, with Lanyard's image on its nodes.
func startLab(ctx context.Context, suffix string, size ...string) otherLab {
	GinkgoHelper()
	o := otherLab(*labName + "-" + suffix)
	o.run(ctx, append([]string{"up"}, size...)...)
	DeferCleanup(func(ctx SpecContext) {
		if CurrentSpecReport().Failed() {
			describe(ctx, func(ctx context.Context, name string, args ...string) (string, error) {
				return o.ops(ctx, append([]string{name}, args...)...)
			})
		}
		o.run(ctx, "down")
	}, NodeTimeout(2*time.Minute))
	o.run(ctx, "load", "dist/lanyard.tar")
	return o
}

// run turns its knobs.
func (o otherLab) run(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return run(ctx, *labProgram, append([]string{"--name", string(o)}, args...)...)
}

// on runs a command on one of its hosts.
func (o otherLab) on(ctx context.Context, host string, command ...string) (string, error) {
	return output(ctx, *labProgram, append([]string{"--name", string(o), "exec", host, "--"}, command...)...)
}

// ops runs a command on its workstation.
func (o otherLab) ops(ctx context.Context, command ...string) (string, error) {
	return o.on(ctx, "k8s-ops", command...)
}

// reply is what one request was answered with.
type reply struct {
	// sent and received count requests and answers: more answers than requests are two hosts, or one that answers twice.
	sent, received int
	macs           []string
}

// asked sends three ARP requests from a host's interface.
func (o otherLab) asked(ctx context.Context, host, iface, address string) reply {
	printed, err := o.on(ctx, host, append([]string{"arping"}, arping(iface, address)...)...)
	r := reply{macs: replies(printed, err)}
	for line := range strings.Lines(printed) {
		_, _ = fmt.Sscanf(line, "Sent %d probes", &r.sent) // other lines are as they are
		_, _ = fmt.Sscanf(line, "Received %d response", &r.received)
	}
	return r
}

// answering returns the hardware addresses that answer for an address of its LAN.
func (o otherLab) answering(ctx context.Context, address string) []string {
	return o.asked(ctx, "k8s-ops", "eth0", address).macs
}

// kubectl does what a person types there.
func (o otherLab) kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	printed, err := o.ops(ctx, append([]string{"kubectl"}, args...)...)
	Expect(err).NotTo(HaveOccurred())
	return printed
}

// told returns what a condition of its object says.
func (o otherLab) told(condition string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return o.ops(ctx, "kubectl", "get", "clusternetworking", "cluster", "-o",
			`jsonpath={range .status.conditions[?(@.type=="`+condition+`")]}{.observedGeneration} {.status} {.reason}: {.message}{end}`)
	}
}
