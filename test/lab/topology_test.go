package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var compare = cmp.Options{
	cmp.AllowUnexported(host{}, identity{}, readiness{}),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

// node is a worker of the tests.
func node(name, addr, pods string) host {
	return host{name: name, role: worker, addr: netip.MustParseAddr(addr), pods: netip.MustParsePrefix(pods)}
}

func withOwnKernel(name, addr, pods string) host {
	h := node(name, addr, pods)
	h.kernel = ownKernel
	return h
}

func control() host {
	h := node("k8s-cp-01", "192.168.1.125", "10.244.1.0/24")
	h.role = controlPlane
	return h
}

// labWith is a lab that was brought up with so many nodes, as far as its state folder tells.
func labWith(t *testing.T, wanted string) lab {
	t.Helper()
	l := lab{name: "test", state: t.TempDir(), cache: t.TempDir()}
	if wanted != "" {
		if err := os.WriteFile(filepath.Join(l.state, "nodes-wanted"), []byte(wanted), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func TestPlan(t *testing.T) {
	one := []host{control()}
	three := []host{control(), node("k8s-wl-01", "192.168.1.128", "10.244.2.0/24"), node("k8s-wl-02", "192.168.1.129", "10.244.3.0/24")}
	uml := []host{withOwnKernel("k8s-uml-01", "192.168.1.191", "10.244.61.0/24"), withOwnKernel("k8s-uml-02", "192.168.1.192", "10.244.62.0/24")}
	for name, tc := range map[string]struct {
		has   string
		asked size
		want  []host
		err   string
	}{
		"unasked, a new lab is the tutorial's three": {want: three},
		"unasked, a lab keeps what it has":           {has: "1", want: one},
		"unasked, a lab keeps its own kernels too":   {has: "1 2", want: slices.Concat(one, uml)},
		"a lab grows":                   {has: "1", asked: size{nodes: 3}, want: three},
		"a lab that is as it should be": {has: "3", asked: size{nodes: 3}, want: three},
		"own kernels come on top":       {asked: size{ownKernels: 1}, want: slices.Concat(three, uml[:1])},
		"own kernels keep their addresses when other nodes are added": {has: "1 1", asked: size{nodes: 3},
			want: slices.Concat(three, uml[:1])},
		"a note that was cut off counts as no lab": {has: "x", asked: size{nodes: 1}, want: one},
		"a lab does not shrink": {has: "3", asked: size{nodes: 1},
			err: `--nodes is 1 and lab "test" has 3: a lab does not shrink; take it down first (lab down)`},
		"nor does it in own kernels": {has: "3 2", asked: size{ownKernels: 1},
			err: `--uml-nodes is 1 and lab "test" has 2: a lab does not shrink; take it down first (lab down)`},
		"a lab with IPv6 keeps it": {has: "1 dual-stack", want: one},
		"a lab does not get IPv6 later": {has: "1", asked: size{stack: dualStack},
			err: `--dual-stack is set and lab "test" has IPv4 only: a cluster's families stay; take it down first (lab down)`},
		"own kernels have no IPv6": {asked: size{ownKernels: 1, stack: dualStack},
			err: "--dual-stack and --uml-nodes: nodes with a kernel of their own have IPv4 only"},
		"less than nothing":                             {asked: size{nodes: -1}, err: "--nodes is -1: a lab has 1 to 60 nodes"},
		"node addresses stay below the tutorial's pool": {asked: size{nodes: 61}, err: "--nodes is 61: a lab has 1 to 60 nodes"},
		"too many own kernels": {asked: size{ownKernels: 4},
			err: "--uml-nodes is 4: a lab has at most 3 nodes with a kernel of their own"},
		"fewer own kernels than none": {asked: size{ownKernels: -1},
			err: "--uml-nodes is -1: a lab has at most 3 nodes with a kernel of their own"},
	} {
		t.Run(name, func(t *testing.T) {
			s, got, err := labWith(t, tc.has).plan(tc.asked)
			if diff := cmp.Diff(tc.want, got, compare); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			if message(err) != tc.err {
				t.Errorf("error is %q, want %q", message(err), tc.err)
			}
			if s.nodes+s.ownKernels != len(got) {
				t.Errorf("the size is %+v, for %d nodes", s, len(got))
			}
		})
	}
}

func TestSizeIsReadAsItWasWritten(t *testing.T) {
	for text, want := range map[string]size{
		"3":       {nodes: 3},
		"3 1":     {nodes: 3, ownKernels: 1},
		"":        {},
		"3 ":      {nodes: 3},
		"3 x":     {},
		"3 1 cut": {},

		"3 dual-stack":   {nodes: 3, stack: dualStack},
		"3 1 dual-stack": {nodes: 3, ownKernels: 1, stack: dualStack},
		"dual-stack":     {},
	} {
		t.Run(text, func(t *testing.T) {
			got := parseSize(text)
			if got != want {
				t.Errorf("%q was read as %+v, want %+v", text, got, want)
			}
			if again := parseSize(got.String()); again != got {
				t.Errorf("%+v was written as %q and read as %+v", got, got, again)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestHostsDoNotClash takes the largest lab: each name, address, pod range and cable is one host's alone, on its network and short enough.
func TestHostsDoNotClash(t *testing.T) {
	nodes, err := nodesOf(size{nodes: maxNodes, ownKernels: maxOwnKernels})
	if err != nil {
		t.Fatal(err)
	}
	pool := netip.MustParseAddr("192.168.1.200")
	taken := map[string]string{router.String(): "the router"}
	for _, h := range append([]host{workstationOps}, nodes...) {
		near, far := consoleLink(h)
		for _, own := range []string{h.name, h.addr.String(), cable(h), consoleCable(h), mac(h), h.pods.String(), near.String(), far.String()} {
			if other, known := taken[own]; known {
				t.Errorf("%s and %s both have %s", h.name, other, own)
			}
			taken[own] = h.name
		}
		if !lanPrefix.Contains(h.addr) || !h.addr.Less(pool) {
			t.Errorf("%s has %s, which is not on the LAN below the pool at %s", h.name, h.addr, pool)
		}
		if h.role != workstation && !podRange.Contains(h.pods.Addr()) {
			t.Errorf("%s has the pod range %s, outside of %s", h.name, h.pods, podRange)
		}
		for _, device := range []string{cable(h), consoleCable(h)} {
			if len(device) > 15 {
				t.Errorf("the kernel takes no interface name as long as %s", device)
			}
		}
		if !netip.PrefixFrom(near, consoleBits).Contains(far) {
			t.Errorf("%s: %s does not reach %s on a link of its own", h.name, near, far)
		}
	}
}

func TestRoutes(t *testing.T) {
	nodes, err := nodesOf(size{nodes: 3})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		of    host
		stack stack
		want  []string
	}{
		"a node reaches the other nodes' pods": {of: nodes[1], want: []string{
			"route replace default via 192.168.1.1",
			"route replace 10.244.1.0/24 via 192.168.1.125",
			"route replace 10.244.3.0/24 via 192.168.1.129",
		}},
		"and with IPv6 too": {of: nodes[1], stack: dualStack, want: []string{
			"route replace default via 192.168.1.1",
			"-6 route replace default via fd00:192:168:1::1",
			"route replace 10.244.1.0/24 via 192.168.1.125",
			"-6 route replace fd00:10:244:1::/64 via fd00:192:168:1::125",
			"route replace 10.244.3.0/24 via 192.168.1.129",
			"-6 route replace fd00:10:244:3::/64 via fd00:192:168:1::129",
		}},
		"the workstation knows the LAN only, as in the tutorial": {of: workstationOps, want: []string{"route replace default via 192.168.1.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, routes(tc.of, nodes, tc.stack)); diff != "" {
				t.Errorf("routes (-want +got):\n%s", diff)
			}
		})
	}
}
