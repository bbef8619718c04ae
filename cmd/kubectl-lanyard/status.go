package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// form is how something is printed.
type form string

// The forms.
const (
	asText form = ""
	asWide form = "wide"
	asJSON form = "json"
	asYAML form = "yaml"
)

// outputFlag adds -o to a command.
func outputFlag(command *cobra.Command, to *string) {
	command.Flags().StringVarP(to, "output", "o", "", "json, yaml or wide; without, a text for people")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml", "wide"}, cobra.ShellCompDirectiveNoFileComp))
}

// printed is something that has a text for people.
type printed interface {
	text(to io.Writer, wide bool) error
}

// print writes something in a form.
func (f form) print(to io.Writer, what printed) error {
	switch f {
	case asText, asWide:
		return what.text(to, f == asWide)
	case asJSON:
		encoder := json.NewEncoder(to)
		encoder.SetIndent("", "  ")
		return encoder.Encode(what)
	case asYAML:
		document, err := yaml.Marshal(what)
		if err != nil {
			return fmt.Errorf("writing YAML: %w", err)
		}
		_, err = to.Write(document)
		return err
	}
	return fmt.Errorf("there is no output %q: write json, yaml or wide, or leave -o out", string(f))
}

// reach makes a client of the cluster that kubectl's flags name.
func reach(flags *genericclioptions.ConfigFlags) (client.Client, error) {
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering API kinds: %w", err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("reaching the cluster: %w", err)
	}
	return c, nil
}

// network reads the object and the speakers' reports.
func network(ctx context.Context, c client.Client) (cnet v1alpha1.ClusterNetworking, reports []v1alpha1.NodeNetworking, err error) {
	err = c.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterNetworkingName}, &cnet)
	switch {
	case meta.IsNoMatchError(err):
		return cnet, nil, fmt.Errorf("the cluster knows no ClusterNetworking: Lanyard is not installed there")
	case apierrors.IsNotFound(err):
		return cnet, nil, fmt.Errorf("there is no ClusterNetworking %q: apply one, as config/samples/tutorial.yaml is", v1alpha1.ClusterNetworkingName)
	case err != nil:
		return cnet, nil, fmt.Errorf("reading ClusterNetworking %q: %w", v1alpha1.ClusterNetworkingName, err)
	}
	var list v1alpha1.NodeNetworkingList
	if err := c.List(ctx, &list); err != nil {
		return cnet, nil, fmt.Errorf("listing NodeNetworkings: %w", err)
	}
	return cnet, list.Items, nil
}

// text prints the overview as it is now.
func (o overview) text(to io.Writer, wide bool) error { return o.print(to, time.Now(), wide) }

// text prints the sentences; there is nothing wider.
func (h holder) text(to io.Writer, _ bool) error { return h.print(to) }

func newStatus(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the network on one screen",
		Long:  "Shows how kube-proxy runs on each node, how full the pools are, who answers for each address, and what a person should look at.",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := reach(flags)
			if err != nil {
				return err
			}
			cnet, reports, err := network(command.Context(), c)
			if err != nil {
				return err
			}
			return form(output).print(streams.Out, over(cnet, reports))
		},
	}
	outputFlag(command, &output)
	return command
}

func newWhoHas(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:     "who-has IP",
		Short:   "Say who has an address",
		Long:    "Says which Services show an address, which node answers for it, and who else was seen with it on the LAN.",
		Example: "  kubectl lanyard who-has 192.168.1.200",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			addr, err := netip.ParseAddr(args[0])
			if err != nil {
				return fmt.Errorf("%q is no address: write one, like 192.168.1.200", args[0])
			}
			c, err := reach(flags)
			if err != nil {
				return err
			}
			cnet, reports, err := network(command.Context(), c)
			if err != nil {
				return err
			}
			var services corev1.ServiceList
			if err := c.List(command.Context(), &services); err != nil {
				return fmt.Errorf("listing Services: %w", err)
			}
			return form(output).print(streams.Out, whoHas(addr.Unmap(), cnet, services.Items, reports))
		},
	}
	outputFlag(command, &output)
	return command
}
