package keyring

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// Size is the length of a key: AES-256.
const Size = 32

// digestSize is how many bytes of the hash a digest shows. Keys are random, so that it tells nothing of them, and no two keyrings share it.
const digestSize = 8

// remedy is how a key is written.
const remedy = "write the base64 of 32 random bytes under data (head -c 32 /dev/urandom | base64)"

// Keyring is the keys that a speaker reads gossip with. It writes with one of them.
type Keyring struct {
	// Key encrypts.
	Key []byte
	// Next is the key that is to encrypt once everybody reads it. Empty: there is none.
	Next []byte
	// Previous is the key that encrypted, as long as somebody may still write with it. Empty: there is none.
	Previous []byte
}

// Parse reads the entries of the Secret. An empty one is as good as none, and entries of other names are not looked at.
func Parse(entries map[string][]byte) (Keyring, error) {
	names := []string{v1alpha1.MembershipKey, v1alpha1.MembershipNextKey, v1alpha1.MembershipPreviousKey}
	for i, name := range names {
		if err := checkEntry(name, entries[name]); err != nil {
			return Keyring{}, err
		}
		for _, other := range names[:i] {
			if len(entries[name]) > 0 && bytes.Equal(entries[name], entries[other]) {
				return Keyring{}, fmt.Errorf("entry %q is the same key as entry %q: take it out, or %s", name, other, remedy)
			}
		}
	}
	return Keyring{Key: entries[names[0]], Next: entries[names[1]], Previous: entries[names[2]]}, nil
}

// checkEntry says what is wrong with one entry, and never what is in it.
func checkEntry(name string, value []byte) error {
	switch {
	case len(value) == Size, len(value) == 0 && name != v1alpha1.MembershipKey:
		return nil
	case len(value) == 0:
		return fmt.Errorf("entry %q, the key that encrypts, is missing: %s", name, remedy)
	case encoded(value):
		return fmt.Errorf("entry %q is the base64 of a key in base64 once more: write it under data, not under stringData", name)
	default:
		return fmt.Errorf("entry %q has %d bytes, and a key has %d: %s", name, len(value), Size, remedy)
	}
}

// encoded says whether a value is a key's base64.
func encoded(value []byte) bool {
	key, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(value)))
	return err == nil && len(key) == Size
}

// Keys returns the keys, the one that encrypts first.
func (k Keyring) Keys() [][]byte {
	var keys [][]byte
	for _, key := range [][]byte{k.Key, k.Next, k.Previous} {
		if len(key) > 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

// Entries returns what the Secret holds for Parse to read. Those that are not there are empty: whoever wrote one by hand would keep it
// otherwise, as server-side apply takes away only what nobody else has set.
func (k Keyring) Entries() map[string][]byte {
	return map[string][]byte{
		v1alpha1.MembershipKey:         k.Key,
		v1alpha1.MembershipNextKey:     k.Next,
		v1alpha1.MembershipPreviousKey: k.Previous,
	}
}

// Digest returns a short hash of keys in their order, by which two who have the same keys know it without showing them.
func Digest(keys [][]byte) string {
	hash := sha256.New()
	for _, key := range keys {
		hash.Write([]byte{byte(len(key))}) //nolint:gosec // keys are short
		hash.Write(key)
	}
	return hex.EncodeToString(hash.Sum(nil)[:digestSize])
}
