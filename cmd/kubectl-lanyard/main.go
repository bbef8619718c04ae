// Program kubectl-lanyard is the kubectl plugin: `kubectl lanyard`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}).ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1) // cobra has said why
	}
}

// newCommand is the plugin's command line. Flags about the cluster are kubectl's.
func newCommand(streams genericiooptions.IOStreams) *cobra.Command {
	flags := genericclioptions.NewConfigFlags(true)
	root := &cobra.Command{
		Use: "kubectl-lanyard", Short: "See and set up a cluster's network, which Lanyard manages", SilenceUsage: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl lanyard"},
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	flags.AddFlags(root.PersistentFlags())
	imports := &cobra.Command{Use: "import", Short: "Say what another load balancer is told as one ClusterNetworking"}
	imports.AddCommand(newImportMetalLB(flags, streams))
	root.AddCommand(imports, newStatus(flags, streams), newWhoHas(flags, streams))
	return root
}
