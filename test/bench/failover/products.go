package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	_ "embed" // the manifests

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// product is something that announces the addresses of Services.
type product struct {
	name, namespace, daemonSet, selector string
	// port is that of its membership.
	port int
	// program is the one that gives out addresses.
	program string
	// install puts it into the cluster, give has it give out the addresses of a pool, of none where it is empty; remove takes it out, if it is there.
	install func(ctx context.Context, b *bench) error
	give    func(ctx context.Context, b *bench, pool string) error
	remove  func(ctx context.Context, b *bench) error
	// owner is the node that announces a Service's address, by its status; empty while the status names none.
	owner func(ctx context.Context, b *bench, service, addr string) (string, error)
	// losesStatus says that the status may name nobody for good, although a node announces.
	losesStatus bool
}

var everyProduct = []product{
	{name: "lanyard", namespace: "lanyard-system", daemonSet: "lanyard-speaker", port: 7956, program: "manager",
		selector: "app.kubernetes.io/name=lanyard,app.kubernetes.io/component=speaker",
		install:  installLanyard, give: giveLanyard, remove: removeLanyard, owner: lanyardOwner},
	{name: "metallb", namespace: "metallb-system", daemonSet: "speaker", port: 7946, program: "controller",
		selector: "app=metallb,component=speaker",
		install:  installMetalLB, give: giveMetalLB, remove: removeMetalLB, owner: metallbOwner,
		losesStatus: true}, // who gives an address back may remove the ServiceL2Status that the next one has already written
}

//go:embed manifests/lanyard.yaml
var lanyardObject string

const (
	lanyardManifest = "dist/install.yaml"
	metallbManifest = "test/bench/peers/metallb.yaml"
	metallbPool     = "test/bench/peers/pool.yaml"
)

func installLanyard(ctx context.Context, b *bench) error {
	_, err := b.lab.kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", lanyardManifest)
	return err
}

func giveLanyard(ctx context.Context, b *bench, pool string) error {
	if pool == "" {
		return b.lab.apply(ctx, withoutPools)
	}
	return b.lab.apply(ctx, strings.ReplaceAll(lanyardObject, "POOL", pool))
}

// withoutPools is the object by which the speakers run, and nothing is given out.
const withoutPools = "apiVersion: networking.lanyard.dev/v1alpha1\nkind: ClusterNetworking\nmetadata: {name: cluster}\nspec: {l2Advertisements: [{name: bench}]}\n"

func removeLanyard(ctx context.Context, b *bench) error {
	if _, err := b.lab.kubectl(ctx, "get", "crd", "clusternetworkings.networking.lanyard.dev"); err == nil {
		if _, err := b.lab.kubectl(ctx, "delete", "clusternetworking", "--all"); err != nil {
			return err
		}
	}
	_, err := b.lab.kubectl(ctx, "delete", "--ignore-not-found", "--timeout=120s", "-f", lanyardManifest)
	return err
}

// lanyardOwner asks the speakers' own reports, which hold the first 500 addresses of each.
func lanyardOwner(ctx context.Context, b *bench, _, addr string) (string, error) {
	var reports v1alpha1.NodeNetworkingList
	if err := b.api.List(ctx, &reports); err != nil {
		return "", fmt.Errorf("reading the speakers' reports: %w", err)
	}
	var owners []string
	for _, r := range reports.Items {
		for _, a := range r.Status.Announced {
			if a.IP == addr {
				owners = append(owners, r.Name)
			}
		}
	}
	return strings.Join(owners, " and "), nil
}

func installMetalLB(ctx context.Context, b *bench) error {
	if b.crds == "" {
		return errors.New("--metallb-crds is empty: it has to be the folder with MetalLB's CRDs")
	}
	for _, manifest := range []string{b.crds, metallbManifest} {
		if _, err := b.lab.kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", manifest); err != nil {
			return err
		}
	}
	_, err := b.lab.kubectl(ctx, "-n", b.product.namespace, "rollout", "status", "deployment/controller", "--timeout=120s")
	return err
}

func giveMetalLB(ctx context.Context, b *bench, pool string) error {
	if pool == "" {
		return nil
	}
	manifest, err := b.lab.read(metallbPool)
	if err != nil {
		return err
	}
	return b.lab.apply(ctx, strings.ReplaceAll(manifest, "POOL", pool))
}

func removeMetalLB(ctx context.Context, b *bench) error {
	_, err := b.lab.kubectl(ctx, "delete", "--ignore-not-found", "--timeout=120s", "-f", metallbManifest)
	if err != nil || b.crds == "" {
		return err
	}
	_, err = b.lab.kubectl(ctx, "delete", "--ignore-not-found", "--timeout=120s", "-f", b.crds)
	return err
}

func metallbOwner(ctx context.Context, b *bench, service, _ string) (string, error) {
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "metallb.io", Version: "v1beta1", Kind: "ServiceL2StatusList"})
	if err := b.api.List(ctx, &list); err != nil {
		return "", fmt.Errorf("reading MetalLB's status: %w", err)
	}
	var owners []string
	for _, item := range list.Items {
		name, _, _ := unstructured.NestedString(item.Object, "status", "serviceName")
		node, _, _ := unstructured.NestedString(item.Object, "status", "node")
		if name == service && node != "" {
			owners = append(owners, node)
		}
	}
	return strings.Join(owners, " and "), nil
}

// speakersReady says what is missing until every speaker runs as its DaemonSet has it.
func speakersReady(ctx context.Context, b *bench) error {
	return daemonSetReady(ctx, b.api, client.ObjectKey{Namespace: b.product.namespace, Name: b.product.daemonSet})
}

// daemonSetReady says what is missing until every pod of a DaemonSet is ready and as it should be.
func daemonSetReady(ctx context.Context, api client.Client, key client.ObjectKey) error {
	var ds appsv1.DaemonSet
	if err := api.Get(ctx, key, &ds); err != nil {
		return fmt.Errorf("reading the DaemonSet %s: %w", key, err)
	}
	s := ds.Status
	if s.ObservedGeneration != ds.Generation || s.UpdatedNumberScheduled != s.DesiredNumberScheduled || s.NumberReady != s.DesiredNumberScheduled ||
		s.DesiredNumberScheduled == 0 {
		return fmt.Errorf("of %d pods of %s, %d are ready and %d as they should be", s.DesiredNumberScheduled, key, s.NumberReady, s.UpdatedNumberScheduled)
	}
	return nil
}

// installedReady waits until a product that was just installed runs everywhere.
func (b *bench) installedReady(ctx context.Context) error {
	return await(ctx, "the speakers", 3*time.Minute, func(ctx context.Context) error {
		err := speakersReady(ctx, b)
		if apierrors.IsNotFound(err) {
			return errors.New("the DaemonSet is not there yet")
		}
		return err
	})
}
