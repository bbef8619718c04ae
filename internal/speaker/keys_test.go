package speaker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/keyring"
)

// The keys of these tests, and what is told of them.
var (
	keyA, keyB        = bytes.Repeat([]byte{'a'}, keyring.Size), bytes.Repeat([]byte{'b'}, keyring.Size)
	onlyA             = keyring.Keyring{Key: keyA}
	bComes            = keyring.Keyring{Key: keyA, Next: keyB}
	aGoes             = keyring.Keyring{Key: keyB, Previous: keyA}
	digestA, digestAB = keyring.Digest(onlyA.Keys()), keyring.Digest(bComes.Keys())
)

// mount is a Secret as kubelet mounts it: files that are links, by way of one that is swapped.
type mount struct {
	folder  string
	version int
}

// swap writes the next version as kubelet does: beside the one before, which goes once nobody is led there any more.
func (m *mount) swap(t *testing.T, entries map[string][]byte) {
	t.Helper()
	m.version++
	version, before := fmt.Sprintf("..%d", m.version), fmt.Sprintf("..%d", m.version-1)
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	must(os.Mkdir(filepath.Join(m.folder, version), 0o755))
	for name, value := range entries {
		must(os.WriteFile(filepath.Join(m.folder, version, name), value, 0o600))
	}
	must(os.Symlink(version, filepath.Join(m.folder, "..data_tmp")))
	must(os.Rename(filepath.Join(m.folder, "..data_tmp"), filepath.Join(m.folder, "..data")))
	must(os.RemoveAll(filepath.Join(m.folder, before)))
	for name := range entries {
		_ = os.Symlink(filepath.Join("..data", name), filepath.Join(m.folder, name)) // it is there from the second version on
	}
}

func TestReadKeys(t *testing.T) {
	for name, tc := range map[string]struct {
		mounted map[string][]byte
		plain   map[string][]byte
		want    keyring.Keyring
		err     string
	}{
		"one key, as mounted before there were more": {mounted: map[string][]byte{"key": keyA}, want: onlyA},
		"two keys":                    {mounted: bComes.Entries(), want: bComes},
		"a folder that nobody mounts": {plain: map[string][]byte{"key": keyA, "next": keyB}, want: bComes},
		"a key that is cut off": {
			mounted: map[string][]byte{"key": keyA[:4]},
			err: `in Secret lanyard-membership: entry "key" has 4 bytes, and a key has 32: write the base64 of 32 random bytes under data ` +
				`(head -c 32 /dev/urandom | base64)`,
		},
		"an empty folder": {
			err: `in Secret lanyard-membership: entry "key", the key that encrypts, is missing: write the base64 of 32 random bytes under data ` +
				`(head -c 32 /dev/urandom | base64)`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := mount{folder: t.TempDir()}
			if tc.mounted != nil {
				m.swap(t, tc.mounted)
			}
			for entry, value := range tc.plain {
				if err := os.WriteFile(filepath.Join(m.folder, entry), value, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := ReadKeys(m.folder)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
			if said := textOf(err); said != tc.err {
				t.Errorf("error is %q, want %q", said, tc.err)
			}
		})
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestEntriesAreReadTogether: while kubelet swaps them, they are of one version or the other.
func TestEntriesAreReadTogether(t *testing.T) {
	m := mount{folder: t.TempDir()}
	versions := []keyring.Keyring{onlyA, bComes, aGoes}
	m.swap(t, versions[0].Entries())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 300 {
			m.swap(t, versions[i%len(versions)].Entries())
		}
	}()
	known := map[string]bool{}
	for _, v := range versions {
		known[keyring.Digest(v.Keys())] = true
	}
	read := 0
	for swapping := true; swapping; {
		select {
		case <-done:
			swapping = false
		default:
		}
		keys, err := ReadKeys(m.folder)
		switch {
		case err != nil && err.Error() != "reading the membership's keys: the Secret changes all the time; it is tried again":
			t.Fatal(err)
		case err == nil && !known[keyring.Digest(keys.Keys())]:
			t.Fatalf("keys that never were: %q", keys.Keys())
		case err == nil:
			read++
		}
	}
	if read == 0 {
		t.Error("they could never be read")
	}
}

// TestKeysAreFollowed: what can be read is taken over and told, once; what cannot changes nothing.
func TestKeysAreFollowed(t *testing.T) {
	bad := errors.New("no keys")
	type look struct {
		read    keyring.Keyring
		err     error
		refused error
	}
	type told = v1alpha1.NodeMembershipKeys
	for name, tc := range map[string]struct {
		looks []look
		// want is what the group was given, and told what was said.
		want [][][]byte
		told []told
	}{
		"the keys with which it began": {
			looks: []look{{read: onlyA}, {read: onlyA}}, told: []told{{Digest: digestA}},
		},
		"a key that comes": {
			looks: []look{{read: onlyA}, {read: bComes}, {read: bComes}},
			want:  [][][]byte{bComes.Keys()}, told: []told{{Digest: digestA}, {Digest: digestAB}},
		},
		"what cannot be read, until it is mended": {
			looks: []look{{read: onlyA}, {err: bad}, {err: bad}, {read: bComes}},
			want:  [][][]byte{bComes.Keys()},
			told:  []told{{Digest: digestA}, {Digest: digestA, Message: "no keys; the keys in force stay"}, {Digest: digestAB}},
		},
		"what the group refuses": {
			looks: []look{{read: bComes, refused: bad}, {read: bComes}},
			want:  [][][]byte{bComes.Keys(), bComes.Keys()},
			told:  []told{{Digest: digestA, Message: "no keys; the keys in force stay"}, {Digest: digestAB}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var now look
			var given [][][]byte
			var said []told
			inForce := onlyA.Keys()
			k := &keys{
				read:    func() (keyring.Keyring, error) { return now.read, now.err },
				inForce: func() [][]byte { return inForce },
				rekey: func(keys [][]byte) error {
					given = append(given, keys)
					if now.refused == nil {
						inForce = keys
					}
					return now.refused
				},
				tell: func(t v1alpha1.NodeMembershipKeys) { said = append(said, t) },
				log:  testr.New(t),
			}
			for _, now = range tc.looks {
				k.follow()
			}
			if diff := cmp.Diff(tc.want, given); diff != "" {
				t.Errorf("given to the group (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.told, said); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKeysAreReadAgainAndAgain, until the context ends.
func TestKeysAreReadAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		reads := 0
		k := &keys{
			read:    func() (keyring.Keyring, error) { reads++; return onlyA, nil },
			inForce: onlyA.Keys, tell: func(v1alpha1.NodeMembershipKeys) {}, log: testr.New(t),
		}
		ended := make(chan error, 1)
		go func() { ended <- k.run(ctx) }()
		time.Sleep(3*readKeysEvery + time.Millisecond) // no time passes here but by this
		cancel()
		if err := <-ended; err != nil || reads != 4 {
			t.Errorf("it read %d times, and ended with %v", reads, err)
		}
	})
}
