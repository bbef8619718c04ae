package keyring

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// all returns the reports of three nodes that have a keyring in force.
func all(k Keyring) map[string]string {
	digest := Digest(k.Keys())
	return map[string]string{"n1": digest, "n2": digest, "n3": digest}
}

// but returns reports with others in some places.
func but(reports map[string]string, others map[string]string) map[string]string {
	for node, digest := range others {
		reports[node] = digest
	}
	return reports
}

const (
	reading   = "the speakers begin to read the new key (step 1 of 3)"
	switching = "the speakers begin to encrypt with the new key, and still read the old one (step 2 of 3)"
	present   = "a new key waits until every speaker is known to have the present one"
	heardAll  = "; not yet heard of: n1, n2, n3. A node takes up to two minutes; if it lasts, see whether its speaker runs, and delete the Node of one that is gone for good"
	heardN2   = "; not yet heard of: n2. A node takes up to two minutes; if it lasts, see whether its speaker runs, and delete the Node of one that is gone for good"
)

func TestNext(t *testing.T) {
	one, comes, goes := Keyring{Key: a}, Keyring{Key: a, Next: b}, Keyring{Key: b, Previous: a}
	for name, tc := range map[string]struct {
		facts Facts
		want  Step
	}{
		"the first key is made, and is new enough for whoever asks already": {
			facts: Facts{Requested: "monday", Fresh: c},
			want:  Step{Entries: Keyring{Key: c}.Entries(), Served: "monday", Reason: Settled},
		},
		"nobody asks for another": {
			facts: Facts{Stored: one.Entries(), InForce: all(one), Fresh: c},
			want:  Step{Entries: one.Entries(), Reason: Settled},
		},
		"who does not keep up does not matter while nobody asks, as with speakers of before": {
			facts: Facts{Stored: one.Entries(), InForce: map[string]string{"n1": "", "n2": ""}, Fresh: c},
			want:  Step{Entries: one.Entries(), Reason: Settled},
		},
		"a request that is taken back is none": {
			facts: Facts{Stored: one.Entries(), Served: "monday", InForce: all(one), Fresh: c},
			want:  Step{Entries: one.Entries(), Served: "monday", Reason: Settled},
		},
		"a key that is asked for comes": {
			facts: Facts{Stored: one.Entries(), Requested: "tuesday", Served: "monday", InForce: all(one), Fresh: b},
			want:  Step{Entries: comes.Entries(), Served: "tuesday", Reason: Rotating, Message: reading + heardAll},
		},
		"a key that is asked for does not come before all have the present one": {
			facts: Facts{Stored: one.Entries(), Requested: "tuesday", InForce: but(all(one), map[string]string{"n2": ""}), Fresh: b},
			want:  Step{Entries: one.Entries(), Reason: Rotating, Message: present + heardN2},
		},
		"it does not encrypt while a speaker may not read it": {
			facts: Facts{Stored: comes.Entries(), InForce: but(all(comes), all(one)), Fresh: c},
			want:  Step{Entries: comes.Entries(), Reason: Rotating, Message: reading + heardAll},
		},
		"one speaker that has not said so is enough": {
			facts: Facts{Stored: comes.Entries(), InForce: but(all(comes), map[string]string{"n2": ""}), Fresh: c},
			want:  Step{Entries: comes.Entries(), Reason: Rotating, Message: reading + heardN2},
		},
		"it encrypts once all read it, and the old one is still read": {
			facts: Facts{Stored: comes.Entries(), InForce: all(comes), Fresh: c},
			want:  Step{Entries: goes.Entries(), Reason: Rotating, Message: switching + heardAll},
		},
		"the old one is read while a speaker may still encrypt with it": {
			facts: Facts{Stored: goes.Entries(), InForce: but(all(goes), map[string]string{"n2": Digest(comes.Keys())}), Fresh: c},
			want:  Step{Entries: goes.Entries(), Reason: Rotating, Message: switching + heardN2},
		},
		"the old one goes when nobody encrypts with it": {
			facts: Facts{Stored: goes.Entries(), Requested: "tuesday", Served: "tuesday", InForce: all(goes), Fresh: c},
			want:  Step{Entries: Keyring{Key: b}.Entries(), Served: "tuesday", Reason: Settled},
		},
		"who asks while a key gives way waits for its end": {
			facts: Facts{Stored: goes.Entries(), Requested: "wednesday", Served: "tuesday", InForce: all(goes), Fresh: c},
			want:  Step{Entries: Keyring{Key: b}.Entries(), Served: "tuesday", Reason: Rotating, Message: present + heardAll},
		},
		"of two changes at once the older one ends first": {
			facts: Facts{Stored: Keyring{Key: b, Next: c, Previous: a}.Entries(), InForce: all(Keyring{Key: b, Next: c, Previous: a})},
			want:  Step{Entries: Keyring{Key: b, Next: c}.Entries(), Reason: Rotating, Message: reading + heardAll},
		},
		"without any speaker there is nobody to wait for": {
			facts: Facts{Stored: comes.Entries()},
			want:  Step{Entries: goes.Entries(), Reason: Rotating, Message: switching},
		},
		"a Secret that was taken away comes back with the key in force, and another to come": {
			facts: Facts{Known: one, Served: "", Requested: "monday", InForce: all(one), Fresh: b},
			want:  Step{Entries: comes.Entries(), Served: "monday", Reason: Rotating, Message: reading + heardAll},
		},
		"a Secret that was taken away while a key goes comes back with that, too": {
			facts: Facts{Known: goes, InForce: all(goes), Fresh: c},
			want:  Step{Entries: Keyring{Key: b, Next: c, Previous: a}.Entries(), Reason: Rotating, Message: switching + heardAll},
		},
		"what cannot be read is left, and said": {
			facts: Facts{
				Stored: map[string][]byte{"key": a, "next": b[:9], "note": a}, Known: one, Requested: "monday", InForce: all(one), Fresh: c,
			},
			want: Step{
				Entries: map[string][]byte{"key": a, "next": b[:9]}, Reason: Invalid,
				Message: `entry "next" has 9 bytes, and a key has 32: write the base64 of 32 random bytes under data (head -c 32 /dev/urandom | base64)`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Next(tc.facts), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAMessageNamesAFewNodes(t *testing.T) {
	reports := map[string]string{}
	for _, node := range []string{"n5", "n4", "n3", "n2", "n1"} {
		reports[node] = ""
	}
	got := Next(Facts{Stored: Keyring{Key: a, Next: b}.Entries(), InForce: reports}).Message
	want := reading + "; not yet heard of: n1, n2, n3 and 2 more. A node takes up to two minutes; if it lasts, see whether its speaker runs, " +
		"and delete the Node of one that is gone for good"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}
