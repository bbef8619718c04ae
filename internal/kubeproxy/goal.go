package kubeproxy

import (
	"cmp"
	"slices"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// The modes, as texts.
const (
	iptables = string(v1alpha1.ProxyModeIPTables)
	ipvs     = string(v1alpha1.ProxyModeIPVS)
	nftables = string(v1alpha1.ProxyModeNFTables)
)

// goal is where a change goes, and the step that it takes now.
type goal struct {
	// asked is the declaration in short.
	asked string
	// want are the settings that every node should run with in the end, in mode.
	want Fields
	mode string
	// next are those of the step that is taken now, in stepMode: the same, or nftables on the way between iptables and ipvs.
	next     Fields
	stepMode string
	// back says that all goes back to a configuration that worked.
	back bool
	// restoring says that Lanyard gives kube-proxy back as it found it.
	restoring bool
}

// open is the mode that the cluster's kube-proxy runs where its configuration leaves it open.
func (f Facts) open() string { return DefaultMode(rulesOf(f.Image).minor) }

// configured is the mode that config.conf asks for.
func (f Facts) configured() string { return cmp.Or(f.Config.Settings[PathMode], f.open()) }

// goal finds what should be: what the spec declares; the configuration of before, while its change is rolled back or once it was; or what
// Lanyard found first, when it is to leave.
func (f Facts) goal() goal {
	g := goal{}
	if f.Spec == nil {
		g.want, g.restoring = FieldsOf(f.Ledger.Original.Settings, f.Ledger.Touched), true
		g.asked = "restore-" + identity(g.want)
	} else {
		_, g.want = Asked(f)
		g.asked = identity(g.want)
	}
	var before *Revision
	switch attempt, refused := f.Ledger.Attempt, f.Ledger.Refused; {
	case attempt != nil && attempt.Asked == g.asked && attempt.Failed != nil:
		before = attempt.Before
	case attempt == nil && refused != nil && refused.Asked == g.asked && f.holds(tryOnce):
		before = &refused.Back
	}
	if before != nil {
		g.back = true
		g.want = FieldsOf(before.Settings, union(f.Ledger.Touched, g.want.Paths()))
	}
	g.mode = f.modeOf(g.want)
	g.next, g.stepMode = g.want, g.mode
	if f.detours(g) {
		g.stepMode = nftables
		g.next = g.want.With(PathMode, g.stepMode)
	}
	return g
}

// Asked are the mode that kube-proxy should run in the end, and the settings that are declared, as warnings speak of them.
func Asked(f Facts) (mode string, declared Fields) {
	if f.Spec == nil {
		return f.modeOf(nil), nil
	}
	mode = cmp.Or(string(f.Spec.Mode), f.configured())
	return mode, Declared(f.Spec, f.Announcing, mode)
}

// names says whether the goal names its mode, rather than to leave it to config.conf.
func (g goal) names() bool { return g.want.has(PathMode) }

// modeOf is the mode that kube-proxy runs with these settings: where they do not name it, the document does.
func (f Facts) modeOf(want Fields) string {
	if want.has(PathMode) {
		return cmp.Or(want.Mode(), f.open())
	}
	return f.configured()
}

// detours says whether the way goes by nftables first. kube-proxy removes what the mode before has left in the kernel when it starts in
// nftables, or in another mode after nftables; between iptables and ipvs it removes nothing.
func (f Facts) detours(g goal) bool {
	if !f.holds(byNFTables) || f.arrived(g) || !g.names() {
		return false
	}
	if attempt := f.Ledger.Attempt; attempt != nil && attempt.Asked == g.asked && attempt.Detour {
		return true // a node that is just being restarted says nothing of its mode
	}
	return opposite(f.configured(), g.mode) ||
		slices.ContainsFunc(f.Nodes, func(n Node) bool { return n.Ready && opposite(n.Mode, g.mode) })
}

// arrived says whether no way by nftables is left to go: all that could be asked have gone it. What still runs the opposite mode then has
// missed it.
func (f Facts) arrived(g goal) bool {
	if opposite(f.configured(), g.mode) { // somebody else has led all of them back
		return false
	}
	if attempt := f.Ledger.Attempt; attempt != nil {
		return attempt.Asked == g.asked && attempt.Crossed
	}
	return f.Ledger.Applied == g.asked
}

// opposite says whether one mode is iptables and the other ipvs.
func opposite(a, b string) bool {
	return a == iptables && b == ipvs || a == ipvs && b == iptables
}

// union returns the settings of both lists, in their usual order.
func union(a, b []Path) []Path {
	var both []Path
	for _, p := range Paths {
		if slices.Contains(a, p) || slices.Contains(b, p) {
			both = append(both, p)
		}
	}
	return both
}
