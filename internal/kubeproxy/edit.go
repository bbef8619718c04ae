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
	if _, err := parse(document); err != nil {
		return "", nil, err
	}
	edited := document
	var changes []Change
	for _, f := range want.scalars() {
		root, err := parse(edited) // anew after each change: places move
		if err != nil {
			return "", nil, err
		}
		next, from, err := set(edited, root, f.path, f.value)
		if err != nil {
			return "", nil, err
		}
		if next != edited {
			changes = append(changes, Change{Field: strings.Join(f.path, "."), From: from, To: f.value})
		}
		edited = next
	}
	if err := verify(document, edited, changes); err != nil {
		return "", nil, err
	}
	return edited, changes, nil
}

// Mode returns the mode that a configuration asks for, as it is written: "" where it leaves it to kube-proxy.
func Mode(document string) (string, error) {
	root, err := parse(document)
	if err != nil {
		return "", err
	}
	if value := valueOf(root, "mode"); value != nil {
		return value.Value, nil
	}
	return "", nil
}

// scalar is a field with the value that it should have.
type scalar struct {
	path  []string
	value string
}

func (f Fields) scalars() []scalar {
	var all []scalar
	if f.Mode != "" {
		all = append(all, scalar{[]string{"mode"}, string(f.Mode)})
	}
	if f.StrictARP {
		all = append(all, scalar{[]string{"ipvs", "strictARP"}, "true"})
	}
	return all
}

// parse reads the document and returns its mapping.
func parse(document string) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(strings.NewReader(document))
	var doc, further yaml.Node
	if err := decoder.Decode(&doc); err != nil {
		return nil, fmt.Errorf("config.conf is not YAML (%w): mend it by hand, kube-proxy cannot start with it either", err)
	}
	if err := decoder.Decode(&further); !errors.Is(err, io.EOF) {
		return nil, errors.New("config.conf holds more than one YAML document: leave only the " + Kind)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("config.conf is no YAML mapping: it should hold one " + Kind)
	}
	if kind := valueOf(root, "kind"); kind == nil || kind.Value != Kind {
		return nil, fmt.Errorf("config.conf is not of kind %s: Lanyard edits nothing else", Kind)
	}
	var seen map[string]any // a duplicate key makes it ambiguous which one counts; yaml.v3 refuses them on decoding
	if err := root.Decode(&seen); err != nil {
		return nil, fmt.Errorf("config.conf cannot be read (%w): mend it by hand", err)
	}
	return root, nil
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
	mapping := root
	for _, key := range path[:len(path)-1] {
		next := valueOf(mapping, key)
		if next == nil {
			return insert(document, mapping, key+":", []string{path[len(path)-1] + ": " + value}), "(absent)", nil
		}
		if next.Kind != yaml.MappingNode || next.Style&yaml.FlowStyle != 0 || len(next.Content) == 0 || next.Anchor != "" {
			return "", "", fmt.Errorf("config.conf: %s is not written as a plain block of YAML: write it so, one field to a line, or set %s there by hand", key, field)
		}
		mapping = next
	}
	node := valueOf(mapping, path[len(path)-1])
	switch {
	case node == nil:
		return insert(document, mapping, path[len(path)-1]+": "+value, nil), "(absent)", nil
	case node.Kind != yaml.ScalarNode || node.Anchor != "" || node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return "", "", fmt.Errorf("config.conf: %s is not a plain value (line %d): write it as `%s: %s`", field, node.Line, path[len(path)-1], value)
	case node.Value == value && node.Tag != "!!null":
		return document, "", nil
	}
	old, start, err := sourceOf(document, node)
	if err != nil {
		return "", "", fmt.Errorf("config.conf: finding the value of %s: %w", field, err)
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

// sourceOf returns the text of a scalar in the document and its offset in bytes. yaml.v3 counts lines and columns from 1, columns in
// characters.
func sourceOf(document string, node *yaml.Node) (text string, start int, err error) {
	for range node.Line - 1 {
		start += strings.IndexByte(document[start:], '\n') + 1
	}
	line, _, _ := strings.Cut(document[start:], "\n")
	skip := len(string([]rune(line)[:min(node.Column-1, len([]rune(line)))]))
	rest := line[skip:]
	start += skip
	switch {
	case node.Style&yaml.DoubleQuotedStyle != 0, node.Style&yaml.SingleQuotedStyle != 0:
		end := closingQuote(rest)
		if end < 0 {
			return "", 0, errors.New("it is quoted over several lines: write it on one")
		}
		return rest[:end+1], start, nil
	case strings.HasPrefix(rest, node.Value) && node.Value != "":
		return node.Value, start, nil
	case node.Value == "" || node.Tag == "!!null":
		return "", start, nil
	}
	return "", 0, errors.New("it is written in a way that Lanyard does not know: write it as a plain word")
}

// closingQuote returns the offset of the quote that ends the quoted text at the start of the line; -1 when it does not end there.
func closingQuote(text string) int {
	quote := text[0]
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote == '"':
			i++
		case text[i] == quote && quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i
		}
	}
	return -1
}

// insert adds a key, with lines below it, before the mapping's first key, with that key's indentation.
func insert(document string, mapping *yaml.Node, key string, below []string) string {
	first := mapping.Content[0]
	start := 0
	for range first.Line - 1 {
		start += strings.IndexByte(document[start:], '\n') + 1
	}
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

// verify reads both documents and makes sure that nothing but the declared changes differs: whatever the edit above misread, it does not
// reach the cluster.
func verify(before, after string, changes []Change) error {
	var was, is map[string]any
	if err := yaml.Unmarshal([]byte(before), &was); err != nil {
		return fmt.Errorf("reading config.conf before the edit: %w", err)
	}
	if err := yaml.Unmarshal([]byte(after), &is); err != nil {
		return fmt.Errorf("config.conf would not be YAML any more (%w): set the fields by hand", err)
	}
	for _, c := range changes {
		path := strings.Split(c.Field, ".")
		want := any(c.To)
		if c.To == "true" {
			want = true
		}
		if got := take(is, path); got != want {
			return fmt.Errorf("config.conf: %s would be %v after the edit, not %s: set it by hand", c.Field, got, c.To)
		}
		take(was, path)
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
