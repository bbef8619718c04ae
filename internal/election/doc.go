// Package election decides which node announces an address, so that every node that sees the same cluster comes to the same answer.
package election
