package kubeproxy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	kubeyaml "sigs.k8s.io/yaml"
)

// place is where a field is, or would be, in a document.
type place struct {
	document string
	// mapping is the innermost that there is on the way to the field, and keys are the ones below it.
	mapping *yaml.Node
	keys    []string
	// key and node are the field's key and value; nil when it is not there.
	key, node *yaml.Node
	field     Field
}

// oddEnding ends a line for YAML 1.1 (section 5.4) and for no editor.
var oddEnding = regexp.MustCompile("\r[^\n]|\r$|[\u0085\u2028\u2029]")

// set returns the document with one field set, and what stood there before.
func set(document string, f Field) (edited, from string, err error) {
	root, _, err := parse(document) // anew for each field: places move
	if err != nil {
		return "", "", err
	}
	if inBraces(root) {
		return "", "", fmt.Errorf("config.conf is written in braces, as JSON is: write it as YAML, one field to a line, "+
			"or set %s there by hand", f.Path)
	}
	if oddEnding.MatchString(document) {
		return "", "", fmt.Errorf("config.conf ends a line in a way that only YAML knows (a lone CR, NEL, LS or PS): end lines with LF, "+
			"or set %s there by hand", f.Path)
	}
	p := place{document: document, mapping: root, keys: f.Path.keys(), field: f}
	for {
		p.key, p.node = entryOf(p.mapping, p.keys[0])
		if p.node == nil {
			return p.insert(), absent, nil
		}
		if len(p.keys) == 1 {
			return p.replace()
		}
		if isEmpty(p.node) {
			return p.fill()
		}
		if p.node.Kind != yaml.MappingNode || p.node.Anchor != "" {
			return "", "", p.noSection()
		}
		p.mapping, p.keys = p.node, p.keys[1:]
	}
}

func (p place) noSection() error {
	return fmt.Errorf("config.conf: %s is not written as a plain section of YAML (line %d): write it so, one field to a line, "+
		"or set %s there by hand", p.keys[0], p.node.Line, p.field.Path)
}

// entryOf returns a mapping's key and its value; nil when it is not there.
func entryOf(mapping *yaml.Node, name string) (key, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i], mapping.Content[i+1]
		}
	}
	return nil, nil
}

// inBraces says whether a mapping or a list is written on one line, as `{a: b}` or `[a, b]`.
func inBraces(n *yaml.Node) bool { return n.Style&yaml.FlowStyle != 0 }

// isEmpty says whether a section has nothing in it: `{}`, null in one of its spellings, or nothing at all.
func isEmpty(n *yaml.Node) bool {
	return n.Anchor == "" && (n.Kind == yaml.MappingNode && len(n.Content) == 0 || n.Kind == yaml.ScalarNode && n.Tag == "!!null")
}

// insert adds the field before the mapping's first key, as that one is written.
func (p place) insert() string {
	first := p.mapping.Content[0]
	if inBraces(p.mapping) {
		start := offset(p.document, first)
		return p.document[:start] + p.braced() + ", " + p.document[start:]
	}
	start := lineStart(p.document, first.Line)
	indent := strings.Repeat(" ", first.Column-1)
	ending := lineEnding(p.document[start:])
	text := ""
	for i, key := range p.keys {
		text += indent + strings.Repeat("  ", i) + key + ":"
		if i == len(p.keys)-1 {
			text += " " + p.field.source(false)
		}
		text += ending
	}
	return p.document[:start] + text + p.document[start:]
}

// braced is the field as it is written between braces.
func (p place) braced() string {
	return p.keys[len(p.keys)-1] + ": " + p.field.source(true)
}

// fill puts the field into an empty section.
func (p place) fill() (edited, from string, err error) {
	p.keys = p.keys[1:]
	if p.node.Kind == yaml.MappingNode {
		start := offset(p.document, p.node)
		if !strings.HasPrefix(p.document[start:], "{") {
			p.keys = p.field.Path.keys()
			return "", "", p.noSection()
		}
		return p.document[:start+1] + p.braced() + p.document[start+1:], absent, nil
	}
	old, start, found := sourceOf(p.document, p.node)
	if !found {
		p.keys = p.field.Path.keys()
		return "", "", p.noSection()
	}
	return p.splice(start, old, "{"+p.braced()+"}"), absent, nil
}

