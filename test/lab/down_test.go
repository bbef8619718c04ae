package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMountsBelow(t *testing.T) {
	const mountinfo = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
41 22 0:5 / /labs/one/nodes/a/cgroup rw shared:2 - tmpfs tmpfs rw
42 41 0:26 / /labs/one/nodes/a/cgroup/cpu rw shared:3 - cgroup cgroup rw,cpu
43 22 0:27 / /labs/one-more/nodes/a rw shared:4 - tmpfs tmpfs rw
44 22 254:0 /labs/one/nodes /elsewhere rw shared:1 - ext4 /dev/vda rw
45 22 0:28 / /labs/one rw
short line
`
	for name, tc := range map[string]struct {
		folder string
		want   []string
	}{
		"the innermost last, so that the reverse order unmounts them": {
			folder: "/labs/one", want: []string{"/labs/one/nodes/a/cgroup", "/labs/one/nodes/a/cgroup/cpu"},
		},
		"a lab whose name begins like another's": {folder: "/labs/one-more", want: []string{"/labs/one-more/nodes/a"}},
		"a lab that has none":                    {folder: "/labs/two"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, mountsBelow(mountinfo, tc.folder)); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
		})
	}
}
