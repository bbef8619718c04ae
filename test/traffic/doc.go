// Package traffic asks for a page over new connections at a steady rate, and counts those that fail.
package traffic
