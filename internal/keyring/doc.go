// Package keyring says which keys the speakers' gossip is encrypted with, and how they give way to new ones. It is pure.
package keyring
