package main

import (
	"strings"

	"github.com/go-logr/logr"
)

// debugWriter passes lines on to a logger, at the level for debugging.
type debugWriter struct{ log logr.Logger }

func (w debugWriter) Write(line []byte) (int, error) {
	w.log.V(1).Info(strings.TrimSpace(string(line)))
	return len(line), nil
}
