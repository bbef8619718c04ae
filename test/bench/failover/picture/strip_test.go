package picture

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPosition(t *testing.T) {
	for name, tc := range map[string]struct{ ms, want float64 }{
		"1 ms is at the left end":            {ms: 1, want: 300},
		"100 s is at the right end":          {ms: 100_000, want: 940},
		"a power of ten is a fifth":          {ms: 10, want: 428},
		"what is shorter is at the left end": {ms: 0, want: 300},
		"what is longer is at the right end": {ms: 1e9, want: 940},
	} {
		t.Run(name, func(t *testing.T) {
			if got := position(tc.ms); got != tc.want {
				t.Errorf("%v ms lie at %v, want %v", tc.ms, got, tc.want)
			}
		})
	}
}

func TestDotsStayInTheirRow(t *testing.T) {
	for i := range 1000 {
		if j := jitter(i); j < -spread/2 || j > spread/2 {
			t.Fatalf("dot %d is moved by %v pixels", i, j)
		}
	}
}

// TestStripHasADotForEachValue reads the picture as XML, so that it is one.
func TestStripHasADotForEachValue(t *testing.T) {
	svg := Strip("gaps <of> & co", []Row{{Name: "cut", Values: []float64{3, 1, 2}}, {Name: "<none>"}, {Name: "kill", Values: []float64{7}, Marked: true}})
	got := map[string]int{}
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if element, ok := token.(xml.StartElement); ok {
			got[element.Name.Local]++
		}
	}
	// Six lines of the axis with their names, two medians; a title and three names of rows.
	want := map[string]int{"svg": 1, "rect": 1, "circle": 4, "line": 8, "text": 10}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("elements (-want +got):\n%s", diff)
	}
}
