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
