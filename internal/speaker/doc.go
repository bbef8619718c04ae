// Package speaker is the agent on each node: it decides from one snapshot of the cluster which addresses are this node's, makes its
// interfaces answer for them, and reports what it sees.
//
//	Services, endpoints, nodes, configuration ─┐
//	living speakers and their segments ────────┼─▶ snapshot ──▶ decide ──▶ responders ──▶ ARP
//	interfaces ────────────────────────────────┘                   └────▶ report ──▶ NodeNetworking
package speaker
