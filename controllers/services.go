package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// serviceView is what is known of all Services: the cache, and over it what is newer than the cache. Planning over a stale cache
// could give one address twice.
//
//	live list (once, on taking the lead) ─┐
//	answers to our own writes ────────────┼─▶ newest of each Service
//	cache ────────────────────────────────┘
type serviceView struct {
	cache client.Reader
	// live reads from the API server itself.
	live client.Reader
	// newer are Services that may be newer than the cache's. They go by name: a Service that was made anew replaces the one before.
	newer map[types.NamespacedName]*corev1.Service
	// horizon is the resourceVersion of the live list: the leader before us may have written what the cache does not show yet. Empty
	// until the list was taken.
	horizon string
	// listed are the Services of that list. What the cache shows as it was before, and the list does not have, is gone: its address may be somebody
	// else's by now.
	listed map[types.UID]bool
	// caughtUp means that the cache is past the live list; it does not go back.
	caughtUp bool
}

// note keeps what a write of ours answered.
func (v *serviceView) note(svc *corev1.Service) { v.newer[client.ObjectKeyFromObject(svc)] = svc }

// list returns every Service in its newest known form.
func (v *serviceView) list(ctx context.Context) ([]*corev1.Service, error) {
	if v.horizon == "" {
		if err := v.takeLead(ctx); err != nil {
			return nil, err
		}
	}
	var cached corev1.ServiceList
	// Nothing is written to what is listed: thousands of Services need not be copied in each pass.
	if err := v.cache.List(ctx, &cached, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Services: %w", err)
	}
	return v.over(cached.Items), nil
}

// over returns the cached Services with what is newer in their places. It forgets what the cache has caught up with.
func (v *serviceView) over(cached []corev1.Service) []*corev1.Service {
	services := make([]*corev1.Service, 0, len(cached))
	shown := make(map[types.NamespacedName]bool, len(cached))
	for i := range cached {
		svc := &cached[i]
		key := client.ObjectKeyFromObject(svc)
		if before := older(svc.ResourceVersion, v.horizon); !before {
			v.caughtUp = true
		} else if !v.listed[svc.UID] {
			continue
		}
		shown[key] = true
		if ours, ok := v.newer[key]; ok {
			if older(svc.ResourceVersion, ours.ResourceVersion) {
				svc = ours
			} else {
				delete(v.newer, key)
			}
		}
		services = append(services, svc)
	}
	for key, svc := range v.newer {
		switch {
		case shown[key]:
		case v.caughtUp: // whatever we know of came from the live list or the cache, and the cache does not show it any more: it is gone
			delete(v.newer, key)
		default:
			services = append(services, svc)
		}
	}
	return services
}

// takeLead reads the Services as they are now.
func (v *serviceView) takeLead(ctx context.Context) error {
	var list corev1.ServiceList
	if err := v.live.List(ctx, &list); err != nil {
		return fmt.Errorf("listing Services on taking the lead: %w", err)
	}
	v.begin(list.Items, list.ResourceVersion)
	return nil
}

// begin takes the Services of the live list for the newest.
func (v *serviceView) begin(live []corev1.Service, horizon string) {
	v.horizon, v.listed = horizon, make(map[types.UID]bool, len(live))
	for i := range live {
		v.note(&live[i])
		v.listed[live[i].UID] = true
	}
}

// older says whether resourceVersion a was made before b: those of one resource compare as numbers (KEP-5504). One that is no number
// counts as not older, so that the cache's word stands.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
