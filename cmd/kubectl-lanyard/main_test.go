package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// run runs the plugin, and returns what it prints and whether it fails.
func run(t *testing.T, in string, args ...string) (out, errOut string, failed bool) {
	t.Helper()
	streams, stdin, stdout, stderr := genericiooptions.NewTestIOStreams()
	stdin.WriteString(in)
	command := newCommand(streams)
	command.SetArgs(args)
	failed = command.ExecuteContext(t.Context()) != nil
	return stdout.String(), stderr.String(), failed
}

const tutorial = `# What MetalLB is told, as Lanyard is told it. Read what is said about it here before you apply it.
apiVersion: networking.lanyard.dev/v1alpha1
kind: ClusterNetworking
metadata:
  name: cluster
spec:
  ipPools:
  - addresses:
    - 192.168.1.200-192.168.1.210
    name: lan-pool
  l2Advertisements:
  - ipPools:
    - lan-pool
    name: lan-l2
`

func TestImportOfTheTutorialsFile(t *testing.T) {
	name := filepath.Join("..", "..", "internal", "metallb", "testdata", "tutorial.metallb.yaml")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for from, args := range map[string][]string{"a file": {"-f", name}, "the standard input": {"-f", "-"}} {
		t.Run(from, func(t *testing.T) {
			out, errOut, failed := run(t, string(text), append([]string{"import", "metallb"}, args...)...)
			if diff := cmp.Diff(tutorial, out); diff != "" || failed {
				t.Errorf("printed (-want +got):\n%s%s", diff, errOut)
			}
		})
	}
}

func TestErrorsSayWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		args []string
		want string
	}{
		"a file that is not there": {args: []string{"import", "metallb", "-f", "nowhere.yaml"}, want: "Error: open nowhere.yaml: no such file or directory\n"},
		"nothing of MetalLB's":     {in: "kind: Pod\napiVersion: v1\n", args: []string{"import", "metallb", "-f", "-"}, want: "Error: there are no objects of MetalLB's (metallb.io) in -\n"},
		"an address that is none":  {args: []string{"who-has", "lb-test"}, want: "Error: \"lb-test\" is no address: write one, like 192.168.1.200\n"},
		"no cluster":               {args: []string{"import", "metallb", "--server", "http://127.0.0.1:1"}, want: "Error: listing bfdprofiles.metallb.io: "},
	} {
		t.Run(name, func(t *testing.T) {
			out, errOut, failed := run(t, tc.in, tc.args...)
			if !failed || out != "" || !strings.HasPrefix(errOut, tc.want) {
				t.Errorf("printed %q, and %q; want %q", out, errOut, tc.want)
			}
		})
	}
}
