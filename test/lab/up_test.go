package main

import "testing"

func TestCanRun(t *testing.T) {
	for name, tc := range map[string]struct {
		system, architecture string
		user                 int
		err                  string
	}{
		"root on Linux and amd64": {system: "linux", architecture: "amd64"},
		"a user without rights": {system: "linux", architecture: "amd64", user: 1000,
			err: "you are user 1000: a lab needs root, for network namespaces and mounts of its own"},
		"another system": {system: "darwin", architecture: "arm64",
			err: "this is darwin on arm64: a lab needs Linux on amd64, for Debian's packages"},
		"another architecture": {system: "linux", architecture: "arm64",
			err: "this is linux on arm64: a lab needs Linux on amd64, for Debian's packages"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := canRun(tc.system, tc.architecture, tc.user); err != nil {
				got = err.Error()
			}
			if got != tc.err {
				t.Errorf("canRun says %q, want %q", got, tc.err)
			}
		})
	}
}
