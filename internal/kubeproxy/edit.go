package kubeproxy

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// Kind is the kind of the document that kube-proxy reads.
const Kind = "KubeProxyConfiguration"

// Fields are what the spec declares of kube-proxy's configuration. Whatever is unset stays as it is.
type Fields struct {
	// Mode is the field `mode`; empty keeps it.
	Mode v1alpha1.ProxyMode
	// StrictARP turns `ipvs.strictARP` on; false keeps it.
	StrictARP bool
}

// Change is one field that an edit changes.
type Change struct {
	Field, From, To string
}

func (c Change) String() string { return fmt.Sprintf("%s: %s → %s", c.Field, c.From, c.To) }

// Edit returns kube-proxy's configuration with the declared fields as wanted. Every other byte stays: comments, order, quoting, unknown
// fields. A document that cannot be edited so is refused with an error that says why and what to do; nothing is guessed.
func Edit(document string, want Fields) (string, []Change, error) {
	_, values, err := parse(document)
	if err != nil {
		return "", nil, err
	}
	edited := document
	var changes []Change
	for _, f := range want.scalars() {
		if lookup(values, f.path) == f.value {
			continue // however it is written
		}
		root, _, err := parse(edited) // anew after each change: places move
		if err != nil {
			return "", nil, err
		}
		next, from, err := set(edited, root, f.path, fmt.Sprint(f.value))
		if err != nil {
			return "", nil, err
		}
		changes = append(changes, Change{Field: f.name(), From: from, To: fmt.Sprint(f.value)})
		edited = next
	}
	if len(changes) > 0 {
		err = verify(values, edited, want.scalars())
	}
	if err != nil {
		return "", nil, err
	}
	return edited, changes, nil
}

// Mode returns the mode that a configuration asks for: "" where it leaves it to kube-proxy.
func Mode(document string) (string, error) {
	_, values, err := parse(document)
	if err != nil {
		return "", err
	}
	switch mode := values["mode"]; mode {
	case nil, "":
		return "", nil
	case string(v1alpha1.ProxyModeIPTables), string(v1alpha1.ProxyModeIPVS), string(v1alpha1.ProxyModeNFTables):
		return fmt.Sprint(mode), nil
	default:
		return "", fmt.Errorf("config.conf: mode is %v, which kube-proxy does not start with: write iptables, ipvs or nftables there, "+
			"or set spec.kubeProxy.mode", mode)
	}
}

// scalar is a field with the value that it should have, a string or a bool.
type scalar struct {
	path  []string
	value any
}

func (s scalar) name() string { return strings.Join(s.path, ".") }

// strictARP is the field that keeps ipvs nodes from answering ARP for every Service's address.
var strictARP = []string{"ipvs", "strictARP"}

func (f Fields) scalars() []scalar {
	var all []scalar
	if f.Mode != "" {
		all = append(all, scalar{[]string{"mode"}, string(f.Mode)})
	}
	if f.StrictARP {
		all = append(all, scalar{strictARP, true})
	}
	return all
}

// parse reads the document and returns its mapping, with every place, and what it says.
func parse(document string) (root *yaml.Node, values map[string]any, err error) {
	decoder := yaml.NewDecoder(strings.NewReader(document))
	var doc, further yaml.Node
	if err := decoder.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("config.conf is not YAML (%w): mend it by hand, kube-proxy cannot start with it either", oneLine(err))
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, nil, errors.New("config.conf is no YAML mapping: it should hold one " + Kind)
	}
	if err := decoder.Decode(&further); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("config.conf holds more than one YAML document: leave only the " + Kind)
	}
	root = doc.Content[0]
	if err := root.Decode(&values); err != nil { // a duplicate key too: it is open which of the two counts
		return nil, nil, fmt.Errorf("config.conf cannot be read (%w): mend it by hand", oneLine(err))
	}
	switch kind := values["kind"]; kind {
	case Kind:
		return root, values, nil
	case nil:
		return nil, nil, errors.New("config.conf has no kind: write `kind: " + Kind + "` if it is one, Lanyard edits nothing else")
	default:
		return nil, nil, fmt.Errorf("config.conf is of kind %v, not %s: Lanyard edits nothing else, remove spec.kubeProxy", kind, Kind)
	}
}

// oneLine puts an error of the YAML parser on one line: it ends up in a condition.
func oneLine(err error) error {
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}

// lookup returns the value of a field; nil when it is not there.
func lookup(values map[string]any, path []string) any {
	for _, key := range path[:len(path)-1] {
		values, _ = values[key].(map[string]any)
	}
	return values[path[len(path)-1]]
}

