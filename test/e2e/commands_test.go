package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// output runs a command in the project's folder, and returns what it printed.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = *root
	printed, err := cmd.CombinedOutput()
	if err != nil {
		return string(printed), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, printed)
	}
	return string(printed), nil
}

// run runs a command that must succeed.
func run(ctx context.Context, name string, args ...string) string {
	GinkgoHelper()
	printed, err := output(ctx, name, args...)
	Expect(err).NotTo(HaveOccurred())
	return printed
}

// kubectl does what a person types.
func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return run(ctx, "kubectl", args...)
}

// kubectlApply applies a manifest.
func kubectlApply(ctx context.Context, manifest string) {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, "kubectl", "apply", "--server-side", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	printed, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(printed))
}

// patchSpec changes what is named of the object's spec, and leaves the rest.
func patchSpec(ctx context.Context, spec string) {
	GinkgoHelper()
	kubectl(ctx, specPatch(spec)...)
}

// specPatch are the arguments of kubectl that change what is named of the object's spec.
func specPatch(spec string) []string {
	return []string{"patch", "clusternetworking", "cluster", "--type=merge", "-p", `{"spec":` + spec + `}`}
}

// lab turns the lab's knobs: cables, power.
func lab(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return run(ctx, *labProgram, append([]string{"--name", *labName}, args...)...)
}

// curl returns the page at an address of the LAN.
func curl(address string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return output(ctx, "curl", "--silent", "--show-error", "--fail", "--max-time", "1", "http://"+address)
	}
}

var replyFrom = regexp.MustCompile(`reply from \S+ \[([0-9A-F:]+)\]`)

// answering returns the hardware addresses that answer for an address of the LAN, asked by broadcast three times.
func answering(ctx context.Context, address string) []string {
	return answeringOn(ctx, "eth0", address)
}

func answeringOn(ctx context.Context, iface, address string) []string {
	return replies(output(ctx, "arping", arping(iface, address)...))
}

// arping are its arguments.
func arping(iface, address string) []string { return []string{"-b", "-c", "3", "-I", iface, address} }

// replies returns the hardware addresses in what arping printed.
func replies(printed string, err error) []string {
	if err != nil {
		GinkgoWriter.Println(err) // arping fails when nobody answers, which is an answer as well
	}
	var macs []string
	for _, match := range replyFrom.FindAllStringSubmatch(printed, -1) {
		macs = append(macs, strings.ToLower(match[1]))
	}
	slices.Sort(macs)
	return slices.Compact(macs)
}
