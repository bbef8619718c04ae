package speaker

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/ipam"
	"github.com/lanyard-dev/lanyard/internal/links"
	"github.com/lanyard-dev/lanyard/internal/membership"
)

// observation is what a pass of the loop found, as the report needs it.
type observation struct {
	self       string
	generation int64
	interfaces []links.Interface
	gateways   []netip.Addr
	verdicts   []verdict
	since      map[netip.Addr]time.Time
	moves      map[netip.Addr]move
	members    map[string]membership.Member
	// mute says what keeps outlets of interfaces with carrier from being answered at.
	mute map[outlet]string
	// foreign are the addresses of pools that hosts other than speakers have, free those that the LAN was asked for and nobody has.
	foreign map[netip.Addr]foreigner
	free    []netip.Addr
	// silent are the nodes of which nothing answers, and since when their speakers are lost.
	silent map[string]time.Time
}

// statusOf returns the observation as the status of the node's NodeNetworking, without kube-proxy and keys.
func statusOf(o observation) v1alpha1.NodeNetworkingStatus {
	status := v1alpha1.NodeNetworkingStatus{ConfigurationGeneration: o.generation}
	macs := map[string]string{}
	for _, i := range o.interfaces {
		macs[i.Name] = i.MAC.String()
		described := v1alpha1.NodeInterface{Name: i.Name, MAC: i.MAC.String(), Carrier: v1alpha1.CarrierDown, Message: o.whyMuteOn(i.Name)}
		if i.Carrier {
			described.Carrier = v1alpha1.CarrierUp
		}
		for _, a := range i.Addresses {
			described.Addresses = append(described.Addresses, a.String())
		}
		status.Interfaces = append(status.Interfaces, described)
	}
	for _, a := range o.gateways {
		status.Gateways = append(status.Gateways, a.String())
	}
	var announced []v1alpha1.AnnouncedIP
	var unannounced []v1alpha1.UnannouncedIP
	for _, v := range o.verdicts {
		switch {
		case v.answers():
			announced = append(announced, v1alpha1.AnnouncedIP{
				IP: v.addr.String(), Interface: v.iface, MAC: macs[v.iface], Since: metav1.Time{Time: o.since[v.addr].Truncate(time.Second).UTC()},
				Reason: string(v.decision.Reason), Message: v.decision.Message, LastMove: o.moves[v.addr].told(),
			})
		case v.decision.Node == "":
			unannounced = append(unannounced, v1alpha1.UnannouncedIP{
				IP: v.addr.String(), Reason: string(v.decision.Reason), Message: v.decision.Message + o.whyMute(v.addr),
			})
		}
	}
	status.Announced = announced[:min(len(announced), v1alpha1.AnnouncedLimit)]
	status.Unannounced = unannounced[:min(len(unannounced), v1alpha1.UnannouncedLimit)]
	for _, name := range slices.Sorted(maps.Keys(o.members)) {
		if name != o.self {
			status.Peers = append(status.Peers, name)
		}
	}
	//nolint:gosec // all are small
	status.AnnouncedCount, status.UnannouncedCount, status.PeersCount = int32(len(announced)), int32(len(unannounced)), int32(len(status.Peers))
	status.Foreign = foreignIPs(o.foreign)
	for _, r := range ipam.Intervals(o.free) {
		status.Free = append(status.Free, r.String())
	}
	for _, name := range slices.Sorted(maps.Keys(o.silent)) {
		status.SilentNodes = append(status.SilentNodes, v1alpha1.SilentNode{Name: name, Since: metav1.Time{Time: o.silent[name].Truncate(time.Second).UTC()}})
	}
	return status
}

// foreignIPs are those addresses as they are reported, the first in order.
func foreignIPs(foreign map[netip.Addr]foreigner) []v1alpha1.ForeignIP {
	var all []v1alpha1.ForeignIP
	for _, addr := range slices.SortedFunc(maps.Keys(foreign), netip.Addr.Compare) {
		f := foreign[addr]
		all = append(all, v1alpha1.ForeignIP{IP: addr.String(), MAC: f.mac.String(), Interface: f.iface,
			Since: metav1.Time{Time: f.since.Truncate(time.Second).UTC()}})
	}
	return all[:min(len(all), v1alpha1.ForeignLimit)]
}

// whyMuteOn says what keeps an interface from being answered on, once if it is the same for all protocols.
func (o observation) whyMuteOn(iface string) string {
	var reasons []string
	for _, p := range []protocol{byARP, byNDP} {
		if why := o.mute[outlet{iface, p}]; why != "" && !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
	}
	return strings.Join(reasons, "; ")
}

// whyMute completes why nobody announces an address, where this node has an interface for it and cannot answer there.
func (o observation) whyMute(addr netip.Addr) string {
	for _, i := range o.interfaces {
		inSubnet := slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return p.Contains(addr) })
		if why := o.mute[outlet{i.Name, protocolOf(addr)}]; why != "" && inSubnet {
			return fmt.Sprintf("; %s cannot answer on %s: %s", o.self, i.Name, why)
		}
	}
	return ""
}

