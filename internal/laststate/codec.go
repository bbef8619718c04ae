package laststate

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
)

// version is that of the file's layout. It changes whenever an older program would misread a newer file, or the other way round.
const version = 1

// header begins a file: what it is, its version, and the checksum of all that follows the line.
const header = "lanyard-speaker-state %d sha256:%x\n"

var (
	errNoState  = errors.New("it does not begin as a speaker's state does")
	errChecksum = errors.New("its checksum is not that of its content: it was cut off, or changed")
)

// Encode returns the state as Decode reads it: a line with version and checksum, and a JSON document.
func Encode(s State) ([]byte, error) {
	document, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding the state: %w", err)
	}
	return append(fmt.Appendf(nil, header, version, sha256.Sum256(document)), document...), nil
}

// Decode returns the state that Encode wrote, if not a byte has changed.
func Decode(text []byte) (State, error) {
	first, document, _ := bytes.Cut(text, []byte("\n"))
	var (
		wrote int
		sum   []byte
	)
	if n, err := fmt.Sscanf(string(first)+"\n", header, &wrote, &sum); err != nil && n == 0 {
		return State{}, errNoState
	}
	if wrote != version {
		return State{}, fmt.Errorf("it is of version %d, and this program reads version %d", wrote, version)
	}
	if want := sha256.Sum256(document); !bytes.Equal(sum, want[:]) {
		return State{}, errChecksum
	}
	var s State
	if err := json.Unmarshal(document, &s); err != nil {
		return State{}, fmt.Errorf("decoding the state: %w", err)
	}
	return s, nil
}
