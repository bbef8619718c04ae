package kubeproxy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// Field is a setting as it should be.
type Field struct {
	Path Path
	// Value is a bool, a []string or a string, as the setting is. The zero value asks for what kube-proxy does by itself.
	Value any
}

// Fields are settings as they should be, each at most once, in the order of Paths. What is not among them stays as it is.
type Fields []Field

// Declared returns the settings that a spec declares. Mode is the mode that kube-proxy is to run, which the spec may leave open: in ipvs
// every node would answer ARP for each announced address, so strictARP is declared while addresses are announced, unless the spec does.
func Declared(spec *v1alpha1.KubeProxySpec, announcing bool, mode string) Fields {
	var all Fields
	declare(&all, PathMode, spec.Mode)
	declare(&all, PathScheduler, spec.IPVS.Scheduler)
	switch strict := spec.IPVS.StrictARP; {
	case strict != nil:
		all = append(all, Field{PathStrictARP, *strict})
	case announcing && mode == string(v1alpha1.ProxyModeIPVS):
		all = append(all, Field{PathStrictARP, true})
	}
	declareList(&all, PathExcludeCIDRs, spec.IPVS.ExcludeCIDRs)
	declare(&all, PathTCPTimeout, spec.IPVS.TCPTimeout)
	declare(&all, PathTCPFinTimeout, spec.IPVS.TCPFinTimeout)
	declare(&all, PathUDPTimeout, spec.IPVS.UDPTimeout)
	declareList(&all, PathNodePortAddresses, spec.NodePortAddresses)
	if liberal := spec.Conntrack.TCPBeLiberal; liberal != nil {
		all = append(all, Field{PathTCPBeLiberal, *liberal})
	}
	declare(&all, PathMetricsBindAddress, spec.MetricsBindAddress)
	declare(&all, PathClusterCIDR, spec.ClusterCIDR)
	return all
}

// declare adds a text; an empty one declares nothing.
func declare[T ~string](all *Fields, path Path, value T) {
	if value != "" {
		*all = append(*all, Field{path, string(value)})
	}
}

// declareList adds a list. An empty one is a declaration too, only nil is none.
func declareList[T ~string](all *Fields, path Path, values []T) {
	if values == nil {
		return
	}
	texts := make([]string, 0, len(values))
	for _, v := range values {
		texts = append(texts, string(v))
	}
	*all = append(*all, Field{path, texts})
}

// FieldsOf returns the settings at the paths as they are in s. One that s lacks is at its zero value: to edit a document with what
// FieldsOf returns takes it back to s.
func FieldsOf(s Settings, paths []Path) Fields {
	var all Fields
	for _, p := range paths {
		text := s[p]
		switch p.shape() {
		case aSwitch:
			all = all.With(p, text == "true")
		case aList:
			all = all.With(p, strings.FieldsFunc(text, func(r rune) bool { return r == ',' }))
		case aTime:
			if text == "" {
				text = "0s"
			}
			all = all.With(p, text)
		default:
			all = all.With(p, text)
		}
	}
	return all
}

// Mode is the declared mode; empty when none is.
func (f Fields) Mode() string {
	for _, field := range f {
		if field.Path == PathMode {
			return field.text()
		}
	}
	return ""
}

// has says whether a setting is among the fields.
func (f Fields) has(path Path) bool {
	return slices.ContainsFunc(f, func(field Field) bool { return field.Path == path })
}

// Paths are the places of the fields, in order.
func (f Fields) Paths() []Path {
	paths := make([]Path, 0, len(f))
	for _, field := range f {
		paths = append(paths, field.Path)
	}
	return paths
}

// With returns the fields with one more, or with another value for one of them.
func (f Fields) With(path Path, value any) Fields {
	all := slices.DeleteFunc(slices.Clone(f), func(other Field) bool { return other.Path == path })
	all = append(all, Field{path, value})
	slices.SortStableFunc(all, func(a, b Field) int { return slices.Index(Paths, a.Path) - slices.Index(Paths, b.Path) })
	return all
}

// Settings are the fields as texts. One at its zero value is absent.
func (f Fields) Settings() Settings {
	s := Settings{}
	for _, field := range f {
		if text := field.text(); text != "" {
			s[field.Path] = text
		}
	}
	return s
}

// Against says which of the fields s holds otherwise, by what they mean to kube-proxy: a setting that is not there is at its zero value, a
// list has no order, no mode is the one that its version runs then, open, mode nftables has NodePorts at the primary addresses by itself, and
// metrics are served on the loopback unless told otherwise, which a running process spells out.
func (f Fields) Against(s Settings, open string) []Change {
	mode := cmp.Or(f.Mode(), s[PathMode], open)
	var changes []Change
	for _, field := range f {
		if meant(field.Path, field.text(), mode, open) == meant(field.Path, s[field.Path], mode, open) {
			continue
		}
		from := absent
		if s[field.Path] != "" {
			from = s[field.Path]
		}
		changes = append(changes, Change{Field: string(field.Path), From: from, To: field.shown()})
	}
	return changes
}

// absent stands for the value of a field that is not there.
const absent = "(absent)"

// meant is what a setting means to a kube-proxy of the mode, whose version runs open where none is set.
func meant(path Path, text, mode, open string) string {
	switch {
	case path == PathMode:
		return cmp.Or(text, open)
	case path == PathNodePortAddresses && text == "" && mode == string(v1alpha1.ProxyModeNFTables):
		return keywordPrimary
	case path == PathMetricsBindAddress:
		return servedAt(text)
	case path.shape() == aList:
		return unordered(strings.Split(text, ","))
	}
	return text
}

// unordered writes a list so that equal sets have equal texts.
func unordered(values []string) string {
	sorted := slices.Sorted(slices.Values(values))
	return strings.Join(slices.Compact(sorted), ",")
}

func (f Field) text() string { return f.Path.text(f.Value) }

// shown is the value as it is told to a person.
func (f Field) shown() string {
	switch v := f.Value.(type) {
	case bool:
		return strconv.FormatBool(v)
	case []string:
		return "[" + strings.Join(v, ", ") + "]"
	case string:
		if v == "" {
			return `""`
		}
		return v
	}
	return f.text()
}

// holds says whether a decoded document has the field, in the type in which kube-proxy reads it.
func (f Field) holds(values map[string]any) bool {
	have, isThere := find(values, f.Path.keys())
	switch want := f.Value.(type) {
	case bool:
		return have == want || have == nil && !want
	case []string:
		items, isList := have.([]any)
		texts := make([]string, 0, len(items))
		for _, item := range items {
			text, isText := item.(string)
			if !isText {
				return false
			}
			texts = append(texts, text)
		}
		return (isList || have == nil) && unordered(texts) == unordered(want)
	}
	_, isText := have.(string)
	if f.Path.shape() == aTime && isThere && !isText { // kube-proxy does not start with null there
		return false
	}
	return (isText || have == nil) && f.Path.text(have) == f.text()
}
