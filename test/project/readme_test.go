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

// TestTheReadmeHasARemedyForEveryReason: whoever reads a reason in a condition or an Event finds what to do.
func TestTheReadmeHasARemedyForEveryReason(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	reasons := append(constants(t, "api/v1alpha1/conditions.go", "Reason"), constants(t, "internal/ipam/plan.go", "Reason")...)
	for _, reason := range reasons {
		if !strings.Contains(string(text), "| `"+reason+"` |") {
			t.Errorf("README.md has no row for the reason %s", reason)
		}
	}
}
