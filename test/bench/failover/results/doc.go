// Package results keeps what single runs of the failover benchmark have shown, and sums them up.
package results
