package keyring

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Reason says how the keys stand.
type Reason string

// The reasons.
const (
	// Settled: there is one key, and nobody asks for another.
	Settled Reason = "Settled"
	// Rotating: one key gives way to another.
	Rotating Reason = "Rotating"
	// Invalid: what the Secret holds cannot be read. It is left as it is, and the speakers keep what they have.
	Invalid Reason = "Invalid"
)

// Facts are what a step is decided from.
type Facts struct {
	// Stored are the entries of the Secret; nil when there is none.
	Stored map[string][]byte
	// Known is what the Secret held when it was last read or written; zero when that was never.
	Known Keyring
	// Requested is for what a new key is asked for, and Served for what one was made last.
	Requested, Served string
	// InForce are the digests of what the speakers say that they have in force, by node; empty where one has not said so. Every node is
	// there on which one may run, or be about to: who has been left out is not waited for. It has to be read after Stored.
	InForce map[string]string
	// Fresh is a new random key.
	Fresh []byte
}

// Step is what the Secret is to hold now.
type Step struct {
	Entries map[string][]byte
	// Served is for what a new key was made last, this step included.
	Served string
	Reason Reason
	// Message says what is wrong, or how far it is and what it waits for; empty when nothing is to be said.
	Message string
}

// Next decides the step. A speaker reads what another has written as long as their keyrings are at most one step apart, so that the next is
// only taken once every speaker has the last one in force:
//
//	key A ──▶ key A, next B ──▶ key B, previous A ──▶ key B
//
// A speaker that starts has at least what the Secret held when its pod was made, and keeps up from then on; Facts.InForce has its node by
// the time of the next step.
func Next(f Facts) Step {
	if f.Stored == nil {
		return f.create()
	}
	stored, err := Parse(f.Stored)
	if err != nil {
		kept := maps.Clone(f.Stored)
		maps.DeleteFunc(kept, func(name string, _ []byte) bool { _, ours := stored.Entries()[name]; return !ours })
		return Step{Entries: kept, Served: f.Served, Reason: Invalid, Message: err.Error()}
	}
	if len(f.lagging(stored)) > 0 {
		return f.step(stored, f.Served)
	}
	switch {
	case len(stored.Previous) > 0:
		return f.step(Keyring{Key: stored.Key, Next: stored.Next}, f.Served)
	case len(stored.Next) > 0:
		return f.step(Keyring{Key: stored.Next, Previous: stored.Key}, f.Served)
	case f.asked(f.Served):
		return f.step(Keyring{Key: stored.Key, Next: f.Fresh}, f.Requested)
	default:
		return f.step(stored, f.Served)
	}
}

// Rotates says whether one key gives way to another, or is asked to: only then does InForce matter.
func (f Facts) Rotates() bool {
	if f.Stored == nil {
		return len(f.Known.Key) > 0
	}
	stored, err := Parse(f.Stored)
	return err == nil && (len(stored.Keys()) > 1 || f.asked(f.Served))
}

// create makes the Secret. One that somebody took away comes back with the key that the speakers have, for those that start now would not
// hear the others otherwise; but whoever took it away did not want that key any longer.
func (f Facts) create() Step {
	if len(f.Known.Key) == 0 {
		return f.step(Keyring{Key: f.Fresh}, f.Requested)
	}
	return f.step(Keyring{Key: f.Known.Key, Next: f.Fresh, Previous: f.Known.Previous}, f.Requested)
}

// asked says whether somebody asks for a new key, when one was made last for what is served.
func (f Facts) asked(served string) bool { return f.Requested != "" && f.Requested != served }

// step is the step to a keyring.
func (f Facts) step(k Keyring, served string) Step {
	s := Step{Entries: k.Entries(), Served: served, Reason: Rotating}
	switch {
	case len(k.Previous) > 0:
		s.Message = "the speakers begin to encrypt with the new key, and still read the old one (step 2 of 3)"
	case len(k.Next) > 0:
		s.Message = "the speakers begin to read the new key (step 1 of 3)"
	case f.asked(served):
		s.Message = "a new key waits until every speaker is known to have the present one"
	default:
		s.Reason = Settled
		return s
	}
	if lagging := f.lagging(k); len(lagging) > 0 {
		s.Message += fmt.Sprintf(
			"; not yet heard of: %s. A node takes up to two minutes; if it lasts, see whether its speaker runs, and delete the Node of one that is gone for good",
			first(lagging))
	}
	return s
}

// lagging returns the nodes, in order, whose speakers do not say that they have a keyring in force.
func (f Facts) lagging(k Keyring) []string {
	digest := Digest(k.Keys())
	var nodes []string
	for node, inForce := range f.InForce {
		if inForce != digest {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// listed is how many nodes a message names.
const listed = 3

// first names the first few nodes and counts the rest.
func first(nodes []string) string {
	if len(nodes) <= listed {
		return strings.Join(nodes, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(nodes[:listed], ", "), len(nodes)-listed)
}
