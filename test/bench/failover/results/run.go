package results

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Series is what runs that are summed up together have in common.
type Series struct {
	// Product announces the addresses.
	Product string `json:"product"`
	// Fault is what is done to the node that answers for the address.
	Fault string `json:"fault"`
	// Placement is where the backends are.
	Placement string `json:"placement"`
	// Nodes and VIPs are how many there are.
	Nodes int `json:"nodes"`
	VIPs  int `json:"vips"`
}

// Run is one fault and what the client saw of it. Times are in milliseconds.
type Run struct {
	Series
	Number  int       `json:"number"`
	At      time.Time `json:"at"`
	Version string    `json:"version,omitempty"`
	VIP     string    `json:"vip"`
	// Victim is the node that answered for the VIP, Owner the one that did in the end.
	Victim string `json:"victim"`
	Owner  string `json:"owner"`
	// Gap is the longest time without a good reply; Open means that it was not over when the watch ended.
	Gap  float64 `json:"gapMilliseconds"`
	Open bool    `json:"open,omitempty"`
	// NewOwner is from the last good reply to the first one through another node than the victim; 0 when there was none.
	NewOwner float64 `json:"newOwnerMilliseconds,omitempty"`
	// Claimed is from the last good reply to the first ARP packet in which another host claims the VIP, and AllClaimed until the last of the
	// victim's VIPs was claimed; 0 when none was.
	Claimed    float64 `json:"claimedMilliseconds,omitempty"`
	AllClaimed float64 `json:"allClaimedMilliseconds,omitempty"`
	// Moved is how many of the victim's VIPs, of which there were Held, were claimed by others.
	Moved int `json:"moved"`
	Held  int `json:"held"`
	// SampleGaps are the gaps of those of the victim's other VIPs that were probed too.
	SampleGaps []float64 `json:"sampleGapsMilliseconds,omitempty"`
	// Connect is the longest time in which every new TCP connection failed.
	Connect float64 `json:"connectMilliseconds"`
	// Probes were sent; LostDuring went without a reply in the gap, LostOtherwise before or after it.
	Probes        int `json:"probes"`
	LostDuring    int `json:"lostDuring"`
	LostOtherwise int `json:"lostOtherwise"`
	// Duplicate is the longest time in which two hosts claimed one VIP, until the VIP answered again, and DuplicateHealing from then until
	// one owner was left after the repair.
	Duplicate        float64 `json:"duplicateMilliseconds"`
	DuplicateHealing float64 `json:"duplicateHealingMilliseconds"`
	// Late is how late the client sent a probe at worst, and Dropped how many frames the captures missed: by these the measurement is wrong.
	Late    float64 `json:"lateMilliseconds"`
	Dropped int     `json:"dropped,omitempty"`
	// Load is the machine's, over the last minute.
	Load float64 `json:"load"`
}

// Milliseconds writes a duration as results have it, to the microsecond.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Line writes a run as a line of JSON.
func Line(r Run) ([]byte, error) {
	line, err := json.Marshal(r)
	return append(line, '\n'), err
}

// Parse reads lines of JSON. Empty lines are left out.
func Parse(lines []byte) ([]Run, error) {
	var runs []Run
	scanner := bufio.NewScanner(bytes.NewReader(lines))
	scanner.Buffer(nil, 1<<20) // a thousand gaps make a line of 10 kB
	for number := 1; scanner.Scan(); number++ {
		if len(bytes.TrimSpace(scanner.Bytes())) == 0 {
			continue
		}
		var r Run
		if err := json.Unmarshal(scanner.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		runs = append(runs, r)
	}
	return runs, scanner.Err()
}
