package project

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// constants returns the string constants of a file whose names or types begin with a prefix, without their quotes.
func constants(t *testing.T, file, prefix string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", file), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) == 0 {
			return true
		}
		kind, _ := spec.Type.(*ast.Ident)
		if !strings.HasPrefix(spec.Names[0].Name, prefix) && (kind == nil || kind.Name != prefix) {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("%s has no constants that begin with %s", file, prefix)
	}
	return values
}

// TestTheReadmeHasARemedyForEveryReason: whoever reads a reason in a condition or an Event finds what to do, there or where it leads to for the reasons
// of Services.
func TestTheReadmeHasARemedyForEveryReason(t *testing.T) {
	var text string
	for _, name := range []string{"README.md", "internal/ipam/README.md"} {
		content, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		text += string(content)
	}
	reasons := append(constants(t, "api/v1alpha1/conditions.go", "Reason"), constants(t, "internal/ipam/refusal.go", "Reason")...)
	for _, reason := range reasons {
		if !strings.Contains(text, "| `"+reason+"` |") {
			t.Errorf("neither README.md nor internal/ipam/README.md has a row for the reason %s", reason)
		}
	}
}
