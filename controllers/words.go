package controllers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/conditions"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// addressPicture is who has which address and who answers for it, and what is to be said about that.
type addressPicture struct {
	// all are in the order of addresses.
	all []v1alpha1.AllocatedIP
	// unannounced has those first for which a speaker says why.
	unannounced []conditions.Unannounced
	remarks     []string
	// split speaks of addresses that several nodes answer for.
	split []string
}

// allocatedIPs joins who has an address with who answers for it. The port is the one by which speakers hear each other.
func allocatedIPs(assignments []ipam.Assignment, w words, port int) addressPicture {
	var (
		a           addressPicture
		unexplained []conditions.Unannounced
	)
	for _, h := range holdingsOf(assignments) {
		ip := v1alpha1.AllocatedIP{IP: h.Addr.String(), IPPool: h.Pool, Services: []string{h.service}}
		by, announced := w.announced[ip.IP]
		if announced {
			ip.Node, ip.Interface, ip.MAC, ip.Since, ip.LastMove, ip.Message = by.node, by.Interface, by.MAC, &by.Since, by.LastMove, by.Message
		}
		why, explained := w.explained[ip.IP]
		switch rivals := w.rivals[ip.IP]; {
		case len(rivals) > 0:
			ip.Message = fmt.Sprintf("%s answer for it at once, for not all of them hear each other: open TCP and UDP port %d between these nodes",
				enumerate(rivals), port)
			a.split = append(a.split, ip.IP+": "+ip.Message)
		case announced && ip.Message != "":
			a.remarks = append(a.remarks, ip.IP+": "+ip.Message)
		case announced:
		case explained:
			ip.Message = why
			a.unannounced = append(a.unannounced, conditions.Unannounced{IP: ip.IP, Message: ip.Message, Explained: true})
		default:
			ip.Message = cmp.Or(w.doubted[ip.IP], "no speaker has reported that it announces it yet")
			unexplained = append(unexplained, conditions.Unannounced{IP: ip.IP, Message: ip.Message})
		}
		a.all = append(a.all, ip)
	}
	a.unannounced = append(a.unannounced, unexplained...)
	return a
}

// enumerate writes two or more names as a sentence does.
func enumerate(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// holding is an address and the Service that has it.
type holding struct {
	ipam.Holding
	service string
}

// holdingsOf returns what the Services have in the order of addresses.
func holdingsOf(assignments []ipam.Assignment) []holding {
	var all []holding
	for _, a := range assignments {
		for _, h := range a.Addresses {
			all = append(all, holding{h, a.Service})
		}
	}
	slices.SortFunc(all, func(a, b holding) int { return a.Addr.Compare(b.Addr) })
	return all
}

// announcement is a node's word that it answers for an address.
type announcement struct {
	v1alpha1.AnnouncedIP
	node string
}

// words are what the speakers say, by address.
type words struct {
	// announced says who answers: of several the one that began last.
	announced map[string]announcement
	// explained says why nobody answers.
	explained map[string]string
	// doubted says who claims to answer although most other speakers do not hear it: a node that died keeps saying so in the report that it
	// left.
	doubted map[string]string
	// rivals are the nodes that all answer, where at least two of them do not know of each other. In a handover, which may take a moment to be
	// reported, they do.
	rivals map[string][]string
}

// wordsOf sorts what the speakers say; alive are the nodes whose speakers are known to run, whoever hears them. The result does not depend
// on the order of nodes: a cache lists in any.
func wordsOf(nodes []v1alpha1.NodeNetworking, alive map[string]bool) words {
	w := words{announced: map[string]announcement{}, explained: map[string]string{}, doubted: map[string]string{}, rivals: map[string][]string{}}
	hears := hearingOf(nodes)
	heard := heardOf(hears)
	answering := map[string][]string{}
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b v1alpha1.NodeNetworking) int { return strings.Compare(a.Name, b.Name) })
	for _, n := range nodes {
		for _, a := range n.Status.Announced {
			if heard[n.Name] || alive[n.Name] {
				answering[a.IP] = append(answering[a.IP], n.Name)
			}
			other, known := w.announced[a.IP]
			switch {
			case !heard[n.Name]:
				w.doubted[a.IP] = fmt.Sprintf("%s said last that it announces it, but most other speakers do not hear %s", n.Name, n.Name)
			case !known || other.Since.Before(&a.Since):
				w.announced[a.IP] = announcement{AnnouncedIP: a, node: n.Name}
			}
		}
		for _, u := range n.Status.Unannounced {
			if heard[n.Name] {
				w.explained[u.IP] = u.Message
			}
		}
	}
	for ip, names := range answering {
		if strangers(names, hears) {
			w.rivals[ip] = names
		}
	}
	return w
}

// strangers says whether any two of the nodes do not hear each other.
func strangers(names []string, hears map[string]map[string]bool) bool {
	for i, a := range names {
		for _, b := range names[:i] {
			if !hears[a][b] && !hears[b][a] {
				return true
			}
		}
	}
	return false
}

// hearingOf returns whom each node's speaker hears.
func hearingOf(nodes []v1alpha1.NodeNetworking) map[string]map[string]bool {
	hears := make(map[string]map[string]bool, len(nodes))
	for _, n := range nodes {
		hears[n.Name] = map[string]bool{}
		for _, peer := range n.Status.Peers {
			hears[n.Name][peer] = true
		}
	}
	return hears
}

// heardOf returns the nodes whose speakers at least half of the others hear, where only those have a say who are heard themselves: the
// reports that dead nodes left know nothing of nodes that came later. When nobody hears anybody, everyone's word stands.
func heardOf(hears map[string]map[string]bool) map[string]bool {
	all := make(map[string]bool, len(hears))
	for node := range hears {
		all[node] = true
	}
	return heardBy(heardBy(all, hears), hears)
}

// heardBy returns the nodes that at least half of the listeners, themselves left out, hear.
func heardBy(listeners map[string]bool, hears map[string]map[string]bool) map[string]bool {
	heard := map[string]bool{}
	for node := range hears {
		others, deaf := 0, 0
		for listener := range listeners {
			if listener == node {
				continue
			}
			others++
			if !hears[listener][node] {
				deaf++
			}
		}
		if deaf*2 <= others {
			heard[node] = true
		}
	}
	return heard
}
