package kubeproxy

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
)

// CalicoOf says by what Calico's Felix programs nodes, as the environment of its DaemonSet has it. What stands in a FelixConfiguration
// only is not seen.
func CalicoOf(ds *appsv1.DaemonSet) CalicoDataplane {
	for _, c := range ds.Spec.Template.Spec.Containers {
		for _, e := range c.Env {
			if e.Name != "FELIX_NFTABLESMODE" {
				continue
			}
			switch strings.ToLower(e.Value) {
			case "enabled":
				return CalicoNFTables
			case "disabled":
				return CalicoIPTables
			case "auto":
				return CalicoAuto
			}
		}
	}
	return CalicoUnknown
}

// NotesOf are what surveys noted on nodes, each with the names of the nodes that have it in front, sorted.
func NotesOf(results map[ProbeKey]ProbeResult) []string {
	nodes := map[string][]string{}
	for key, result := range results {
		for _, note := range result.Notes {
			nodes[note] = append(nodes[note], key.Node)
		}
	}
	var all []string
	for note, on := range nodes {
		slices.Sort(on)
		all = append(all, "On "+some(slices.Compact(on))+": "+note)
	}
	slices.Sort(all)
	return all
}
