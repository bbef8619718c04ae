package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVerbsRefuse holds that a verb that cannot work says why and what to do, before it has changed anything.
func TestVerbsRefuse(t *testing.T) {
	const hosts = "it has k8s-ops, k8s-cp-01, k8s-wl-01"
	for name, tc := range map[string]struct {
		up  bool
		cmd string
		err string
	}{
		"a name that would end up in paths":    {cmd: "status --name a/b", err: `--name is "a/b": a lab's name has letters, digits and hyphens only`},
		"a name that would look like a host's": {cmd: "status --name a.lan", err: `--name is "a.lan": a lab's name has letters, digits and hyphens only`},
		"a verb that does not exist":           {cmd: "reboot", err: `unknown command "reboot" for "lab"`},
		"too many nodes":                       {cmd: "up --nodes 61", err: "--nodes is 61: a lab has 1 to 60 nodes"},
		"too many kernels":                     {cmd: "up --uml-nodes 4", err: "--uml-nodes is 4: a lab has at most 3 nodes with a kernel of their own"},
		"fewer nodes than there are": {up: true, cmd: "up --nodes 1",
			err: `--nodes is 1 and lab "test" has 2: a lab does not shrink; take it down first (lab down)`},
		"the status of a lab that is down":        {cmd: "status", err: "lab \"test\" is down: start it with `lab up`"},
		"a command on a lab that is down":         {cmd: "exec k8s-ops -- true", err: "lab \"test\" is down: start it with `lab up`"},
		"an image for a lab that is down":         {cmd: "load image.tar", err: "lab \"test\" is down: start it with `lab up`"},
		"a cable of a lab that is down":           {cmd: "cut k8s-wl-01", err: "lab \"test\" is down: start it with `lab up`"},
		"no command":                              {up: true, cmd: "exec k8s-wl-01", err: "requires at least 2 arg(s), only received 1"},
		"a command on a node that is off":         {up: true, cmd: "exec k8s-wl-01 -- true", err: "k8s-wl-01 is off: turn it on with `lab start k8s-wl-01`"},
		"a command on a host that does not exist": {up: true, cmd: "exec k8s-wl-02 -- true", err: `lab "test" has no host "k8s-wl-02": ` + hosts},
		"a cable of a host that does not exist":   {up: true, cmd: "cut --silent k8s-wl-02", err: `lab "test" has no host "k8s-wl-02": ` + hosts},
		"mending for a host that does not exist":  {up: true, cmd: "mend k8s-wl-02", err: `lab "test" has no host "k8s-wl-02": ` + hosts},
		"the workstation is no node to kill":      {up: true, cmd: "kill k8s-ops", err: "k8s-ops is the workstation: only nodes can be killed and started"},
		"the workstation is no node to start":     {up: true, cmd: "start k8s-ops", err: "k8s-ops is the workstation: only nodes can be killed and started"},
		"an image on a node that is off": {up: true, cmd: "load /image.tar",
			err: "loading image.tar on k8s-cp-01: k8s-cp-01 is off: turn it on with `lab start k8s-cp-01`"},
		"an image without a name":                    {cmd: "image --binary lab --out image.tar", err: `required flag(s) "ref" not set`},
		"an image without programs":                  {cmd: "image --binary= --ref a:b --out image.tar", err: "--binary is empty: an image has at least one program"},
		"nothing is left over of a lab that is down": {cmd: "leftovers"},
	} {
		t.Run(name, func(t *testing.T) {
			cache := t.TempDir()
			t.Setenv("XDG_CACHE_HOME", cache)
			t.Setenv("LANYARD_LAB", "test")
			state := filepath.Join(cache, "lanyard", "labs", "test")
			if tc.up {
				if err := makeFolders(state); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(state, "nodes-wanted"), []byte("2"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			root := command()
			root.SetArgs(strings.Fields(tc.cmd))
			if err := root.ExecuteContext(t.Context()); message(err) != tc.err {
				t.Errorf("error is %q, want %q", message(err), tc.err)
			}
		})
	}
}

func TestLocate(t *testing.T) {
	for name, tc := range map[string]struct{ cache, err string }{
		"a home folder": {cache: "/home/ada/.cache"},
		"a folder whose name only begins like a hidden one": {cache: "/variable"},
		"a folder that nodes have their own of": {cache: "/var/cache",
			err: "the cache is /var/cache, and nodes have a /var of their own: set XDG_CACHE_HOME to a folder elsewhere"},
		"a path that would be two lower folders": {cache: "/home/a:b", err: `the cache is "/home/a:b", which mount options cannot hold: ` +
			"set XDG_CACHE_HOME to a path without spaces, commas, colons and backslashes"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := checkCache(tc.cache); message(err) != tc.err {
				t.Errorf("error is %q, want %q", message(err), tc.err)
			}
		})
	}
}

// TestLocateFollowsLinks: the kernel names programs and mounts by their real paths.
func TestLocateFollowsLinks(t *testing.T) {
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(folder, "link")
	if err := makeFolders(filepath.Join(folder, "real")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", link)
	l := lab{name: "test"}
	if err := l.locate(); err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(folder, "real", "lanyard", "labs", "test"); l.state != want {
		t.Errorf("the state folder is %s, want %s", l.state, want)
	}
}
