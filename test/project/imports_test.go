package project

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/lanyard-dev/lanyard/"

// listed returns the lines that `go list` prints.
func listed(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Dir = "../.."
	var complaints strings.Builder
	cmd.Stderr = &complaints
	printed, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v\n%s", strings.Join(args, " "), err, complaints.String())
	}
	return strings.Fields(string(printed))
}

func TestWhatAProgramLinks(t *testing.T) {
	for name, tc := range map[string]struct {
		program string
		// links is what it must link, so that the test notices when a library moves; not is what it must not.
		links, not []string
	}{
		"the manager renders with Helm, and has nothing that touches the wire": {
			program: "./cmd/manager",
			links:   []string{"helm.sh/helm/v3/pkg/engine"},
			not:     []string{"github.com/mdlayher", "github.com/vishvananda/netlink", "github.com/hashicorp/memberlist", module + "internal/speaker", module + "internal/election"},
		},
		"the speaker touches the wire, and has neither Helm nor reconcilers": {
			program: "./cmd/speaker",
			links:   []string{"github.com/mdlayher/packet", "github.com/vishvananda/netlink", "github.com/hashicorp/memberlist"},
			not:     []string{"helm.sh", module + "controllers", module + "internal/dataplane", module + "internal/apply"},
		},
		"the allocator's plan needs the standard library alone": {
			program: "./internal/ipam", not: []string{"k8s.io", "sigs.k8s.io", module + "api"},
		},
		"the election needs the standard library alone": {
			program: "./internal/election", not: []string{"k8s.io", "sigs.k8s.io", module + "api"},
		},
		"kube-proxy's plan has no client": {
			program: "./internal/kubeproxy", not: []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime"},
		},
		"conditions have no client": {
			program: "./internal/conditions", not: []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			deps := listed(t, "-deps", tc.program)
			for _, wanted := range tc.links {
				if !slices.Contains(deps, wanted) {
					t.Errorf("%s does not link %s", tc.program, wanted)
				}
			}
			for _, unwanted := range tc.not {
				for _, dep := range deps {
					if dep == unwanted || strings.HasPrefix(dep, unwanted+"/") {
						t.Errorf("%s links %s", tc.program, dep)
					}
				}
			}
		})
	}
}

// TestSiblings: of the packages below internal, only the speaker, a shell that joins them, imports others.
func TestSiblings(t *testing.T) {
	for _, line := range listed(t, "-f", `{{.ImportPath}}{{range .Imports}}>{{.}}{{end}}`, "./internal/...") {
		imports := strings.Split(line, ">")
		if imports[0] == module+"internal/speaker" {
			continue
		}
		for _, imported := range imports[1:] {
			if strings.HasPrefix(imported, module+"internal/") {
				t.Errorf("%s imports its sibling %s", imports[0], imported)
			}
		}
	}
}

// TestEveryPackageSaysWhatItIs: the sentence of its doc.go is what `go doc` and the folder list's readers see first.
func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, line := range listed(t, "-f", `{{if not .Doc}}{{.ImportPath}}{{end}}`, "./...") {
		t.Errorf("%s has no package sentence in its doc.go", line)
	}
}
