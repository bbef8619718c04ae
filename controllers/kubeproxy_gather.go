package controllers

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/endpoints"
	"github.com/lanyard-dev/lanyard/internal/ipam"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// kubeProxyObservation is all that a pass decides from.
type kubeProxyObservation struct {
	facts     kubeproxy.Facts
	revision  revision
	object    *v1alpha1.ClusterNetworking
	configMap *corev1.ConfigMap
	daemonSet *appsv1.DaemonSet
	ledger    *corev1.ConfigMap
	uses      []v1alpha1.KubeProxyUse
	// setup is what probes need; only where kube-proxy is laid out as kubeadm does it.
	setup probeSetup
	// calico is what Calico programs nodes by; only where kube-proxy is managed.
	calico kubeproxy.CalicoDataplane
}

func (r *KubeProxyReconciler) gather(ctx context.Context) (kubeProxyObservation, error) {
	o := kubeProxyObservation{facts: kubeproxy.Facts{OwnNode: r.ownNode, Now: r.now()}}
	cnet, err := clusterNetworking(ctx, r.client)
	if err != nil {
		return o, err
	}
	o.declare(cnet)
	if err := r.readProxy(ctx, &o); err != nil {
		return o, err
	}
	if err := r.readLedger(ctx, &o); err != nil {
		return o, err
	}
	if o.facts.Probes, err = r.probes.gather(ctx); err != nil {
		return o, err
	}
	r.waits.Mark(o.facts.Nodes, o.facts.Now)
	for i := range o.facts.Nodes {
		n := &o.facts.Nodes[i]
		n.Verified, n.Away = r.verified[n.Name], r.away[n.Name]
	}
	return o, nil
}

// declare takes over what the object says.
func (o *kubeProxyObservation) declare(cnet *v1alpha1.ClusterNetworking) {
	o.object, o.revision = cnet, revisionOf(cnet)
	if cnet == nil {
		return
	}
	o.facts.Spec = cnet.Spec.KubeProxy
	o.facts.Announcing = len(cnet.Spec.L2Advertisements) > 0
	o.facts.Paused = cnet.Spec.ManagementState == v1alpha1.Paused
}

// readProxy reads kube-proxy's objects and how it runs on the nodes.
func (r *KubeProxyReconciler) readProxy(ctx context.Context, o *kubeProxyObservation) (err error) {
	key := types.NamespacedName{Namespace: kubeproxy.Namespace, Name: kubeproxy.Name}
	if o.configMap, err = getOrNil(ctx, r.client, key, &corev1.ConfigMap{}); err != nil {
		return err
	}
	if o.daemonSet, err = getOrNil(ctx, r.client, key, &appsv1.DaemonSet{}); err != nil {
		return err
	}
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	o.facts.Layout = kubeproxy.CheckLayout(kubeproxy.Evidence{ConfigMap: o.configMap, DaemonSet: o.daemonSet, Nodes: nodes.Items,
		Nowhere: nowhere(o.daemonSet, nodes.Items), Forbidden: r.forbidden})
	if o.configMap != nil {
		o.facts.Config = kubeproxy.ReadConfig(o.configMap.Data[kubeproxy.ConfigKey])
		o.facts.Written, o.facts.Writer = lastWrite(o.configMap)
		o.facts.Enclosed = enclosed(o.object, o.configMap.Data[kubeproxy.KubeconfigKey])
	}
	if o.facts.Layout.Managed {
		var pullSecrets []corev1.LocalObjectReference
		if o.object != nil {
			pullSecrets = o.object.Spec.Speaker.ImagePullSecrets
		}
		o.setup = kubeproxy.SetupOf(r.namespace, o.daemonSet, o.configMap, pullSecrets, kubeproxy.Deadline(o.facts.Spec))
		o.facts.Image = o.setup.Image
	}
	if o.facts.Layout.Managed && o.facts.Spec != nil {
		o.calico = r.dataplaneOfCalico(ctx)
	}
	o.facts.Nodes, o.uses, err = r.nodes(ctx, o.daemonSet, nodes.Items)
	return err
}

// readLedger reads what was written down. What cannot be read is as good as lost: the change begins anew.
func (r *KubeProxyReconciler) readLedger(ctx context.Context, o *kubeProxyObservation) (err error) {
	key := types.NamespacedName{Namespace: r.namespace, Name: v1alpha1.KubeProxyLedger}
	if o.ledger, err = getOrNil(ctx, r.client, key, &corev1.ConfigMap{}); err != nil || o.ledger == nil {
		return err
	}
	var ledger kubeproxy.Ledger
	if err := ledger.Decode(o.ledger.Data[v1alpha1.LedgerKey]); err != nil {
		logf.FromContext(ctx).Error(err, "the ledger is begun anew", "configMap", key)
		return nil
	}
	o.facts.Ledger = ledger
	return nil
}

