package project

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-dev/lanyard/test/rbac"
)

// row is one of the page's table: who, where, may, because.
var row = regexp.MustCompile("(?m)^\\| ([^|]*) \\| ([^|]*) \\| `([^`]*)` \\| (.+) \\|$")

// TestThePageSaysWhyForEveryRule, and names no rule that there is not.
func TestThePageSaysWhyForEveryRule(t *testing.T) {
	manifests, err := os.ReadFile("../../dist/install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := rbac.Read(manifests)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../config/rbac/README.md")
	if err != nil {
		t.Fatal(err)
	}
	said, there := map[string]bool{}, map[string]bool{}
	for _, match := range row.FindAllStringSubmatch(string(page), -1) {
		said[fmt.Sprintf("| %s | %s | `%s` |", match[1], match[2], match[3])] = true
	}
	for _, r := range rules {
		who, where := r.Account, r.Namespace
		if who == "" {
			who = "role " + r.Role
		}
		if where == "" {
			where = "everywhere"
		}
		there[fmt.Sprintf("| %s | %s | `%s` |", who, where, r.What())] = true
	}
	if diff := cmp.Diff(there, said); diff != "" {
		t.Errorf("rules of dist/install.yaml (-) and rows of config/rbac/README.md (+):\n%s", diff)
	}
}
