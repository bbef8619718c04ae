// Package claims finds in the ARP packets of a LAN who had an address, and when two had it.
package claims
