package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestKernelArgumentsGolden shows the command line of a node's own kernel, one argument a line.
func TestKernelArgumentsGolden(t *testing.T) {
	l := lab{name: "test", state: "/cache/lanyard/labs/test", cache: "/cache/lanyard"}
	got := strings.Join(l.kernelArguments(withOwnKernel("k8s-uml-01", "192.168.1.191", "10.244.61.0/24"), "2096.018"), "\n") + "\n"
	compareGolden(t, "kernel-arguments", got)
}

func TestClock(t *testing.T) {
	const machine = "processor\t: 0\nmodel name\t: AMD EPYC\ncpu MHz\t\t: 2096.018\n\nprocessor\t: 1\nmodel name\t: AMD EPYC\ncpu MHz\t\t: 1500.000\n"
	if got := clockOf(machine); got != "2096.018" {
		t.Errorf("the machine's clock is %q, want that of its first processor", got)
	}
	if got := clockOf("processor\t: 0\n"); got != "1000.000" {
		t.Errorf("the clock of a machine that hides it is %q", got)
	}
	const own = "processor\t: 0\nmodel name\t: UML\nmode\t\t: skas\n"
	want := "processor\t: 0\nmodel name\t: UML\ncpu MHz\t\t: 2096.018\nmode\t\t: skas\n\n"
	if diff := cmp.Diff(want, withClock(own, "2096.018")); diff != "" {
		t.Errorf("the node's cpuinfo (-want +got):\n%s", diff)
	}
}

func TestNth(t *testing.T) {
	var set unix.CPUSet
	for _, cpu := range []int{1, 4, 5} {
		set.Set(cpu)
	}
	if diff := cmp.Diff([]int{1, 4, 5}, []int{nth(set, 0), nth(set, 1), nth(set, 2)}); diff != "" {
		t.Errorf("processors (-want +got):\n%s", diff)
	}
}
