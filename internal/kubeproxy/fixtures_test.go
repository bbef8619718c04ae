package kubeproxy

import "time"

// at is a moment, in seconds after config.conf was written.
func at(second int) time.Time { return time.Unix(1_800_000_000+int64(second), 0) }

// config is a configuration with a mode.
func config(mode string) string { return head + "mode: " + mode + "\n" }

// node is a Ready node whose speaker reports a mode of a kube-proxy pod that was made then.
func node(name, mode string, created time.Time, but ...func(*Node)) Node {
	n := Node{Name: name, Ready: true, Witness: Reporting, Mode: mode, Dated: mode != "",
		Pod: &Pod{Name: "kube-proxy-" + name, UID: name, Created: created, Started: created, Ready: true}}
	for _, change := range but {
		change(&n)
	}
	return n
}

// What may be different about a node.
func notReady(n *Node)  { n.Ready = false }
func noPod(n *Node)     { n.Pod = nil }
func silent(n *Node)    { n.Witness, n.Mode, n.Dated = Silent, "", false }
func noSpeaker(n *Node) { n.Witness, n.Mode, n.Dated = NoSpeaker, "", false }
func undated(n *Node)   { n.Dated = false }
func refusing(n *Node) {
	n.Mode, n.Dated, n.Says = "", false, "kube-proxy does not answer: connection refused"
}
func since(second int) func(*Node) {
	return func(n *Node) { n.Since = at(second) }
}
func starting(n *Node) { n.Pod.Ready = false }
func crashing(n *Node) {
	n.Pod.Ready, n.Pod.Failure = false, "CrashLoopBackOff, exit code 1: can't use the nftables proxier: kernel 5.4 is too old"
}
