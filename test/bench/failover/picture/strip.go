package picture

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Row is a line of the picture: a name, and the values of its runs in milliseconds.
type Row struct {
	Name   string
	Values []float64
	// Marked draws the row in the second colour.
	Marked bool
}

// The picture's measures, in pixels.
const (
	width     = 960
	labels    = 300 // left of the axis
	right     = 20
	top       = 40
	rowHeight = 26
	bottom    = 34
	radius    = 3
	// spread is how far dots are moved up and down, so that equal values do not hide each other.
	spread = 14
)

// The axis goes from 1 ms to 100 s, each power of ten as wide as the next: gaps of products and faults differ by that much.
const (
	lowest  = 0 // powers of ten of a millisecond
	highest = 5
)

// Strip draws one dot for each value, a line for each row's median, and the values on an axis of powers of ten.
func Strip(title string, rows []Row) string {
	height := top + rowHeight*len(rows) + bottom
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%d" y="20" font-size="14" font-weight="bold">%s</text>`+"\n", labels, html.EscapeString(title))
	axis(&b, height)
	for i, r := range rows {
		row(&b, r, top+rowHeight*i+rowHeight/2)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func axis(b *strings.Builder, height int) {
	names := [...]string{"1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s"}
	for power := lowest; power <= highest; power++ {
		x := position(math.Pow10(power))
		fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#ddd"/>`+"\n", x, top-6, x, height-bottom)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#555">%s</text>`+"\n", x, height-bottom+16, names[power-lowest])
	}
}

func row(b *strings.Builder, r Row, y int) {
	colour := "#1f6fb2"
	if r.Marked {
		colour = "#c8501e"
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", labels-12, y+4, html.EscapeString(r.Name))
	for i, v := range r.Values {
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="%d" fill="%s" fill-opacity="0.5"/>`+"\n", position(v), float64(y)+jitter(i), radius, colour)
	}
	if len(r.Values) > 0 {
		sorted := slices.Sorted(slices.Values(r.Values))
		x := position(sorted[(len(sorted)-1)/2])
		fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#000" stroke-width="2"/>`+"\n", x, y-9, x, y+9)
	}
}

// position is where a value lies on the axis. What lies beyond an end is drawn at it.
func position(ms float64) float64 {
	power := math.Log10(max(ms, math.Pow10(lowest)))
	return labels + (min(power, highest)-lowest)/(highest-lowest)*(width-labels-right)
}

// jitter moves the dots of a row apart, in the same way each time: by the golden ratio, so that neighbours are far from each other.
func jitter(i int) float64 {
	_, part := math.Modf(float64(i) * 0.618034)
	return (part - 0.5) * spread
}
