package laststate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// File is the path of a file that a state is kept in. Its folder has to be there.
type File string

// Read returns the state that is kept. The error is os.ErrNotExist when there is none.
func (f File) Read() (State, error) {
	text, err := os.ReadFile(string(f))
	if err != nil {
		return State{}, fmt.Errorf("reading the last state: %w", err)
	}
	s, err := Decode(text)
	if err != nil {
		return State{}, fmt.Errorf("reading the last state in %s: %w", f, err)
	}
	return s, nil
}

// Write keeps a state in place of the one before. Whenever the power fails, the file holds one of them.
func (f File) Write(s State) error {
	text, err := Encode(s)
	if err != nil {
		return err
	}
	if err := f.replace(text); err != nil {
		return fmt.Errorf("keeping the last state: %w", err)
	}
	return nil
}

// replace writes a file beside this one, and renames it once all of it is on the disk; then the folder has to be, too, or the name might
// lead to the old file after a power failure. The file beside has always the same name, so that one at most is left behind.
func (f File) replace(text []byte) error {
	beside := string(f) + ".new"
	file, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(beside, string(f)); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(string(f)))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
