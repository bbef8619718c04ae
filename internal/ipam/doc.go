// Package ipam decides, as a pure plan over address intervals, which Service gets which address: what is held stays held, and
// who waits gets the lowest free address.
package ipam
