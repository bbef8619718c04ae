// Package apply writes objects to the cluster by server-side apply, never over somebody else's, and removes those of ours that are no
// longer wanted.
package apply
