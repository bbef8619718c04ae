package kubeproxy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// Survey is what there is on a node of kube-proxy's rules, of whichever mode.
type Survey struct {
	// IPv4 and IPv6 are chains of iptables and ip6tables, sorted.
	IPv4, IPv6 []Chain
	// Tables are those of nftables, each with its family, as in "ip kube-proxy".
	Tables []string
	// Legacy are the programs that said that there are rules of legacy iptables too, which they do not show.
	Legacy []string
	// Cut are the programs whose lists were too long to be read to the end.
	Cut []string
}

// Chain is a chain of iptables.
type Chain struct {
	Table, Name string
}

// ReadSurvey reads what the containers of a survey wrote.
func ReadSurvey(logs map[string]string) Survey {
	var s Survey
	for _, program := range surveyPrograms {
		name := program.container
		log := logs[name]
		if len(log) >= LogLimit {
			s.Cut = append(s.Cut, name)
			log = log[:strings.LastIndexByte(log, '\n')+1] // half a name is another name
		}
		chains, legacy := parseChains(log)
		switch name {
		case listIPv4:
			s.IPv4 = chains
		case listIPv6:
			s.IPv6 = chains
		case listTables:
			s.Tables = parseTables(log)
		}
		if legacy {
			s.Legacy = append(s.Legacy, name)
		}
	}
	return s
}

// parseChains returns the chains of kube-proxy in what iptables-save writes, and whether it says that there are legacy tables too.
func parseChains(log string) (chains []Chain, legacy bool) {
	table := ""
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			table = line[1:]
		case strings.HasPrefix(line, ":"):
			name, _, _ := strings.Cut(line[1:], " ")
			if c := (Chain{Table: table, Name: name}); c.modes() != nil {
				chains = append(chains, c)
			}
		case strings.HasPrefix(line, "#"):
			legacy = legacy || strings.Contains(line, "tables-legacy tables present")
		}
	}
	slices.SortFunc(chains, compareChains)
	return slices.Compact(chains), legacy
}

func compareChains(a, b Chain) int {
	if order := strings.Compare(a.Table, b.Table); order != 0 {
		return order
	}
	return strings.Compare(a.Name, b.Name)
}

// parseTables returns the tables in what `nft list tables` writes, each with its family.
func parseTables(log string) []string {
	var tables []string
	for line := range strings.Lines(log) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "table" {
			tables = append(tables, fields[1]+" "+fields[2])
		}
	}
	slices.Sort(tables)
	return slices.Compact(tables)
}

// Both iptables and ipvs write iptables rules, in part into chains of the same names. What is in none of these lists is no sign of
// kube-proxy: chains of network policies, and kubelet's, of which those before 1.28 made nat/KUBE-MARK-MASQ and nat/KUBE-POSTROUTING too.
var (
	ofBoth = []Chain{{"nat", "KUBE-SERVICES"}, {"filter", "KUBE-FORWARD"}, {"filter", "KUBE-PROXY-FIREWALL"}}
	ofIPVS = []Chain{{"nat", "KUBE-NODE-PORT"}, {"filter", "KUBE-NODE-PORT"}, {"nat", "KUBE-LOAD-BALANCER"},
		{"filter", "KUBE-SOURCE-RANGES-FIREWALL"}, {"filter", "KUBE-IPVS-FILTER"}, {"filter", "KUBE-IPVS-OUT-FILTER"}}
	ofIPTables = []Chain{{"filter", "KUBE-SERVICES"}, {"filter", "KUBE-EXTERNAL-SERVICES"}, {"filter", "KUBE-NODEPORTS"}, {"nat", "KUBE-NODEPORTS"}}
	// ofServices begin the names of chains of one Service or endpoint, in mode iptables.
	ofServices = []string{"KUBE-SVC-", "KUBE-SVL-", "KUBE-XLB-", "KUBE-FW-", "KUBE-EXT-", "KUBE-SEP-"}
)

// modes says which modes of kube-proxy make the chain; none makes those of others.
func (c Chain) modes() []v1alpha1.ProxyMode {
	switch {
	case slices.Contains(ofBoth, c):
		return []v1alpha1.ProxyMode{v1alpha1.ProxyModeIPTables, v1alpha1.ProxyModeIPVS}
	case slices.Contains(ofIPVS, c):
		return []v1alpha1.ProxyMode{v1alpha1.ProxyModeIPVS}
	case slices.Contains(ofIPTables, c),
		c.Table == "nat" && slices.ContainsFunc(ofServices, func(p string) bool { return strings.HasPrefix(c.Name, p) }):
		return []v1alpha1.ProxyMode{v1alpha1.ProxyModeIPTables}
	}
	return nil
}

// Leftovers says what is there of other modes' rules while kube-proxy runs in mode: one sentence for each program that shows some. An
// unknown mode has none.
func Leftovers(s Survey, mode string) []string {
	running := v1alpha1.ProxyMode(mode)
	if !slices.Contains([]v1alpha1.ProxyMode{v1alpha1.ProxyModeIPTables, v1alpha1.ProxyModeIPVS, v1alpha1.ProxyModeNFTables}, running) {
		return nil
	}
	var found []string
	for _, list := range []struct {
		family string
		chains []Chain
	}{{"iptables", s.IPv4}, {"ip6tables", s.IPv6}} {
		var left []string
		for _, c := range list.chains {
			if !slices.Contains(c.modes(), running) {
				left = append(left, c.Table+"/"+c.Name)
			}
		}
		if len(left) > 0 {
			found = append(found, fmt.Sprintf("%s has %d chains of a mode that does not run (%s): nobody updates them, and they reject or misdirect "+
				"connections; %s", list.family, len(left), examples(left), cleanup(running)))
		}
	}
	tables := slices.DeleteFunc(slices.Clone(s.Tables), func(t string) bool { return t != "ip kube-proxy" && t != "ip6 kube-proxy" })
	if running != v1alpha1.ProxyModeNFTables && len(tables) > 0 {
		found = append(found, fmt.Sprintf("nftables has tables of a mode that does not run (%s): nobody updates them, and they reject or misdirect "+
			"connections; restart kube-proxy on the node, which removes them when it starts", strings.Join(tables, ", ")))
	}
	return found
}

// cleanup says how chains of iptables go away: kube-proxy removes them when it starts in mode nftables, and in no other.
func cleanup(running v1alpha1.ProxyMode) string {
	if running == v1alpha1.ProxyModeNFTables {
		return "restart kube-proxy on the node, which removes them when it starts"
	}
	return "restart the node"
}
