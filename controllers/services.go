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
	// newer are Services that may be newer than the cache's.
	newer map[types.UID]*corev1.Service
	// horizon is the resourceVersion of the live list: the leader before us may have written what the cache does not show yet. Empty
	// until the list was taken.
	horizon string
}

// note keeps what a write of ours answered.
func (v *serviceView) note(svc *corev1.Service) { v.newer[svc.UID] = svc }

// list returns every Service in its newest known form.
func (v *serviceView) list(ctx context.Context) ([]*corev1.Service, error) {
	if v.horizon == "" {
		if err := v.takeLead(ctx); err != nil {
			return nil, err
		}
	}
	var cached corev1.ServiceList
	if err := v.cache.List(ctx, &cached); err != nil {
		return nil, fmt.Errorf("listing Services: %w", err)
	}
	services := make([]*corev1.Service, 0, len(cached.Items))
	shown := make(map[types.UID]bool, len(cached.Items))
	caughtUp := false
	for i := range cached.Items {
		svc := &cached.Items[i]
		shown[svc.UID] = true
		caughtUp = caughtUp || !older(svc.ResourceVersion, v.horizon)
		if ours, ok := v.newer[svc.UID]; ok {
			if older(svc.ResourceVersion, ours.ResourceVersion) {
				svc = ours
			} else {
				delete(v.newer, svc.UID)
			}
		}
		services = append(services, svc)
	}
	for uid, svc := range v.newer {
		switch {
		case shown[uid]:
		case caughtUp: // the cache is past the live list and does not show it: it is gone
			delete(v.newer, uid)
		default:
			services = append(services, svc)
		}
	}
	return services, nil
}

// takeLead reads the Services as they are now.
func (v *serviceView) takeLead(ctx context.Context) error {
	var list corev1.ServiceList
	if err := v.live.List(ctx, &list); err != nil {
		return fmt.Errorf("listing Services on taking the lead: %w", err)
	}
	for i := range list.Items {
		v.newer[list.Items[i].UID] = &list.Items[i]
	}
	v.horizon = list.ResourceVersion
	return nil
}

// older says whether resourceVersion a was made before b: those of one resource compare as numbers (KEP-5504). One that is no number
// counts as not older, so that the cache's word stands.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
