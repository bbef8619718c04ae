package speaker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/keyring"
)

// readKeysEvery is how often the mounted Secret is read. kubelet writes it anew a minute or so after it has changed; what matters is that all
// have it in the end, and to read a few bytes from memory costs nothing.
const readKeysEvery = 2 * time.Second

// swapAttempts is how often the Secret is read anew when kubelet changes it just then, which takes it longer than to read it.
const swapAttempts = 3

// ReadKeys reads the membership's keys from the folder in which the Secret is mounted.
func ReadKeys(folder string) (keyring.Keyring, error) {
	entries, err := readSecret(folder)
	if err != nil {
		return keyring.Keyring{}, fmt.Errorf("reading the membership's keys: %w", err)
	}
	keys, err := keyring.Parse(entries)
	if err != nil {
		return keyring.Keyring{}, fmt.Errorf("in Secret %s: %w", v1alpha1.MembershipSecret, err)
	}
	return keys, nil
}

// readSecret reads the entries together. Each file is a link by way of ..data, which kubelet points elsewhere when the Secret changes, and
// then removes what was there: entries of two versions, or one that is gone, would make a keyring that never was.
func readSecret(folder string) (map[string][]byte, error) {
	for range swapAttempts {
		version, err := versionOf(folder)
		if err != nil {
			return nil, err
		}
		entries, readErr := readEntries(version)
		again, err := versionOf(folder)
		if err != nil {
			return nil, err
		}
		if version == again {
			return entries, readErr
		}
	}
	return nil, errors.New("the Secret changes all the time; it is tried again")
}

// versionOf returns the folder that has the files now; a plain folder has them itself.
func versionOf(folder string) (string, error) {
	version, err := os.Readlink(filepath.Join(folder, "..data"))
	if errors.Is(err, fs.ErrNotExist) {
		return folder, nil
	}
	return filepath.Join(folder, version), err
}

// readEntries reads the entries that there are.
func readEntries(folder string) (map[string][]byte, error) {
	entries := map[string][]byte{}
	for name := range (keyring.Keyring{}).Entries() {
		value, err := os.ReadFile(filepath.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		entries[name] = value
	}
	return entries, nil
}

// keys takes the membership's keys over as the Secret changes.
type keys struct {
	read func() (keyring.Keyring, error)
	// inForce returns the keys that the group has, and rekey gives it others.
	inForce func() [][]byte
	rekey   func([][]byte) error
	tell    func(v1alpha1.NodeMembershipKeys)
	log     logr.Logger
	// told is what was told last.
	told v1alpha1.NodeMembershipKeys
}

// followKeys takes the keys over until the context ends.
func (s *Speaker) followKeys(ctx context.Context) error {
	if s.config.Keys == "" {
		return nil
	}
	k := &keys{
		read:    func() (keyring.Keyring, error) { return ReadKeys(s.config.Keys) },
		inForce: s.group.Keys, rekey: s.group.Rekey, log: s.log,
		tell: func(told v1alpha1.NodeMembershipKeys) {
			s.report.update(func(status *v1alpha1.NodeNetworkingStatus) { status.MembershipKeys = told })
		},
	}
	return k.run(ctx)
}

// run looks at the Secret until the context ends.
func (k *keys) run(ctx context.Context) error {
	tick := time.NewTicker(readKeysEvery)
	defer tick.Stop()
	for {
		k.follow()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// follow takes over what the Secret holds, and tells what is in force then. What cannot be read changes nothing.
func (k *keys) follow() {
	var now v1alpha1.NodeMembershipKeys
	wanted, err := k.read()
	if err == nil && keyring.Digest(wanted.Keys()) != keyring.Digest(k.inForce()) {
		err = k.rekey(wanted.Keys())
	}
	now.Digest = keyring.Digest(k.inForce())
	if err != nil {
		now.Message = err.Error() + "; the keys in force stay"
	}
	if now == k.told {
		return
	}
	if err != nil {
		k.log.Error(err, "the membership's keys cannot be taken over, those in force stay; it is tried again", "inForce", now.Digest)
	} else {
		k.log.Info("the membership's keys are in force", "digest", now.Digest, "keys", len(wanted.Keys()))
	}
	k.told = now
	k.tell(now)
}
