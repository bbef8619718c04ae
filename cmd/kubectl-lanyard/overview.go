package main

import (
	"cmp"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// overview is what one screen shows of the network.
type overview struct {
	Ready     string                     `json:"ready"`
	Mode      string                     `json:"mode,omitempty"`
	Phase     v1alpha1.KubeProxyPhase    `json:"phase,omitempty"`
	Speakers  string                     `json:"speakers,omitempty"`
	Nodes     []nodeOverview             `json:"nodes,omitempty"`
	Pools     []v1alpha1.IPPoolStatus    `json:"ipPools,omitempty"`
	Addresses []v1alpha1.AllocatedIP     `json:"allocatedIPs,omitempty"`
	Omitted   int32                      `json:"allocatedIPsOmitted,omitempty"`
	Foreign   []v1alpha1.QuarantinedIP   `json:"quarantinedIPs,omitempty"`
	Wrong     []metav1.Condition         `json:"wrong,omitempty"`
	Problem   *v1alpha1.KubeProxyFailure `json:"lastFailure,omitempty"`
}

// nodeOverview is what is shown of a node.
type nodeOverview struct {
	Name string `json:"name"`
	// Mode is what kube-proxy there says, or why it says nothing.
	Mode      string `json:"mode"`
	Announces int32  `json:"announces"`
	Hears     int32  `json:"hears"`
}

// over returns the overview of an object and the speakers' reports.
func over(cnet v1alpha1.ClusterNetworking, reports []v1alpha1.NodeNetworking) overview {
	s := cnet.Status
	o := overview{Ready: "Unknown", Mode: s.KubeProxy.Mode, Phase: s.KubeProxy.Phase, Speakers: s.Speakers.Summary, Pools: s.IPPools, Addresses: s.AllocatedIPs,
		Omitted: s.AllocatedIPsOmitted, Foreign: s.QuarantinedIPs, Problem: s.KubeProxy.LastFailure}
	for _, c := range s.Conditions {
		good := metav1.ConditionTrue
		switch c.Type {
		case v1alpha1.ConditionReady:
			o.Ready = string(c.Status)
			continue // it sums up the others
		case v1alpha1.ConditionProgressing, v1alpha1.ConditionDegraded:
			good = metav1.ConditionFalse
		case v1alpha1.ConditionKubeProxyDeprecated: // it is there only while it applies
			good = ""
		}
		if c.Status != good {
			o.Wrong = append(o.Wrong, c)
		}
	}
	for _, r := range reports {
		o.Nodes = append(o.Nodes, nodeOverview{Name: r.Name, Mode: cmp.Or(r.Status.KubeProxy.Mode, r.Status.KubeProxy.Message, "unknown"),
			Announces: r.Status.AnnouncedCount, Hears: r.Status.PeersCount})
	}
	slices.SortFunc(o.Nodes, func(a, b nodeOverview) int { return strings.Compare(a.Name, b.Name) })
	return o
}

// barWidth is how many characters the bar of a pool has.
const barWidth = 20

// bar shows which part of the whole is used. Whatever is used shows, and whatever is free.
func bar(used, total string) string {
	u, okUsed := new(big.Int).SetString(used, 10)
	t, okTotal := new(big.Int).SetString(total, 10)
	if !okUsed || !okTotal || t.Sign() <= 0 {
		return strings.Repeat("-", barWidth)
	}
	filled := int(new(big.Int).Div(new(big.Int).Mul(u, big.NewInt(barWidth)), t).Int64())
	switch {
	case u.Sign() > 0 && filled == 0:
		filled = 1
	case u.Cmp(t) < 0 && filled >= barWidth:
		filled = barWidth - 1
	}
	filled = min(max(filled, 0), barWidth)
	return strings.Repeat("#", filled) + strings.Repeat("-", barWidth-filled)
}

// print writes the overview as a screen; wide has more columns.
func (o overview) print(to io.Writer, now time.Time, wide bool) error {
	tables := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	row := func(cells ...any) {
		texts := make([]string, 0, len(cells))
		for _, c := range cells {
			texts = append(texts, fmt.Sprint(c))
		}
		fmt.Fprintln(tables, strings.Join(texts, "\t"))
	}
	row("READY", "MODE", "PHASE", "SPEAKERS")
	row(o.Ready, cmp.Or(o.Mode, "unknown"), cmp.Or(o.Phase, "unknown"), cmp.Or(o.Speakers, "none"))
	fmt.Fprintln(tables)
	row("NODE", "KUBE-PROXY", "ANNOUNCES", "HEARS")
	for _, n := range o.Nodes {
		row(n.Name, n.Mode, n.Announces, n.Hears)
	}
	fmt.Fprintln(tables)
	row("POOL", "USED", "", "FREE", "QUARANTINED", "DRAINING")
	for _, p := range o.Pools {
		row(p.Name, "["+bar(p.Allocated, p.Total)+"]", p.Allocated+" of "+p.Total, p.Available, cmp.Or(p.Quarantined, "0"), cmp.Or(p.Draining, "0"))
	}
	fmt.Fprintln(tables)
	o.addresses(row, now, wide)
	if err := tables.Flush(); err != nil {
		return fmt.Errorf("printing the overview: %w", err)
	}
	return o.wrong(to)
}

// addresses are the rows of the addresses.
func (o overview) addresses(row func(...any), now time.Time, wide bool) {
	head := []any{"ADDRESS", "SERVICE", "POOL", "NODE", "SINCE"}
	if wide {
		head = append(head, "INTERFACE", "MAC", "LAST MOVE")
	}
	row(head...)
	for _, a := range o.Addresses {
		since := ""
		if a.Since != nil {
			since = duration.HumanDuration(now.Sub(a.Since.Time))
		}
		cells := []any{a.IP, strings.Join(a.Services, " "), a.IPPool, cmp.Or(a.Node, "nobody answers"), since}
		if wide {
			move := ""
			if a.LastMove != nil {
				move = strings.TrimSpace(string(a.LastMove.Reason) + " " + a.LastMove.From)
			}
			cells = append(cells, a.Interface, a.MAC, move)
		}
		row(cells...)
	}
	if o.Omitted > 0 {
		row(fmt.Sprintf("and %d more: kubectl get services --all-namespaces", o.Omitted))
	}
}

// wrong prints what a person should look at.
func (o overview) wrong(to io.Writer) error {
	var lines []string
	for _, c := range o.Wrong {
		lines = append(lines, fmt.Sprintf("%s is %s (%s): %s", c.Type, c.Status, c.Reason, c.Message))
	}
	for _, q := range o.Foreign {
		lines = append(lines, fmt.Sprintf("%s of pool %s is answered for by a foreign host, %s: take it from the host, or out of the pool", q.IP, q.IPPool, q.MAC))
	}
	if o.Problem != nil {
		lines = append(lines, "kube-proxy's last change failed: "+o.Problem.Message)
	}
	if len(lines) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(to, "\nLook at:\n- %s\n", strings.Join(lines, "\n- ")); err != nil {
		return fmt.Errorf("printing what is wrong: %w", err)
	}
	return nil
}