// The pace of reports: the first after a quiet time goes out at once, and so does one that the manager waits for; further ones at most every
// reportEvery; one that fails is tried again, first soon, then at most every reportEvery.
const (
	reportEvery = time.Second
	reportRetry = 200 * time.Millisecond
	// lastWordWithin is how long the end of a speaker waits for the API server.
	lastWordWithin = time.Second
)

// reporter writes the node's NodeNetworking.
type reporter struct {
	client client.Client
	node   string
	log    logr.Logger

	// reported says that a report of this speaker was written.
	reported atomic.Bool

	mu     sync.Mutex
	latest v1alpha1.NodeNetworkingStatus
	// observed says that a pass of the loop has told what it found. Before, a report would say that nobody is heard and nothing announced.
	observed bool
	updated  chan struct{}
	// hurry ends the pause between reports: the manager waits for what changed.
	hurry chan struct{}
}

// observe changes what is reported next to what a pass has found.
func (r *reporter) observe(change func(*v1alpha1.NodeNetworkingStatus)) {
	r.mu.Lock()
	r.observed = true
	foreign, free, silent := r.latest.Foreign, r.latest.Free, r.latest.SilentNodes
	r.mu.Unlock()
	r.update(change)
	latest := r.next()
	if !equality.Semantic.DeepEqual(foreign, latest.Foreign) || !slices.Equal(free, latest.Free) || !equality.Semantic.DeepEqual(silent, latest.SilentNodes) {
		wake(r.hurry) // a Service may wait for an address, or for endpoints that are not dead
	}
}

// update changes what is reported next, which is written once a pass has told what it found.
func (r *reporter) update(change func(*v1alpha1.NodeNetworkingStatus)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.latest)
	if r.observed {
		wake(r.updated)
	}
}

// run writes reports until the context ends. The last word of a speaker that ends is that it announces nothing: it has stopped.
func (r *reporter) run(ctx context.Context) error {
	written := r.keepWriting(ctx)
	if written == nil {
		return nil
	}
	last := r.next()
	last.Announced, last.AnnouncedCount = nil, 0
	if equality.Semantic.DeepEqual(*written, last) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWordWithin)
	defer cancel()
	if err := r.write(ctx, last); err != nil {
		r.log.Error(err, "cannot report that this speaker has stopped; the others' reports tell")
	}
	return nil
}

// next returns what is reported next.
func (r *reporter) next() v1alpha1.NodeNetworkingStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *r.latest.DeepCopy()
}

// keepWriting writes every change until the context ends, and returns what was written last. Why it cannot is logged once: the API server may
// be away for hours.
func (r *reporter) keepWriting(ctx context.Context) (written *v1alpha1.NodeNetworkingStatus) {
	pause, complaint := reportRetry, ""
	for {
		select {
		case <-ctx.Done():
			return written
		case <-r.updated:
		}
		next := r.next()
		if written != nil && equality.Semantic.DeepEqual(*written, next) {
			continue
		}
		wait := reportEvery
		if err := r.write(ctx, next); err != nil {
			if why := err.Error(); why != complaint && ctx.Err() == nil {
				r.log.Error(err, "cannot report; it is tried again")
				complaint = why
			}
			wait, pause = pause, min(2*pause, reportEvery)
			wake(r.updated)
		} else {
			written, pause, complaint = &next, reportRetry, ""
			r.reported.Store(true)
		}
		select {
		case <-ctx.Done():
			return written
		case <-time.After(wait):
		case <-r.hurry:
		}
	}
}

// write makes the object say this. It is made when it is missing, as a dependent of the Node: it goes with it.
func (r *reporter) write(ctx context.Context, status v1alpha1.NodeNetworkingStatus) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	object := &v1alpha1.NodeNetworking{}
	err := r.client.Get(ctx, client.ObjectKey{Name: r.node}, object)
	if apierrors.IsNotFound(err) {
		if object, err = r.create(ctx); err != nil {
			return err
		}
	} else if err != nil {
		return fmt.Errorf("reading NodeNetworking %s: %w", r.node, err)
	}
	object.Status = status
	if err := r.client.Status().Update(ctx, object, client.FieldOwner("lanyard-speaker")); err != nil {
		return fmt.Errorf("writing NodeNetworking %s: %w", r.node, err)
	}
	return nil
}

func (r *reporter) create(ctx context.Context) (*v1alpha1.NodeNetworking, error) {
	var node corev1.Node
	if err := r.client.Get(ctx, client.ObjectKey{Name: r.node}, &node); err != nil {
		return nil, fmt.Errorf("reading Node %s, which owns the report: %w", r.node, err)
	}
	object := &v1alpha1.NodeNetworking{ObjectMeta: metav1.ObjectMeta{
		Name:            r.node,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
	}}
	if err := r.client.Create(ctx, object, client.FieldOwner("lanyard-speaker")); err != nil {
		return nil, fmt.Errorf("making NodeNetworking %s: %w", r.node, err)
	}
	return object, nil
}
