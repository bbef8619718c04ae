package e2e

import (
	"context"
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

// answering returns the hardware addresses that answer for an address of its LAN.
func (o otherLab) answering(ctx context.Context, address string) []string {
	return replies(o.ops(ctx, append([]string{"arping"}, arping("eth0", address)...)...))
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
