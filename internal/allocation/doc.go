// Package allocation reads and writes how an allocation stands on a Service: in its status, in who wrote that status, and in the
// annotation that remembers it.
package allocation
