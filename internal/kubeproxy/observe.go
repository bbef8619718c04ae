package kubeproxy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// UnknownMode stands for the mode of a node whose kube-proxy nobody could ask.
const UnknownMode = "unknown"

// Observe groups nodes by the mode that their kube-proxy reports, the commonest first, and sums them up in words.
func Observe(nodes []Node) (summary string, modes []v1alpha1.ObservedMode) {
	byMode := map[string][]string{}
	for _, n := range nodes {
		mode := cmp.Or(n.Mode, UnknownMode)
		byMode[mode] = append(byMode[mode], n.Name)
	}
	for mode, names := range byMode {
		slices.Sort(names)
		modes = append(modes, v1alpha1.ObservedMode{Mode: mode, Nodes: names})
	}
	slices.SortFunc(modes, func(a, b v1alpha1.ObservedMode) int {
		return cmp.Or(cmp.Compare(len(b.Nodes), len(a.Nodes)), strings.Compare(a.Mode, b.Mode))
	})
	if len(modes) == 1 {
		return modes[0].Mode, modes
	}
	var counts []string
	for _, m := range modes {
		counts = append(counts, fmt.Sprintf("%s (%d)", m.Mode, len(m.Nodes)))
	}
	return strings.Join(counts, ", "), modes
}
