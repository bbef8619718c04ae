package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// checkTime is how long what is not as it should be may take to become so: a manager that was just installed starts, and takes the lead.
const checkTime = 2 * time.Minute

// mark says how something stands.
type mark string

// The marks.
const (
	pass mark = "PASS"
	warn mark = "WARN" // it works, and a person should know
	fail mark = "FAIL"
)

// finding is one thing that was looked at.
type finding struct {
	mark mark
	text string
}

// installation is what the API server shows of one.
type installation struct {
	namespace  *corev1.Namespace
	deployment *appsv1.Deployment
	lease      *coordinationv1.Lease
	// network is nil where there is none.
	network *v1alpha1.ClusterNetworking
}

// checkInstallation prints what it finds, and fails where something is not as it should be and does not become so.
func (c config) checkInstallation(ctx context.Context, server *rest.Config, scheme *runtime.Scheme) error {
	api, err := client.New(server, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	for {
		seen, err := c.look(ctx, api)
		var findings []finding
		if err == nil {
			findings = judge(seen, time.Now())
		}
		if err == nil && !failing(findings) || ctx.Err() != nil {
			return tell(findings, err)
		}
		select {
		case <-ctx.Done():
			return tell(findings, err)
		case <-time.After(2 * time.Second):
		}
	}
}

// look reads what a check is about. A kind that the API server does not know is an error too: the CRDs are missing.
func (c config) look(ctx context.Context, api client.Client) (installation, error) {
	i := installation{namespace: &corev1.Namespace{}, deployment: &appsv1.Deployment{}, lease: &coordinationv1.Lease{}, network: &v1alpha1.ClusterNetworking{}}
	for _, wanted := range []struct {
		key    client.ObjectKey
		object client.Object
	}{
		{client.ObjectKey{Name: c.Namespace}, i.namespace},
		{client.ObjectKey{Namespace: c.Namespace, Name: c.Deployment}, i.deployment},
		{client.ObjectKey{Namespace: c.Namespace, Name: leaseName}, i.lease},
	} {
		if err := api.Get(ctx, wanted.key, wanted.object); client.IgnoreNotFound(err) != nil {
			return i, fmt.Errorf("reading %T %s: %w", wanted.object, wanted.key, err)
		}
	}
	var networks v1alpha1.ClusterNetworkingList
	if err := api.List(ctx, &networks); err != nil {
		return i, fmt.Errorf("listing ClusterNetworkings: %w", err)
	}
	i.network = nil
	if len(networks.Items) > 0 {
		i.network = &networks.Items[0]
	}
	return i, nil
}

// judge says how an installation stands.
func judge(i installation, now time.Time) []finding {
	return []finding{judgeDeployment(i.deployment), judgeLease(i.lease, now), judgeNamespace(i.namespace), judgeNetwork(i.network)}
}

func judgeDeployment(d *appsv1.Deployment) finding {
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	text := fmt.Sprintf("%d of %d managers are available", d.Status.AvailableReplicas, wanted)
	switch available := d.Status.AvailableReplicas; {
	case d.Name == "":
		return finding{fail, "there is no Deployment of the manager: install Lanyard again"}
	case available >= wanted:
		return finding{pass, text}
	case available > 0:
		return finding{warn, text + ", which is enough until one is lost: kubectl --namespace " + d.Namespace + " describe pods"}
	default:
		return finding{fail, text + ": kubectl --namespace " + d.Namespace + " describe pods"}
	}
}

func judgeLease(l *coordinationv1.Lease, now time.Time) finding {
	holder, renewed, lasts := l.Spec.HolderIdentity, l.Spec.RenewTime, l.Spec.LeaseDurationSeconds
	if holder == nil || *holder == "" || renewed == nil || lasts == nil || now.Sub(renewed.Time) > time.Duration(*lasts)*time.Second {
		return finding{fail, "no manager leads: see the managers' log"}
	}
	return finding{pass, *holder + " leads"}
}

const podSecurityLabel = "pod-security.kubernetes.io/enforce"

func judgeNamespace(ns *corev1.Namespace) finding {
	command := fmt.Sprintf("kubectl label --overwrite namespace %s %s=privileged", ns.Name, podSecurityLabel)
	switch level := ns.Labels[podSecurityLabel]; level {
	case "privileged":
		return finding{pass, "the namespace lets speakers onto the nodes' network"}
	case "":
		return finding{warn, "the namespace has no label " + podSecurityLabel + ": where the cluster's default is stricter, no speaker starts before " + command}
	default:
		return finding{fail, fmt.Sprintf("the namespace is labelled %s=%s, which lets no speaker start: %s", podSecurityLabel, level, command)}
	}
}

func judgeNetwork(n *v1alpha1.ClusterNetworking) finding {
	if n == nil {
		return finding{pass, "there is no ClusterNetworking yet: apply one"}
	}
	ready := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil || ready.ObservedGeneration != n.Generation:
		return finding{fail, "no manager has said anything of ClusterNetworking " + n.Name}
	case ready.Status == metav1.ConditionTrue:
		return finding{pass, fmt.Sprintf("ClusterNetworking %s is Ready: %s", n.Name, ready.Message)}
	default:
		return finding{fail, fmt.Sprintf("ClusterNetworking %s is not Ready (%s): %s", n.Name, ready.Reason, ready.Message)}
	}
}

func failing(all []finding) bool {
	for _, f := range all {
		if f.mark == fail {
			return true
		}
	}
	return false
}

// tell prints the findings.
func tell(all []finding, err error) error {
	for _, f := range all {
		fmt.Fprintln(os.Stdout, f.mark, f.text)
	}
	if err == nil && failing(all) {
		err = errors.New("the installation does not work: what failed stands above")
	}
	return err
}
