package controllers

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestServiceView writes a Service as NAME#UID@VERSION.
func TestServiceView(t *testing.T) {
	service := func(name, uid, version string) corev1.Service {
		svc := loadBalancer(name)
		svc.UID, svc.ResourceVersion = types.UID(uid), version
		return *svc
	}
	type services = []corev1.Service
	// A pass sees the cache as it is then. Before it, what our writes answered was noted.
	type pass struct {
		answers, cache services
		want, keeps    []string
	}
	for name, tc := range map[string]struct {
		live    services
		horizon string
		passes  []pass
	}{
		"the cache shows all that there is": {
			live: services{service("a", "1", "10")}, horizon: "10",
			passes: []pass{{cache: services{service("a", "1", "10")}, want: []string{"a#1@10"}}},
		},
		"the leader before wrote what the cache does not show yet": {
			live: services{service("a", "1", "20"), service("new", "2", "21")}, horizon: "21",
			passes: []pass{
				{cache: services{service("a", "1", "10")}, want: []string{"a#1@20", "new#2@21"}, keeps: []string{"a", "new"}},
				{cache: services{service("a", "1", "20"), service("new", "2", "21")}, want: []string{"a#1@20", "new#2@21"}},
			},
		},
		"our own write counts until the cache shows it, and no longer when somebody wrote after us": {
			live: services{service("a", "1", "10")}, horizon: "10",
			passes: []pass{
				{cache: services{service("a", "1", "10")}, want: []string{"a#1@10"}},
				{answers: services{service("a", "1", "12")}, cache: services{service("a", "1", "11")}, want: []string{"a#1@12"}, keeps: []string{"a"}},
				{cache: services{service("a", "1", "13")}, want: []string{"a#1@13"}},
			},
		},
		"versions compare as numbers": {
			live: services{service("a", "1", "100")}, horizon: "100",
			passes: []pass{{cache: services{service("a", "1", "99")}, want: []string{"a#1@100"}, keeps: []string{"a"}}},
		},
		"what the live list showed is not believed gone before the cache has reached the list": {
			live: services{service("a", "1", "10"), service("b", "2", "20")}, horizon: "20",
			passes: []pass{
				{cache: services{service("a", "1", "10")}, want: []string{"a#1@10", "b#2@20"}, keeps: []string{"b"}},
				{cache: services{service("a", "1", "21")}, want: []string{"a#1@21"}},
			},
		},
		"what we wrote is gone with the Service, although nothing that is left is new": {
			live: services{service("kubernetes", "1", "5")}, horizon: "10",
			passes: []pass{
				{cache: services{service("kubernetes", "1", "5"), service("a", "2", "11")}, want: []string{"a#2@11", "kubernetes#1@5"}},
				{answers: services{service("a", "2", "12")}, cache: services{service("kubernetes", "1", "5")}, want: []string{"kubernetes#1@5"}},
			},
		},
		"a Service that was made anew replaces the one before, and is there once": {
			live: services{service("a", "new", "20")}, horizon: "20",
			passes: []pass{{cache: services{service("a", "old", "10")}, want: []string{"a#new@20"}, keeps: []string{"a"}}},
		},
		"what the cache still shows was deleted before the list was taken: its address may be another's": {
			live: services{service("b", "2", "15")}, horizon: "20",
			passes: []pass{
				{cache: services{service("a", "1", "10"), service("b", "2", "12")}, want: []string{"b#2@15"}, keeps: []string{"b"}},
				{cache: services{service("b", "2", "15"), service("a", "3", "21")}, want: []string{"a#3@21", "b#2@15"}},
			},
		},
		"an answer to a Service that was made anew meanwhile is forgotten": {
			live: services{service("a", "old", "10")}, horizon: "10",
			passes: []pass{{answers: services{service("a", "old", "12")}, cache: services{service("a", "new", "14")}, want: []string{"a#new@14"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			view := serviceView{newer: map[types.NamespacedName]*corev1.Service{}}
			note := func(all services) {
				for i := range all {
					view.note(&all[i])
				}
			}
			view.begin(tc.live, tc.horizon)
			for i, p := range tc.passes {
				note(p.answers)
				var got []string
				for _, svc := range view.over(p.cache) {
					got = append(got, svc.Name+"#"+string(svc.UID)+"@"+svc.ResourceVersion)
				}
				slices.Sort(got)
				if diff := cmp.Diff(p.want, got); diff != "" {
					t.Errorf("pass %d: Services (-want +got):\n%s", i, diff)
				}
				var kept []string
				for key := range maps.Keys(view.newer) {
					kept = append(kept, key.Name)
				}
				slices.Sort(kept)
				if diff := cmp.Diff(p.keeps, kept); diff != "" {
					t.Errorf("pass %d: kept for the next (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}
