package e2e

import (
	"context"
	"flag"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// The suite runs on the workstation k8s-ops of a lab: its network is the LAN's, and KUBECONFIG points to the cluster.
var (
	labProgram = flag.String("lab", "", "the lab program; without it the suite is skipped")
	labName    = flag.String("lab-name", "lanyard", "the name of the lab that the suite runs in")
	root       = flag.String("root", "../..", "the project's folder")
)

// long marks the specs that wait for minutes: `make test-e2e` leaves them to `make test-e2e-full`.
var long = Label("long")

// k8s reads what the API server says, past every cache.
var k8s client.WithWatch

// TestE2E needs a lab: `make test-e2e` starts one and runs the suite in it.
func TestE2E(t *testing.T) {
	if *labProgram == "" {
		t.Skip("there is no lab here: run `make test-e2e`")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "e2e")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(60 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	SetDefaultConsistentlyDuration(2 * time.Second)
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	Expect(err).NotTo(HaveOccurred())
	scheme := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	k8s, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	run(ctx, "test/reset.sh", "dist/install.yaml")
}, NodeTimeout(5*time.Minute))

// A failure shows what a person on call would look at first.
var _ = JustAfterEach(func(ctx SpecContext) {
	if CurrentSpecReport().Failed() {
		describe(ctx, output)
	}
})

// describe shows what a person on call would look at first, on the cluster that the commands reach.
func describe(ctx context.Context, output func(ctx context.Context, name string, args ...string) (string, error)) {
	for _, command := range [][]string{
		{"describe", "clusternetworking", "cluster"},
		{"get", "services,pods,nodes", "--all-namespaces", "-o", "wide"},
		{"-n", "lanyard-system", "logs", "-l", "app.kubernetes.io/name=lanyard", "--tail=60", "--prefix", "--all-containers"},
	} {
		output, err := output(ctx, "kubectl", command...)
		GinkgoWriter.Println(output, err)
	}
}
