package namespace

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
)

// Do does something on a thread that is in a network namespace, by its name as `ip netns` lists it: sockets and processes that it makes are
// there too. The thread is not used again. The error is that of do, or says why the namespace could not be entered.
func Do(name string, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		done <- func() error {
			ns, err := netns.GetFromName(name)
			if err != nil {
				return fmt.Errorf("opening the network namespace %s: %w", name, err)
			}
			defer ns.Close() //nolint:errcheck // only a handle
			if err := netns.Set(ns); err != nil {
				return fmt.Errorf("entering the network namespace %s: %w", name, err)
			}
			return do()
		}()
	}()
	return <-done
}
