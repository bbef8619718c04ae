// Package responder answers for addresses on one interface, by ARP and by NDP, tells the LAN when an address has moved there, and reports
// what others say about addresses.
package responder
