// Package laststate keeps on a node's disk what its speaker decides from, so that a speaker that starts while the API server is away knows it.
//
//	informers' caches ──▶ State ──Encode──▶ File ──Decode──▶ State ──Check──▶ a speaker that starts without the API server
package laststate
