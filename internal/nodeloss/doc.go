// Package nodeloss decides from what the speakers report which nodes are lost.
package nodeloss