// lastWrite is when kube-proxy's configuration was last written, and by whom, as the object's managedFields say; zero when nobody is known
// to have written it.
func lastWrite(cm *corev1.ConfigMap) (when time.Time, who string) {
	for _, m := range cm.ManagedFields {
		if m.Time != nil && kubeproxy.WroteConfig(m) && m.Time.After(when) {
			when, who = m.Time.Time, m.Manager
		}
	}
	return when, who
}

// enclosed names the pool that holds the address at which kube-proxy reaches the API server; empty when none does.
func enclosed(cnet *v1alpha1.ClusterNetworking, kubeconfig string) string {
	text, err := endpoints.ServerURL(kubeconfig)
	if cnet == nil || err != nil {
		return ""
	}
	at, err := url.Parse(text)
	if err != nil {
		return ""
	}
	server, err := netip.ParseAddr(at.Hostname())
	if err != nil { // to resolve a name is the node's business
		return ""
	}
	pools, _ := ipam.ParsePools(poolTexts(cnet.Spec.IPPools)) // what is wrong with them, the dataplane says
	for _, p := range pools {
		if p.Contains(server) {
			return fmt.Sprintf("%s, which is in pool %s", server, p.Name)
		}
	}
	return ""
}

// since remembers since when names have been listed without a break.
type since map[string]time.Time

func (s since) keep(listed []string, now time.Time) {
	maps.DeleteFunc(s, func(name string, _ time.Time) bool { return !slices.Contains(listed, name) })
	for _, name := range listed {
		if s[name].IsZero() {
			s[name] = now
		}
	}
}

// crashLogs remembers the end of the log of each kube-proxy that crashed: it is read once for each crash.
type crashLogs map[types.UID]crashLog

type crashLog struct {
	restarts int32
	tail     string
}

// tell adds to each node's failure what its kube-proxy said last.
func (r *KubeProxyReconciler) tell(ctx context.Context, pods []corev1.Pod, nodes []kubeproxy.Node) {
	there := map[types.UID]bool{}
	for i := range pods {
		pod := &pods[i]
		n := slices.IndexFunc(nodes, func(n kubeproxy.Node) bool { return n.Pod != nil && n.Pod.UID == string(pod.UID) })
		if n < 0 || nodes[n].Pod.Failure == "" || len(pod.Status.ContainerStatuses) == 0 {
			continue
		}
		there[pod.UID] = true
		status := pod.Status.ContainerStatuses[0]
		if known, ok := r.logs[pod.UID]; !ok || known.restarts != status.RestartCount {
			log, err := r.questions.log(ctx, pod, status.Name, tailLines)
			if err != nil {
				log = "" // the failure stands without it; a pod that never started has no log
			}
			text := kubeproxy.ProbeResult{}.Tailed(log).OneLineTail()
			r.logs[pod.UID] = crashLog{restarts: status.RestartCount, tail: text}
		}
		if tail := r.logs[pod.UID].tail; tail != "" {
			nodes[n].Pod.Failure += ": " + tail
		}
	}
	maps.DeleteFunc(r.logs, func(uid types.UID, _ crashLog) bool { return !there[uid] })
}

// calicoSeen is what was found of Calico, and when: it changes rarely.
type calicoSeen struct {
	when      time.Time
	dataplane kubeproxy.CalicoDataplane
}

// calicoEvery is how often Calico is looked for.
const calicoEvery = 5 * time.Minute

// dataplaneOfCalico says by what Calico programs nodes, where its DaemonSet says it.
func (r *KubeProxyReconciler) dataplaneOfCalico(ctx context.Context) kubeproxy.CalicoDataplane {
	if r.now().Sub(r.calico.when) < calicoEvery {
		return r.calico.dataplane
	}
	r.calico = calicoSeen{when: r.now()}
	for _, namespace := range []string{"calico-system", kubeproxy.Namespace} {
		var ds appsv1.DaemonSet
		err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "calico-node"}, &ds)
		if err != nil && !apierrors.IsNotFound(err) {
			logf.FromContext(ctx).Error(err, "looking for Calico") // it serves a warning only
		}
		if err == nil {
			r.calico.dataplane = kubeproxy.CalicoOf(&ds)
			break
		}
	}
	return r.calico.dataplane
}

// getOrNil reads an object; nil when it does not exist.
func getOrNil[T client.Object](ctx context.Context, c client.Reader, key types.NamespacedName, into T) (T, error) {
	var none T
	err := c.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("reading %T %s: %w", into, key, err)
	}
	return into, nil
}
