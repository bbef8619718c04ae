// Package testnet gives tests a network of their own, so that what they do to interfaces happens to nobody else's.
package testnet
