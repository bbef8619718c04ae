package kubeproxy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ignored finds fields that kube-proxy does not know: it logs that it decodes leniently, and goes on without them.
func (c draft) ignored(mapping *yaml.Node, prefix string) []Problem {
	var found []Problem
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		name := mapping.Content[i].Value
		path := prefix + name
		kind, isKnown := knownFields[path]
		switch {
		case name == "<<" && mapping.Content[i].Tag == "!!merge":
			found = append(found, c.ignored(resolved(mapping.Content[i+1]), prefix)...)
		case !isKnown:
			found = append(found, c.unknown(path, mapping.Content[i]))
		case c.version.minor < fieldsSince[path]:
			found = append(found, Problem{Path: Path(path), Message: fmt.Sprintf("config.conf: %s (line %d) is ignored by %v, 1.%d is the first "+
				"that knows it: remove it, or upgrade the cluster", path, mapping.Content[i].Line, c.version, fieldsSince[path])})
		case kind == kindSection:
			found = append(found, c.ignored(resolved(mapping.Content[i+1]), path+".")...)
		}
	}
	return found
}

// unknown says what to do about a field that kube-proxy does not know.
func (c draft) unknown(path string, key *yaml.Node) Problem {
	remedy := "remove it"
	if meant := nearest(path); len(meant) > 0 {
		remedy = "write " + strings.Join(meant, " or ") + " if that is meant, or remove it"
	} else if c.version.minor > newestKnown {
		remedy = fmt.Sprintf("remove it, unless it is newer than 1.%d", newestKnown)
	}
	return Problem{Path: Path(path), Message: fmt.Sprintf("config.conf: %s (line %d) is no field of KubeProxyConfiguration, and kube-proxy "+
		"ignores it: %s", flat(path), key.Line, remedy)}
}

// nearest returns the known fields that a misspelt or misplaced one may stand for: the most alike, those of the same section before others.
func nearest(path string) []string {
	best := 3 // more than two letters apart is another word
	var found []string
	for _, field := range slices.Sorted(maps.Keys(knownFields)) {
		name, wanted := lastKey(field), lastKey(path)
		apart := distance(strings.ToLower(name), strings.ToLower(wanted))
		if 3*apart > len(wanted) || apart >= 3 || apart > best {
			continue
		}
		if apart < best {
			best, found = apart, nil
		}
		found = append(found, field)
	}
	section := strings.TrimSuffix(path, lastKey(path))
	if i := slices.IndexFunc(found, func(f string) bool { return strings.TrimSuffix(f, lastKey(f)) == section }); i >= 0 {
		return found[i : i+1]
	}
	return found
}

func lastKey(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// distance is how many letters have to be changed, added or left out to make one word of the other (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