// replace puts the field's value where another is.
func (p place) replace() (edited, from string, err error) {
	if p.node.Anchor != "" {
		return "", "", p.noValue()
	}
	_, wantsList := p.field.Value.([]string)
	switch {
	case p.node.Kind == yaml.SequenceNode && wantsList && inBraces(p.node):
		return p.relist()
	case p.node.Kind == yaml.SequenceNode && wantsList:
		return p.items()
	case p.node.Kind != yaml.ScalarNode, p.node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0, wantsList && p.node.Tag != "!!null":
		return "", "", p.noValue()
	}
	old, start, found := sourceOf(p.document, p.node)
	if !found {
		return "", "", fmt.Errorf("config.conf: %s is written in a way that Lanyard does not know (line %d): write it as `%s`", p.field.Path,
			p.node.Line, p.example())
	}
	from = old
	if old == "" {
		from = `""`
	}
	return p.splice(start, old, p.field.like(old, inBraces(p.mapping))), from, nil
}

func (p place) noValue() error {
	kind := "value"
	if p.field.Path.shape() == aList {
		kind = "list"
	}
	return fmt.Errorf("config.conf: %s is not a plain %s (line %d): write it as `%s`", p.field.Path, kind, p.node.Line, p.example())
}

func (p place) example() string { return p.keys[len(p.keys)-1] + ": " + p.field.source(false) }

// splice puts a text where another is. Where that is empty, its place is right behind the colon.
func (p place) splice(start int, old, text string) string {
	if old == "" {
		text = " " + text
	}
	return p.document[:start] + text + p.document[start+len(old):]
}

// source is how the field's value is written; between braces and brackets commas and colons need quotes.
func (f Field) source(braced bool) string {
	switch v := f.Value.(type) {
	case bool:
		return fmt.Sprint(v)
	case []string:
		return bracket(v, func(item string) string { return word(item, true) })
	case string:
		return word(v, braced)
	}
	return fmt.Sprint(f.Value)
}

