package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"

	"github.com/lanyard-dev/lanyard/internal/metallb"
)

// metalLBVersions are the versions of MetalLB's objects, the newest first.
var metalLBVersions = []string{"v1beta2", "v1beta1"}

func newImportMetalLB(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	var files []string
	command := &cobra.Command{
		Use:   "metallb",
		Short: "Say what MetalLB is told as one ClusterNetworking",
		Long: `Reads MetalLB's IPAddressPools and L2Advertisements, from files or from the cluster, and prints one ClusterNetworking that says the same. What is
different there, or has no equivalent, stands above it as comments. Nothing is written to the cluster.`,
		Example: `  # From the files that MetalLB was set up with
  kubectl lanyard import metallb -f metallb-pool.yaml > lanyard.yaml
  # From the cluster
  kubectl lanyard import metallb > lanyard.yaml`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			objects, err := metalLBObjects(command.Context(), flags, streams.In, files)
			if err != nil {
				return err
			}
			if len(objects) == 0 {
				return fmt.Errorf("there are no objects of MetalLB's (%s) %s", metallb.Group, where(files))
			}
			spec, remarks, err := metallb.Import(objects)
			if err != nil {
				return err
			}
			text, err := metallb.Write(spec, remarks)
			if err != nil {
				return err
			}
			if _, err := io.WriteString(streams.Out, text); err != nil {
				return fmt.Errorf("printing the ClusterNetworking: %w", err)
			}
			return nil
		},
	}
	command.Flags().StringSliceVarP(&files, "filename", "f", nil, "files to read, - for the standard input; without, the cluster is read")
	return command
}

// where says where MetalLB's objects were looked for.
func where(files []string) string {
	if len(files) == 0 {
		return "in the cluster"
	}
	return "in " + strings.Join(files, ", ")
}

// metalLBObjects reads MetalLB's objects from files or, without any, from the cluster.
func metalLBObjects(ctx context.Context, flags *genericclioptions.ConfigFlags, in io.Reader, files []string) ([]unstructured.Unstructured, error) {
	if len(files) == 0 {
		return metalLBInCluster(ctx, flags)
	}
	var all []unstructured.Unstructured
	for _, name := range files {
		text, err := contents(in, name)
		if err != nil {
			return nil, err
		}
		objects, err := metallb.ReadYAML(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}

// contents reads a file, or the standard input.
func contents(in io.Reader, name string) ([]byte, error) {
	if name != "-" {
		return os.ReadFile(name) // its error names the file
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("reading the standard input: %w", err)
	}
	return text, nil
}

// metalLBInCluster lists MetalLB's objects of all namespaces, each kind in the newest version that is served. A kind that is not served has none.
func metalLBInCluster(ctx context.Context, flags *genericclioptions.ConfigFlags) ([]unstructured.Unstructured, error) {
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reaching the cluster: %w", err)
	}
	var all []unstructured.Unstructured
	for _, resource := range slices.Sorted(maps.Values(metallb.Kinds)) {
		objects, err := listNewest(ctx, c, resource)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	slices.SortStableFunc(all, func(a, b unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GetKind(), b.GetKind()), strings.Compare(a.GetName(), b.GetName()))
	})
	return all, nil
}

func listNewest(ctx context.Context, c dynamic.Interface, resource string) ([]unstructured.Unstructured, error) {
	for _, version := range metalLBVersions {
		list, err := c.Resource(schema.GroupVersionResource{Group: metallb.Group, Version: version, Resource: resource}).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing %s.%s: %w", resource, metallb.Group, err)
		}
		return list.Items, nil
	}
	return nil, nil
}
