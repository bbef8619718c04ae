// Package picture draws the gaps of the failover benchmark as an SVG.
package picture
