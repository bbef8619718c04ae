package kubeproxy

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
	kubeyaml "sigs.k8s.io/yaml"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// Kind is the kind of the document that kube-proxy reads.
const Kind = "KubeProxyConfiguration"

// Change is one field that an edit changes.
type Change struct {
	Field, From, To string
}

func (c Change) String() string { return fmt.Sprintf("%s: %s → %s", c.Field, c.From, c.To) }

// Edit returns kube-proxy's configuration with the fields as wanted. Every other byte stays: comments, order, quoting, unknown fields. A
// document that cannot be edited so is refused with an error that says why and what to do; nothing is guessed.
func Edit(document string, want Fields) (string, []Change, error) {
	_, values, err := parse(document)
	if err != nil {
		return "", nil, err
	}
	edited := document
	var changes []Change
	for _, f := range want {
		if f.holds(values) {
			continue // however it is written
		}
		next, from, err := set(edited, f)
		if err != nil {
			return "", nil, err
		}
		changes = append(changes, Change{Field: string(f.Path), From: from, To: f.shown()})
		edited = next
	}
	if len(changes) > 0 {
		err = verify(values, edited, want)
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
		return "", fmt.Errorf("config.conf: mode is %s, which kube-proxy does not start with: write iptables, ipvs or nftables there, "+
			"or set spec.kubeProxy.mode", flat(mode))
	}
}

// parse reads the document and returns its mapping, with every place, and what it says to kube-proxy, whose YAML is an older one: `no` is
// false there.
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
	values = nil
	if err := kubeyaml.Unmarshal([]byte(document), &values); err != nil {
		return nil, nil, fmt.Errorf("config.conf cannot be read (%w): mend it by hand", oneLine(err))
	}
	switch kind := values["kind"]; kind {
	case Kind:
		return root, values, nil
	case nil:
		return nil, nil, errors.New("config.conf has no kind: write `kind: " + Kind + "` if it is one, Lanyard edits nothing else")
	default:
		return nil, nil, fmt.Errorf("config.conf is of kind %s, not %s: Lanyard edits nothing else, remove spec.kubeProxy", flat(kind), Kind)
	}
}

// oneLine puts an error of the YAML parser on one line: it ends up in a condition.
func oneLine(err error) error { return errors.New(flat(err)) }

// flat writes anything on one line.
func flat(value any) string { return strings.Join(strings.Fields(fmt.Sprint(value)), " ") }

// lookup returns the value of a field; nil when it is not there.
func lookup(values map[string]any, path []string) any {
	value, _ := find(values, path)
	return value
}

// find returns the value of a field, and whether it is there: it may be null.
func find(values map[string]any, path []string) (value any, isThere bool) {
	for _, key := range path[:len(path)-1] {
		values, _ = values[key].(map[string]any)
	}
	value, isThere = values[path[len(path)-1]]
	return value, isThere
}

// verify reads the edited document and makes sure that nothing but the declared fields differs: whatever the edit above misread, it does
// not reach the cluster. It uses up the old values.
func verify(was map[string]any, edited string, declared Fields) error {
	_, is, err := parse(edited)
	if err != nil {
		return fmt.Errorf("config.conf could not be read any more after the edit (%w): set the fields by hand", oneLine(err))
	}
	for _, f := range declared {
		if !f.holds(is) {
			return fmt.Errorf("config.conf: %s would be %s after the edit, not %s: set it by hand", f.Path, flat(lookup(is, f.Path.keys())), f.shown())
		}
	}
	for _, f := range declared {
		take(was, f.Path.keys())
		take(is, f.Path.keys())
	}
	if !reflect.DeepEqual(was, is) {
		return errors.New("config.conf: the edit would change more than the declared fields: set them by hand")
	}
	return nil
}

// take removes a field. A section that is empty then goes too, and one that has nothing but null.
func take(mapping map[string]any, path []string) {
	if inner, isMapping := mapping[path[0]].(map[string]any); isMapping && len(path) > 1 {
		if take(inner, path[1:]); len(inner) > 0 {
			return
		}
	} else if len(path) > 1 && mapping[path[0]] != nil {
		return
	}
	delete(mapping, path[0])
}
