// Package dataplane renders the objects of the speakers from the Helm chart that it embeds.
package dataplane
