package membership

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/memberlist"
)

// Keys returns the keys in force: all of them decrypt, the first one encrypts.
func (g *Group) Keys() [][]byte { return slices.Clone(g.ring.GetKeys()) }

// Rekey puts other keys in force, the first to encrypt, and loses nobody who has at least one step of the same way: what is new is read
// before it is written, and what is old is read until it is written no longer. Keys that cannot be used leave those in force as they are.
func (g *Group) Rekey(keys [][]byte) error { return rekey(g.ring, keys) }

// newRing makes the keyring of a member that starts.
func newRing(keys [][]byte) (*memberlist.Keyring, error) {
	ring := &memberlist.Keyring{}
	return ring, rekey(ring, keys)
}

// rekey makes a keyring hold these keys in this order.
func rekey(ring *memberlist.Keyring, keys [][]byte) error {
	if err := usable(keys); err != nil {
		return err
	}
	var errs []error
	for _, key := range keys {
		errs = append(errs, ring.AddKey(key))
	}
	if !slices.EqualFunc(keys, ring.GetKeys()[:len(keys)], bytes.Equal) {
		// Each comes to the front, the one that encrypts last. Where one key gives way to the next, that is the only one that has to.
		for _, key := range slices.Backward(keys) {
			errs = append(errs, ring.UseKey(key))
		}
	}
	// Those that are left stand at the end. From there memberlist takes them without shifting any that a reader is just about to try.
	for _, key := range slices.Backward(ring.GetKeys()[len(keys):]) {
		errs = append(errs, ring.RemoveKey(key))
	}
	return errors.Join(errs...)
}

// usable says what is wrong with keys: memberlist would find out half-way.
func usable(keys [][]byte) error {
	if len(keys) == 0 {
		return errors.New("there is no key to encrypt the gossip with")
	}
	for i, key := range keys {
		if err := memberlist.ValidateKey(key); err != nil {
			return fmt.Errorf("key %d of %d cannot be used: %w", i+1, len(keys), err)
		}
		if slices.ContainsFunc(keys[:i], func(other []byte) bool { return bytes.Equal(other, key) }) {
			return fmt.Errorf("key %d of %d is there twice", i+1, len(keys))
		}
	}
	return nil
}