// bracket writes a list on one line.
func bracket(items []string, write func(string) string) string {
	var words []string
	for _, item := range items {
		words = append(words, write(item))
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// like is source, in the quotes that the old text has. A text that needs its quotes is no example, and an empty one neither: kubeadm
// writes each so.
func (f Field) like(old string, braced bool) string {
	value, isText := f.Value.(string)
	if !isText || value == "" || len(old) < 3 || quoted(old) != old || strings.ContainsAny(value, `\"'`) {
		return f.source(braced)
	}
	if inner := old[1 : len(old)-1]; word(inner, braced) != inner {
		return f.source(braced)
	}
	return old[:1] + value + old[:1]
}

// plainWord is what needs no quotes between braces; elsewhere commas and colons inside need none either.
var (
	plainBraced = regexp.MustCompile(`^[0-9A-Za-z]([0-9A-Za-z./_-]*[0-9A-Za-z])?$`)
	plainWord   = regexp.MustCompile(`^[0-9A-Za-z]([0-9A-Za-z./_,:-]*[0-9A-Za-z])?$`)
)

// word writes a text, in quotes if it could be read as something else.
func word(text string, braced bool) string {
	pattern := plainWord
	if braced {
		pattern = plainBraced
	}
	var read any
	if pattern.MatchString(text) && kubeyaml.Unmarshal([]byte(text), &read) == nil && read == text {
		return text
	}
	quotes, err := json.Marshal(text) // what JSON quotes, YAML reads
	if err != nil {
		return text // no text is an error to JSON
	}
	return string(quotes)
}

// relist writes the list anew in its brackets, in quotes if it has any.
func (p place) relist() (edited, from string, err error) {
	start := offset(p.document, p.node)
	length := bracketed(p.document[start:])
	if length == 0 {
		return "", "", p.noValue()
	}
	old := p.document[start : start+length]
	write := func(item string) string { return word(item, true) }
	if i := strings.IndexAny(old, `"'`); i >= 0 {
		write = func(item string) string { return Field{Value: item}.like(old[i:i+1]+item+old[i:i+1], true) }
	}
	return p.document[:start] + bracket(p.field.Value.([]string), write) + p.document[start+length:], old, nil
}

// bracketed returns the length of the list in brackets that the text begins with; 0 when it is not on one line, or holds more than words.
func bracketed(text string) int {
	if !strings.HasPrefix(text, "[") {
		return 0
	}
	var quote rune
	for i, c := range text[1:] {
		switch {
		case c == '\n', c == '\r':
			return 0
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"', c == '\'':
			quote = c
		case strings.ContainsRune("[{#", c):
			return 0
		case c == ']':
			return i + 2
		}
	}
	return 0
}

// items changes a list that has one item to a line: lines of items that are not wanted go, new ones come behind the last that stays.
func (p place) items() (edited, from string, err error) {
	want := p.field.Value.([]string)
	lines := strings.SplitAfter(p.document, "\n")
	ending := lineEnding(lines[0])
	var had, stays []string
	at, prefix := p.node.Content[0].Line-1, ""
	for _, item := range p.node.Content {
		dash, ok := p.dash(item)
		if !ok || item.Line > len(lines) {
			return "", "", p.noValue()
		}
		prefix = dash
		had = append(had, item.Value)
		if slices.Contains(want, item.Value) && !slices.Contains(stays, item.Value) {
			stays, at = append(stays, item.Value), item.Line
		} else {
			lines[item.Line-1] = ""
		}
	}
	added := ""
	for _, item := range want {
		if !slices.Contains(stays, item) {
			stays = append(stays, item)
			added += prefix + word(item, false) + ending
		}
	}
	if len(want) == 0 && !p.emptyBehindKey(lines) {
		return "", "", p.noValue()
	}
	if at == len(lines) && added != "" { // the last line has no end
		lines[at-1] += ending
		added = strings.TrimSuffix(added, ending)
	}
	return strings.Join(slices.Insert(lines, at, added), ""), "[" + strings.Join(had, ", ") + "]", nil
}

// dash returns what stands before an item on its line, which has nothing else than the item and a comment.
func (p place) dash(item *yaml.Node) (prefix string, ok bool) {
	source, start, found := sourceOf(p.document, item)
	if !found || source == "" || item.Kind != yaml.ScalarNode || item.Anchor != "" {
		return "", false
	}
	prefix = p.document[lineStart(p.document, item.Line):start]
	return prefix, strings.HasPrefix(strings.TrimLeft(prefix, " "), "- ") && strings.Trim(prefix, " ") == "-"
}

// emptyBehindKey writes `[]` behind the key's colon.
func (p place) emptyBehindKey(lines []string) bool {
	source, start, found := sourceOf(p.document, p.key)
	if !found {
		return false
	}
	start += len(source) - lineStart(p.document, p.key.Line)
	line := lines[p.key.Line-1]
	before, after, found := strings.Cut(line[start:], ":")
	if !found || strings.TrimSpace(before) != "" {
		return false
	}
	lines[p.key.Line-1] = line[:start] + before + ": []" + after
	return true
}

// offset returns the offset in bytes of a node. yaml.v3 counts lines and columns from 1, columns in characters.
func offset(document string, node *yaml.Node) int {
	start := lineStart(document, node.Line)
	line, _, _ := strings.Cut(document[start:], "\n")
	characters := []rune(line)
	return start + len(string(characters[:min(node.Column-1, len(characters))]))
}

// sourceOf finds the text of a scalar in the document, and its offset in bytes.
func sourceOf(document string, node *yaml.Node) (text string, start int, found bool) {
	start = offset(document, node)
	rest, _, _ := strings.Cut(document[start:], "\n")
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

// lineEnding returns how the first line of a text ends.
func lineEnding(text string) string {
	if line, _, _ := strings.Cut(text, "\n"); strings.HasSuffix(line, "\r") {
		return "\r\n"
	}
	return "\n"
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
