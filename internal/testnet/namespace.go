package testnet

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Enter moves the test to a network namespace of its own, which goes when the test ends. Without root it skips the test. Sockets that the
// test opens belong to the namespace, whoever uses them; goroutines that it starts are outside.
func Enter(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread, and the namespace with it, ends with the goroutine
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("a network namespace of its own needs root: %v", err)
	}
}
