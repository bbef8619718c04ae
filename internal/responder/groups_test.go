package responder

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// fakeSocket is memberships in memory.
type fakeSocket struct {
	kernel *fakeKernel
	groups []string
}

// fakeKernel notes which socket is in which groups.
type fakeKernel struct {
	refuse  map[string]error
	sockets []*fakeSocket
	closed  int
}

func (k *fakeKernel) open() (memberships, error) {
	s := &fakeSocket{kernel: k}
	k.sockets = append(k.sockets, s)
	return s, nil
}

func (s *fakeSocket) join(group netip.Addr) error {
	if err := s.kernel.refuse[group.String()]; err != nil {
		return err
	}
	s.groups = append(s.groups, group.String())
	return nil
}

func (s *fakeSocket) leave(group netip.Addr) error {
	s.groups = slices.DeleteFunc(s.groups, func(g string) bool { return g == group.String() })
	return nil
}

func (s *fakeSocket) close() error {
	s.kernel.closed++
	return nil
}

// joined are all groups that the kernel is in, in order.
func (k *fakeKernel) joined() []string {
	all := []string{}
	for _, s := range k.sockets {
		all = append(all, s.groups...)
	}
	slices.Sort(all)
	return all
}

func parsed(addrs ...string) (all []netip.Addr) {
	for _, a := range addrs {
		all = append(all, netip.MustParseAddr(a))
	}
	return all
}

func TestGroups(t *testing.T) {
	for name, tc := range map[string]struct {
		series [][]string
		want   []string
	}{
		"no address":                        {want: []string{}},
		"one address":                       {[][]string{{"fd00::12:3456"}}, []string{"ff02::1:ff12:3456"}},
		"two addresses of one group":        {[][]string{{"fd00::12:3456", "fd01::12:3456"}}, []string{"ff02::1:ff12:3456"}},
		"one of two addresses of one group": {[][]string{{"fd00::12:3456", "fd01::12:3456"}, {"fd01::12:3456"}}, []string{"ff02::1:ff12:3456"}},
		"another address":                   {[][]string{{"fd00::1"}, {"fd00::2"}}, []string{"ff02::1:ff00:2"}},
		"the same again":                    {[][]string{{"fd00::1"}, {"fd00::1"}}, []string{"ff02::1:ff00:1"}},
		"none any more":                     {[][]string{{"fd00::1"}, {}}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			kernel := &fakeKernel{}
			g := newGroups(kernel.open)
			for _, addrs := range tc.series {
				if failed := g.join(parsed(addrs...)); failed != nil {
					t.Fatal(failed)
				}
				g.leaveAllBut(parsed(addrs...))
			}
			if diff := cmp.Diff(tc.want, kernel.joined()); diff != "" {
				t.Errorf("joined (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGroupsAreSpreadOverSockets(t *testing.T) {
	kernel := &fakeKernel{}
	g := newGroups(kernel.open)
	var addrs []netip.Addr
	for i := range 1000 {
		addrs = append(addrs, netip.MustParseAddr(fmt.Sprintf("fd00::%x", i+1)))
	}
	g.join(addrs)
	var sizes []int
	for _, s := range kernel.sockets {
		sizes = append(sizes, len(s.groups))
	}
	if diff := cmp.Diff([]int{256, 256, 256, 232}, sizes); diff != "" {
		t.Errorf("groups of each socket (-want +got):\n%s", diff)
	}
	g.close()
	g.join(addrs)
	if diff := cmp.Diff([]int{4, 4, 0}, []int{len(kernel.sockets), kernel.closed, len(kernel.joined())}); diff != "" {
		t.Errorf("sockets opened and closed, and groups joined, in the end (-want +got):\n%s", diff)
	}
}

func TestAGroupThatCannotBeJoinedIsTriedAgain(t *testing.T) {
	kernel := &fakeKernel{refuse: map[string]error{"ff02::1:ff00:1": unix.ENOMEM}}
	g := newGroups(kernel.open)
	if failed := g.join(parsed("fd00::1", "fd00::2")); len(failed) != 1 || !errors.Is(failed[0], unix.ENOMEM) {
		t.Errorf("failed with %v, want ENOMEM once", failed)
	}
	kernel.refuse = nil
	if failed := g.join(parsed("fd00::1", "fd00::2")); failed != nil {
		t.Errorf("failed with %v", failed)
	}
	if diff := cmp.Diff([]string{"ff02::1:ff00:1", "ff02::1:ff00:2"}, kernel.joined()); diff != "" {
		t.Errorf("joined (-want +got):\n%s", diff)
	}
}
