package project

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEventsAreMadeInOnePlace: there their notes are cut. One that is too long for the API server is lost, and nobody notices.
func TestEventsAreMadeInOnePlace(t *testing.T) {
	var makers []string
	for _, folder := range []string{"cmd/manager", "cmd/speaker", "controllers"} {
		files, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%d files in %s, error %v", len(files), folder, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "GetEventRecorder") {
				makers = append(makers, folder+"/"+filepath.Base(file))
			}
		}
	}
	if !slices.Equal(makers, []string{"controllers/events.go"}) {
		t.Errorf("Events are made in %v; controllers/events.go has a recorder for all", makers)
	}
}
