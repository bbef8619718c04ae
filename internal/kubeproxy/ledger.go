package kubeproxy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// Ledger is what has to outlive the manager: the configurations that worked, and the change under way. It lies in a ConfigMap of Lanyard's
// own, as kubeadm writes its ConfigMap and DaemonSet anew at each upgrade.
type Ledger struct {
	// Original is config.conf from before Lanyard's first change; nil while there was none.
	Original *Revision `json:"original,omitempty"`
	// OnDelete is what the spec said last about the end of it.
	OnDelete v1alpha1.OnDeletePolicy `json:"onDelete,omitempty"`
	// Good are the configurations that ran on every node, the latest first, three at most.
	Good []Revision `json:"good,omitempty"`
	// Touched are the settings that Lanyard has changed since Original.
	Touched []Path `json:"touched,omitempty"`
	// Wrote are, in short, the document that Lanyard wrote last and the one that it wrote it over; empty once somebody else has written
	// since Original.
	Wrote []string `json:"wrote,omitempty"`
	// Applied is the declaration that ran on every node last.
	Applied string `json:"applied,omitempty"`
	// Attempt is the change under way; nil while there is none.
	Attempt *Attempt `json:"attempt,omitempty"`
	// Refused is the declaration that was rolled back and is not tried again; nil when there is none.
	Refused *Refusal `json:"refused,omitempty"`
	// Corrections are the times at which something that others had changed was written back.
	Corrections []time.Time `json:"corrections,omitempty"`
}

// Revision is a config.conf, with those of its settings that can be declared.
type Revision struct {
	Document string   `json:"document"`
	Settings Settings `json:"settings,omitempty"`
}

// revision is the configuration as the ledger keeps it.
func (c Config) revision() *Revision { return &Revision{Document: c.Document, Settings: c.Settings} }

// Attempt is a change under way.
type Attempt struct {
	// Asked is the declaration that it is made for.
	Asked string `json:"asked"`
	// Next is the declaration of the step that is taken now, and Over what it is written over, in short; empty once it is
	// written.
	Next string `json:"next,omitempty"`
	Over string `json:"over,omitempty"`
	// Before is the configuration to go back to; nil when none is known to work.
	Before *Revision `json:"before,omitempty"`
	// Probed are the nodes that have shown to run it.
	Probed []string `json:"probed,omitempty"`
	// Detour means that it goes by way of nftables, and Crossed that every node has arrived there.
	Detour  bool `json:"detour,omitempty"`
	Crossed bool `json:"crossed,omitempty"`
	// Failed is why it is rolled back; nil while it is not.
	Failed *Failure `json:"failed,omitempty"`
}

// Failure is what went wrong on a node.
type Failure struct {
	Node    string                  `json:"node,omitempty"`
	Phase   v1alpha1.KubeProxyPhase `json:"phase,omitempty"`
	Message string                  `json:"message"`
}

// Refusal is a declaration that was rolled back.
type Refusal struct {
	Asked  string  `json:"asked"`
	Failed Failure `json:"failed"`
	// Back is what all went back to.
	Back Revision `json:"back"`
}

// keptRevisions is how many configurations that worked are kept.
const keptRevisions = 3

// fought and foughtWithin say when another writer counts as one that fights: as many corrections within that time.
const (
	fought       = 3
	foughtWithin = 30 * time.Minute
)

// Decode reads a ledger that Encode wrote. What cannot be read is as good as lost: the caller says so, and begins a new one.
func (l *Ledger) Decode(text string) error {
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), l); err != nil {
		return fmt.Errorf("decoding the ledger of kube-proxy's changes: %w", err)
	}
	return nil
}

// Encode writes the ledger.
func (l Ledger) Encode() (string, error) {
	text, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encoding the ledger of kube-proxy's changes: %w", err)
	}
	return string(text), nil
}

// clone returns a ledger that shares nothing with this one that changes.
func (l Ledger) clone() Ledger {
	l.Good = slices.Clone(l.Good)
	l.Corrections = slices.Clone(l.Corrections)
	l.Touched = slices.Clone(l.Touched)
	l.Wrote = slices.Clone(l.Wrote)
	if l.Attempt != nil {
		attempt := *l.Attempt
		attempt.Probed = slices.Clone(attempt.Probed)
		l.Attempt = &attempt
	}
	return l
}

// Restores says whether kube-proxy is to be given back as it was found, once it is not managed any more: what was changed still has to be
// changed back.
func (l Ledger) Restores() bool { return l.OnDelete == v1alpha1.OnDeleteRestore && l.Original != nil }

// latest is the configuration that worked last; nil when none is known.
func (l Ledger) latest() *Revision {
	if len(l.Good) == 0 {
		return nil
	}
	return &l.Good[0]
}

// remember puts a configuration that runs on every node in front of those that worked.
func (l *Ledger) remember(c Config) {
	l.Good = slices.DeleteFunc(l.Good, func(r Revision) bool { return r.Document == c.Document })
	l.Good = slices.Insert(l.Good, 0, *c.revision())
	l.Good = l.Good[:min(len(l.Good), keptRevisions)]
}

// corrections are those that were made within the time in which they count as a fight.
func (l Ledger) corrections(now time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(l.Corrections), func(t time.Time) bool { return now.Sub(t) >= foughtWithin })
}

// intact says whether nobody but Lanyard has written a document since Original.
func (l Ledger) intact(document string) bool {
	return l.Original != nil && (document == l.Original.Document || slices.Contains(l.Wrote, digits(document)))
}

// touch adds settings to those that Lanyard has changed.
func (l *Ledger) touch(changes []Change) {
	for _, p := range Paths {
		if !slices.Contains(l.Touched, p) && slices.ContainsFunc(changes, func(c Change) bool { return c.Field == string(p) }) {
			l.Touched = append(l.Touched, p)
		}
	}
}

// identity is a declaration in short: equal settings have equal ones.
func identity(want Fields) string {
	var lines []string
	settings := want.Settings()
	for _, p := range want.Paths() {
		lines = append(lines, string(p)+"="+settings[p])
	}
	return digits(strings.Join(lines, "\n"))
}
