package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSuccession: what OLM could not upgrade to without silence on the LAN is refused.
func TestSuccession(t *testing.T) {
	before := committed(t, csvFile)
	for name, tc := range map[string]struct {
		replace, with string
		want          string
	}{
		"the same":                {},
		"only the version":        {replace: "0.1.0", with: "0.2.0"},
		"another image":           {replace: "image: lanyard:dev", with: "image: lanyard:next"},
		"a renamed Deployment":    {replace: "      - label:\n          app.kubernetes.io/component: manager\n          app.kubernetes.io/name: lanyard\n        name: lanyard-manager", with: "      - name: lanyard-controller", want: "lanyard.v0.1.0 has the Deployment lanyard-manager, and lanyard.v0.1.0 has not: OLM would remove it, and with it the DaemonSet that it owns, so that no speaker answers for any address until new ones run; keep the name"},
		"another selector":        {replace: "            matchLabels:\n              app.kubernetes.io/component: manager", with: "            matchLabels:\n              app.kubernetes.io/component: controller", want: "the selector of Deployment lanyard-manager differs between lanyard.v0.1.0 and lanyard.v0.1.0: Kubernetes refuses that in a Deployment which is there, so keep it"},
		"a kind less":             {replace: "kind: NodeNetworking\n      name", with: "kind: NodeNetwork\n      name", want: "lanyard.v0.1.0 owns NodeNetworking of version v1alpha1, and lanyard.v0.1.0 does not: go on serving it"},
		"a CSV that is no object": {replace: before, with: "- a", want: "reading a ClusterServiceVersion: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type main.version"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(before, tc.replace) {
				t.Fatalf("the CSV does not have %q", tc.replace)
			}
			err := checkSuccession(before, strings.ReplaceAll(before, tc.replace, tc.with))
			if tc.replace == "" {
				err = checkSuccession(before, before)
			}
			var got string
			if err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got:  %s\nwant: %s", got, tc.want)
			}
		})
	}
}

// TestABundleThatCannotBeUpgradedToIsNotWritten: whoever renames the Deployment notices at `make bundle`.
func TestABundleThatCannotBeUpgradedToIsNotWritten(t *testing.T) {
	folder := t.TempDir()
	before := strings.ReplaceAll(committed(t, csvFile), "name: lanyard-manager", "name: lanyard-controller")
	must(t, writeFiles(folder, map[string]string{csvFile: before}))
	err := writeBundle(release{root: root, version: "0.2.0", image: developmentImage, channel: "candidate"}, folder)
	if err == nil || !strings.Contains(err.Error(), "has the Deployment lanyard-controller, and lanyard.v0.2.0 has not") {
		t.Errorf("error %v", err)
	}
	if after, err := os.ReadFile(filepath.Join(folder, csvFile)); err != nil || string(after) != before {
		t.Errorf("the bundle that was there is not left as it was (%v)", err)
	}
}

// committed returns a file of the bundle in the repository.
func committed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "bundle", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