// valueOf returns the value of a mapping's key; nil when it is not there.
func valueOf(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// set returns the document with one scalar set, and what stood there before.
func set(document string, root *yaml.Node, path []string, value string) (edited, from string, err error) {
	field := strings.Join(path, ".")
	if root.Style&yaml.FlowStyle != 0 {
		return "", "", fmt.Errorf("config.conf is written in braces, as JSON is: write it as YAML, one field to a line, "+
			"or set %s there by hand", field)
	}
	mapping := root
	for _, key := range path[:len(path)-1] {
		next := valueOf(mapping, key)
		if next == nil {
			return insert(document, mapping, key+":", []string{path[len(path)-1] + ": " + value}), "(absent)", nil
		}
		if next.Kind != yaml.MappingNode || next.Style&yaml.FlowStyle != 0 || len(next.Content) == 0 || next.Anchor != "" {
			return "", "", fmt.Errorf("config.conf: %s is not written as a plain block of YAML (line %d): write it so, one field to a line, "+
				"or set %s there by hand", key, next.Line, field)
		}
		mapping = next
	}
	node := valueOf(mapping, path[len(path)-1])
	switch {
	case node == nil:
		return insert(document, mapping, path[len(path)-1]+": "+value, nil), "(absent)", nil
	case node.Kind != yaml.ScalarNode || node.Anchor != "" || node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return "", "", fmt.Errorf("config.conf: %s is not a plain value (line %d): write it as `%s: %s`",
			field, node.Line, path[len(path)-1], value)
	}
	old, start, found := sourceOf(document, node)
	if !found {
		return "", "", fmt.Errorf("config.conf: %s is written in a way that Lanyard does not know (line %d): write it as `%s: %s`", field,
			node.Line, path[len(path)-1], value)
	}
	gap := ""
	if old == "" { // `mode:` with nothing behind it; its place is right behind the colon
		gap = " "
	}
	return document[:start] + gap + value + document[start+len(old):], orEmpty(old), nil
}

func orEmpty(text string) string {
	if text == "" {
		return `""`
	}
	return text
}

// sourceOf finds the text of a scalar in the document, and its offset in bytes. yaml.v3 counts lines and columns from 1, columns in
// characters.
func sourceOf(document string, node *yaml.Node) (text string, start int, found bool) {
	start = lineStart(document, node.Line)
	line, _, _ := strings.Cut(document[start:], "\n")
	skip := len(string([]rune(line)[:min(node.Column-1, len([]rune(line)))]))
	rest := line[skip:]
	start += skip
	switch {
	case node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		text = quoted(rest)
		return text, start, text != ""
	case node.Value == "":
		return "", start, true
	default:
		return node.Value, start, strings.HasPrefix(rest, node.Value)
	}
}

// lineStart returns the offset in bytes of a line, counted from 1.
func lineStart(document string, line int) int {
	start := 0
	for range line - 1 {
		start += strings.IndexByte(document[start:], '\n') + 1
	}
	return start
}

// quoted returns the quoted text at the start of a line, quotes included; "" when there is none that ends there. No value of ours has a
// quote inside.
func quoted(line string) string {
	if !strings.HasPrefix(line, `"`) && !strings.HasPrefix(line, "'") {
		return ""
	}
	inside, _, found := strings.Cut(line[1:], line[:1])
	if !found {
		return ""
	}
	return line[:len(inside)+2]
}

// insert adds a key, with lines below it, before the mapping's first key, with that key's indentation.
func insert(document string, mapping *yaml.Node, key string, below []string) string {
	first := mapping.Content[0]
	start := lineStart(document, first.Line)
	ending := "\n"
	if line, _, _ := strings.Cut(document[start:], "\n"); strings.HasSuffix(line, "\r") {
		ending = "\r\n"
	}
	indent := strings.Repeat(" ", first.Column-1)
	text := indent + key + ending
	for _, line := range below {
		text += indent + "  " + line + ending
	}
	return document[:start] + text + document[start:]
}

// verify reads the edited document and makes sure that nothing but the declared fields differs: whatever the edit above misread, it does
// not reach the cluster. It uses up the old values.
func verify(was map[string]any, edited string, declared []scalar) error {
	var is map[string]any
	if err := yaml.Unmarshal([]byte(edited), &is); err != nil {
		return fmt.Errorf("config.conf would not be YAML any more (%w): set the fields by hand", oneLine(err))
	}
	for _, f := range declared {
		if got := take(is, f.path); got != f.value {
			return fmt.Errorf("config.conf: %s would be %v after the edit, not %v: set it by hand", f.name(), got, f.value)
		}
		take(was, f.path)
	}
	if !reflect.DeepEqual(was, is) {
		return errors.New("config.conf: the edit would change more than the declared fields: set them by hand")
	}
	return nil
}

// take removes a field and returns its value. A mapping that is empty then goes too.
func take(mapping map[string]any, path []string) any {
	value := mapping[path[0]]
	inner, isMapping := value.(map[string]any)
	if len(path) > 1 && isMapping {
		value = take(inner, path[1:])
		if len(inner) > 0 {
			return value
		}
	}
	delete(mapping, path[0])
	return value
}
