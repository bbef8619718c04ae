package keyring

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// a, b and c are keys.
var a, b, c = key('a'), key('b'), key('c')

func key(letter byte) []byte { return bytes.Repeat([]byte{letter}, Size) }

func TestParse(t *testing.T) {
	twice := base64.StdEncoding.EncodeToString(a) + "\n"
	for name, tc := range map[string]struct {
		entries map[string][]byte
		want    Keyring
		err     string
	}{
		"a single key, as Secrets of before have it": {
			entries: map[string][]byte{"key": a}, want: Keyring{Key: a},
		},
		"entries that are empty are as good as none": {
			entries: map[string][]byte{"key": a, "next": {}, "previous": nil}, want: Keyring{Key: a},
		},
		"a key that comes": {
			entries: map[string][]byte{"key": a, "next": b}, want: Keyring{Key: a, Next: b},
		},
		"a key that goes": {
			entries: map[string][]byte{"key": b, "previous": a}, want: Keyring{Key: b, Previous: a},
		},
		"one that comes while another goes": {
			entries: map[string][]byte{"key": b, "next": c, "previous": a}, want: Keyring{Key: b, Next: c, Previous: a},
		},
		"an entry of another name is not looked at": {
			entries: map[string][]byte{"key": a, "note": []byte("made by hand")}, want: Keyring{Key: a},
		},
		"without the key that encrypts there is no keyring": {
			entries: map[string][]byte{"next": b},
			err:     `entry "key", the key that encrypts, is missing: write the base64 of 32 random bytes under data (head -c 32 /dev/urandom | base64)`,
		},
		"nothing at all": {
			err: `entry "key", the key that encrypts, is missing: write the base64 of 32 random bytes under data (head -c 32 /dev/urandom | base64)`,
		},
		"a key that is too short": {
			entries: map[string][]byte{"key": a[:16]},
			err:     `entry "key" has 16 bytes, and a key has 32: write the base64 of 32 random bytes under data (head -c 32 /dev/urandom | base64)`,
		},
		"a key with a line break after it": {
			entries: map[string][]byte{"key": a, "next": append(key('b'), '\n')},
			err:     `entry "next" has 33 bytes, and a key has 32: write the base64 of 32 random bytes under data (head -c 32 /dev/urandom | base64)`,
		},
		"a key that was encoded twice": {
			entries: map[string][]byte{"key": a, "previous": []byte(twice)},
			err:     `entry "previous" is the base64 of a key in base64 once more: write it under data, not under stringData`,
		},
		"one key twice": {
			entries: map[string][]byte{"key": a, "next": b, "previous": b},
			err: `entry "previous" is the same key as entry "next": take it out, or write the base64 of 32 random bytes under data ` +
				`(head -c 32 /dev/urandom | base64)`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(tc.entries)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("keyring (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.err, text(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestKeysBeginWithTheOneThatEncrypts(t *testing.T) {
	for name, tc := range map[string]struct {
		ring Keyring
		want [][]byte
	}{
		"one":            {ring: Keyring{Key: a}, want: [][]byte{a}},
		"one that comes": {ring: Keyring{Key: a, Next: b}, want: [][]byte{a, b}},
		"one that goes":  {ring: Keyring{Key: b, Previous: a}, want: [][]byte{b, a}},
		"both":           {ring: Keyring{Key: b, Next: c, Previous: a}, want: [][]byte{b, c, a}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.ring.Keys()); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
			again, err := Parse(tc.ring.Entries())
			if diff := cmp.Diff(tc.ring, again, cmpopts.EquateEmpty()); diff != "" || err != nil {
				t.Errorf("read again: %v (-first +second):\n%s", err, diff)
			}
		})
	}
}

// TestADigestTellsKeyringsApart, those of the same keys in another order too.
func TestADigestTellsKeyringsApart(t *testing.T) {
	seen := map[string][][]byte{}
	for _, keys := range [][][]byte{nil, {a}, {b}, {a, b}, {b, a}, {a, b, c}} {
		digest := Digest(keys)
		if other, known := seen[digest]; known || len(digest) != 2*digestSize {
			t.Errorf("the digest of %q is %s, as that of %q", keys, digest, other)
		}
		seen[digest] = keys
	}
	if digest := Digest([][]byte{a}); digest != "d809d4c49ee70d1c" {
		t.Errorf("the digest of a key is %s now: speakers and managers of two versions would not understand each other", digest)
	}
}

// FuzzParse: a keyring has good keys, none twice, and reads the same again; an error names an entry, and shows nothing of it.
func FuzzParse(f *testing.F) {
	f.Add(a, []byte(nil), []byte(nil))
	f.Add(a, b, c)
	f.Add(a, a, []byte("short"))
	f.Add([]byte(base64.StdEncoding.EncodeToString(a)), b, b)
	f.Fuzz(func(t *testing.T, encrypts, comes, goes []byte) {
		k, err := Parse(map[string][]byte{"key": encrypts, "next": comes, "previous": goes})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "entry ") || len(encrypts) > 8 && strings.Contains(err.Error(), string(encrypts)) {
				t.Errorf("error is %v", err)
			}
			return
		}
		for i, one := range k.Keys() {
			if len(one) != Size || i > 0 && bytes.Equal(one, k.Key) {
				t.Errorf("key %d of %q", i, k.Keys())
			}
		}
		again, err := Parse(k.Entries())
		if diff := cmp.Diff(k, again, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("read again: %v (-first +second):\n%s", err, diff)
		}
	})
}
