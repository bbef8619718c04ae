// Package gap finds in a client's answers how long it went without.
package gap
