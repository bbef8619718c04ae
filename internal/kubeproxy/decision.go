package kubeproxy

import (
	"fmt"
	"strings"
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// Action is what to do next.
type Action int

// The actions.
const (
	// Rest: there is nothing to do until the facts change.
	Rest Action = iota
	// Record Decision.Ledger, before anything is done that it speaks of.
	Record
	// Write config.conf as Decision.Edited.
	Write
	// Restart the pod Decision.Restart.
	Restart
	// Wait for the probes or the nodes; look again after Decision.After at the latest.
	Wait
)

// Progress says how a change stands.
type Progress int

// The kinds of progress.
const (
	Done Progress = iota
	Underway
	Stuck
)

// Decision is the one next step, and how the change stands.
type Decision struct {
	Action  Action
	Ledger  *Ledger
	Edited  string
	Changes []Change
	Restart *Pod
	After   time.Duration
	// Probes are those that should exist; all others can go.
	Probes []Probe
	// Away are the nodes whose addresses other nodes should answer for, as their kube-proxy is or will be restarted.
	Away []string
	// Verified are the nodes that run as asked.
	Verified []string
	// Progress says whether the change is done, goes on by itself, or needs a person.
	Progress Progress
	Phase    v1alpha1.KubeProxyPhase
	// Reason is one of the API's reasons.
	Reason  string
	Message string
	// Failure is what ended the change, or what it waits for to be mended.
	Failure *Failure
	// Updated of Total nodes run kube-proxy as asked.
	Updated, Total int
}

// Diff is what will change in config.conf, a line for each field.
func (d Decision) Diff() string {
	var lines []string
	for _, c := range d.Changes {
		lines = append(lines, c.String())
	}
	return strings.Join(lines, "\n")
}

// record is the decision to write down what is about to be done.
func record(l Ledger, phase v1alpha1.KubeProxyPhase, message string) Decision {
	return Decision{Action: Record, Ledger: &l, Progress: Underway, Phase: phase, Reason: v1alpha1.ReasonRollingOut, Message: message}
}

// goesOn is the decision to look again in a while.
func goesOn(phase v1alpha1.KubeProxyPhase, message string) Decision {
	return Decision{Action: Wait, After: lookAgain, Progress: Underway, Phase: phase, Reason: v1alpha1.ReasonRollingOut, Message: message}
}

// stalled is the decision to leave it to a person, and to look again now and then.
func stalled(reason, message string) Decision {
	return Decision{Action: Wait, After: 10 * lookAgain, Progress: Stuck, Phase: v1alpha1.PhaseStalled, Reason: reason, Message: message}
}

func describe(changes []Change) string {
	var texts []string
	for _, c := range changes {
		texts = append(texts, c.String())
	}
	return strings.Join(texts, ", ")
}

// listed is how many names a message has before it counts the rest.
const listed = 3

func some(names []string) string {
	if len(names) <= listed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:listed], ", "), len(names)-listed)
}
