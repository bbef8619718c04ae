package kubeproxy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// Problem is a setting that is not as it should be.
type Problem struct {
	// Path is the setting; empty for the document as a whole.
	Path Path
	// Value is what it is, as JSON; empty when it is not there.
	Value string
	// Message says which field has which value, what is wrong with it and what to do, in one sentence.
	Message string
}

// Validate says what is wrong with the document as it will be with the wanted fields, by the rules of the kube-proxy in the image: what
// Lanyard writes has to be right even where kube-proxy would not look, and with the rest kube-proxy has to start.
// Problems are sorted by path.
func Validate(want Fields, document, image string) []Problem {
	c, err := draftOf(want, document, image)
	if err != nil {
		return []Problem{{Message: err.Error()}}
	}
	problems, _ := c.judge()
	return problems
}

// Doubts are what the document holds that kube-proxy starts with and that hardly does what its author meant: fields that kube-proxy does
// not know and ignores, and values that would stop it in another mode. A document that cannot be read is no doubt, but a Problem.
func Doubts(want Fields, document, image string) []Problem {
	c, err := draftOf(want, document, image)
	if err != nil {
		return nil
	}
	_, doubts := c.judge()
	return append(doubts, c.ignored(c.root, "")...)
}

// draft is a document with the wanted fields.
type draft struct {
	root   *yaml.Node
	values map[string]any
	// lines are where the fields are in the document.
	lines    map[string]int
	declared Fields
	mode     string
	version  ruleset
}

func draftOf(want Fields, document, image string) (draft, error) {
	root, values, err := parse(document)
	if err != nil {
		return draft{}, err
	}
	c := draft{root: root, values: values, lines: map[string]int{}, declared: want, version: rulesOf(image)}
	c.locate(root, "")
	for _, f := range want {
		put(values, f.Path.keys(), f.decoded())
	}
	mode, _ := values["mode"].(string)
	c.mode = cmp.Or(mode, DefaultMode(c.version.minor))
	return c, nil
}

// decoded is the field's value as it is read from a document.
func (f Field) decoded() any {
	items, isList := f.Value.([]string)
	if !isList {
		return f.Value
	}
	all := make([]any, 0, len(items))
	for _, item := range items {
		all = append(all, item)
	}
	return all
}

// put sets a field; sections that are not there are made.
func put(values map[string]any, path []string, value any) {
	for _, key := range path[:len(path)-1] {
		inner, isSection := values[key].(map[string]any)
		if !isSection {
			inner = map[string]any{}
			values[key] = inner
		}
		values = inner
	}
	values[path[len(path)-1]] = value
}

// locate notes on which line each field is.
func (c draft) locate(mapping *yaml.Node, prefix string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		path := prefix + mapping.Content[i].Value
		c.lines[path] = mapping.Content[i].Line
		c.locate(resolved(mapping.Content[i+1]), path+".")
	}
}

// resolved is the mapping that a node is, or refers to; an empty one when it is neither.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		return &yaml.Node{}
	}
	return n
}

// judge applies the rules to each known field that has a value. What a rule finds is a problem, or only a doubt where kube-proxy does not
// look and Lanyard does not write.
func (c draft) judge() (problems, doubts []Problem) {
	for _, path := range slices.Sorted(maps.Keys(knownFields)) {
		value, isThere := find(c.values, strings.Split(path, "."))
		if !isThere {
			continue
		}
		if should := knownFields[path].mistyped(value); should != "" {
			problems = append(problems, c.problem(path, value, "kube-proxy does not start with it", "write "+should))
			continue
		}
		for _, r := range rules[path] {
			why, remedy := r.check(c, value)
			switch {
			case why == "":
			case c.writes(path) || !r.own && (r.reads == nil || r.reads(c)):
				problems = append(problems, c.problem(path, value, why, remedy))
			case r.own:
				doubts = append(doubts, c.problem(path, value, why, remedy))
			default:
				doubts = append(doubts, c.problem(path, value, why+" in the mode that reads it", remedy))
			}
		}
	}
	return problems, doubts
}

// gate says whether a feature gate is on in the document.
func (c draft) gate(name string) bool {
	gates, _ := c.values["featureGates"].(map[string]any)
	return gates[name] == true
}

// writes says whether Lanyard writes the field.
func (c draft) writes(path string) bool {
	return slices.ContainsFunc(c.declared, func(f Field) bool { return string(f.Path) == path })
}

// problem says what is wrong with a field, and names it where it is written.
func (c draft) problem(path string, value any, why, remedy string) Problem {
	written, err := json.Marshal(value)
	if err != nil {
		written = fmt.Append(nil, value) // no decoded document has a value that JSON lacks
	}
	where := "spec.kubeProxy." + path
	if !c.writes(path) {
		where = "config.conf: " + path
		if line := c.lines[path]; line > 0 {
			where += fmt.Sprintf(" (line %d)", line)
		}
		if slices.Contains(Paths, Path(path)) {
			remedy += ", or declare it in spec.kubeProxy"
		}
	}
	return Problem{Path: Path(path), Value: string(written), Message: fmt.Sprintf("%s is %s: %s: %s", where, written, why, remedy)}
}

// runs makes a rule apply in one mode.
func runs(mode v1alpha1.ProxyMode) func(draft) bool {
	return func(c draft) bool { return c.mode == string(mode) }
}
