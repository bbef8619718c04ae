package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lanyard-dev/lanyard/test/bench/failover/picture"
	"github.com/lanyard-dev/lanyard/test/bench/failover/results"
)

// store is the folder with the results.
type store struct{ folder string }

func (s store) runs() string { return filepath.Join(s.folder, "runs.jsonl") }

// add appends a run: what was measured before an interruption is kept.
func (s store) add(r results.Run) error {
	if err := os.MkdirAll(s.folder, 0o755); err != nil {
		return fmt.Errorf("making the folder for results: %w", err)
	}
	line, err := results.Line(r)
	if err != nil {
		return fmt.Errorf("encoding a result: %w", err)
	}
	file, err := os.OpenFile(s.runs(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the results: %w", err)
	}
	_, err = file.Write(line)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing a result: %w", err)
	}
	return nil
}

// summarize writes the table and the picture of all runs in the folder.
func (s store) summarize() error {
	lines, err := os.ReadFile(s.runs())
	if errors.Is(err, os.ErrNotExist) {
		return nil // nothing has been measured
	}
	if err != nil {
		return fmt.Errorf("reading the results: %w", err)
	}
	runs, err := results.Parse(lines)
	if err != nil {
		return fmt.Errorf("reading the results: %w", err)
	}
	table := results.Table(runs)
	fmt.Print("\n" + table)
	svg := picture.Strip("Longest time without an answer: a dot for each fault, a line for the median", rows(runs))
	return errors.Join(os.WriteFile(filepath.Join(s.folder, "table.md"), []byte(table), 0o644),
		os.WriteFile(filepath.Join(s.folder, "gaps.svg"), []byte(svg), 0o644))
}

// rows are the picture's.
func rows(runs []results.Run) []picture.Row {
	var all []picture.Row
	for _, g := range results.Groups(runs) {
		row := picture.Row{Name: fmt.Sprintf("%s: %s, %s", g.Product, g.Fault, g.Placement), Marked: g.Product != everyProduct[0].name}
		if g.VIPs > 1 {
			row.Name += fmt.Sprintf(", %d VIPs", g.VIPs)
		}
		if g.Nodes != 3 {
			row.Name += fmt.Sprintf(", %d nodes", g.Nodes)
		}
		for _, r := range g.Runs {
			row.Values = append(row.Values, r.Gap)
		}
		all = append(all, row)
	}
	return all
}
