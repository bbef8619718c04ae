// Package responder answers for addresses on one interface, and tells the LAN when an address has moved there.
package responder
