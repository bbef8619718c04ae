package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const statTail = " 1 42 42 0 -1 4194304 100 0 0 0 1 2 0 0 20 0 1 0 4711 8400896 1000 18446744073709551615"

func TestParseStat(t *testing.T) {
	dying := strings.Replace(statTail, "4194304", "4195340", 1) // as read of one that was killed before the last of its node
	for name, tc := range map[string]struct {
		stat string
		want uint64
		life life
		err  string
	}{
		"an ordinary process":                      {stat: "42 (containerd) S" + statTail, want: 4711, life: running},
		"a name with spaces and parentheses":       {stat: "42 (a) R 1) (b) S" + statTail, want: 4711, life: running},
		"one that waits for the last of its node":  {stat: "42 (lab) S" + dying, want: 4711, life: ending},
		"a process that waits to be reaped":        {stat: "42 (lab) Z" + dying, err: "the process has ended"},
		"a process that is being removed":          {stat: "42 (lab) X" + dying, err: "the process has ended"},
		"no name":                                  {stat: "42 lab S" + statTail, err: `"42 lab S` + statTail + `" is no stat line`},
		"too short":                                {stat: "42 (lab) S 1 42", err: `"42 (lab) S 1 42" is too short for a stat line`},
		"nothing, as of a process that just ended": {stat: "", err: `"" is no stat line`},
	} {
		t.Run(name, func(t *testing.T) {
			got, life, err := parseStat(tc.stat)
			if got != tc.want || life != tc.life || message(err) != tc.err {
				t.Errorf("start is %d, life %d, error %q; want %d, %d, %q", got, life, message(err), tc.want, tc.life, tc.err)
			}
		})
	}
}

func TestParseIdentity(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want identity
		err  string
	}{
		"as it was written":           {text: identity{pid: 42, start: 4711}.String(), want: identity{pid: 42, start: 4711}},
		"a file that was cut off":     {text: "42", err: `reading the process identity "42": EOF`},
		"a file that was just made":   {text: "", err: `reading the process identity "": EOF`},
		"something that is no number": {text: "lab 1", err: `reading the process identity "lab 1": expected integer`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseIdentity(tc.text)
			if diff := cmp.Diff(tc.want, got, compare); diff != "" || message(err) != tc.err {
				t.Errorf("error %q, want %q; identity (-want +got):\n%s", message(err), tc.err, diff)
			}
		})
	}
}

// FuzzParseStat holds that no process, however it names itself, looks like one that started at another time.
func FuzzParseStat(f *testing.F) {
	f.Add("lab", uint64(1))
	f.Add(") Z 1 (", uint64(1)<<63)
	f.Add("\x00\n((", uint64(0))
	f.Fuzz(func(t *testing.T, name string, start uint64) {
		want := identity{pid: 42, start: start}
		got, _, err := parseStat("42 (" + name + ") S 1 42 42 0 -1 4194304 100 0 0 0 1 2 0 0 20 0 1 0 " + want.String()[len("42 "):] + " 0 0")
		if err != nil || got != start {
			t.Errorf("%q: start is %d, error %v; want %d", name, got, err, start)
		}
		again, err := parseIdentity(want.String())
		if err != nil || again != want {
			t.Errorf("%s was read as %s, error %v", want, again, err)
		}
	})
}

func TestLife(t *testing.T) {
	self, _, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if self.life() != running {
		t.Errorf("this process, %s, does not count as alive", self)
	}
	earlier := identity{pid: self.pid, start: self.start - 1}
	if earlier.life() != ended {
		t.Errorf("a process that had our number before us, %s, counts as alive", earlier)
	}
}

// TestAChildThatNobodyWaitsForIsDead: the first process of a node is a child of `lab up`, which does not wait for it.
func TestAChildThatNobodyWaitsForIsDead(t *testing.T) {
	child := exec.Command("cat") // it ends with its input
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Wait() })
	id, _, err := identify(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the child to end", func() bool { return id.life() == ended })
	if _, _, err := identify(id.pid); !errors.Is(err, errEnded) {
		t.Errorf("error is %v, want %v", err, errEnded)
	}
}
