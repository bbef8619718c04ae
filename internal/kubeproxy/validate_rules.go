package kubeproxy

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// rule is what kube-proxy, or the kernel, demands of a field's value.
type rule struct {
	// reads says whether kube-proxy looks at the field; nil means always.
	reads func(draft) bool
	// own is of a rule that kube-proxy does not have: it holds what Lanyard writes.
	own bool
	// check says why kube-proxy does not start with the value, and what to do; empty when it does.
	check func(c draft, value any) (why, remedy string)
}

const noStart = "kube-proxy does not start with it"

// Keywords of nodePortAddresses.
const (
	keywordPrimary   = "primary"
	keywordLocalhost = "localhost"
	keywordAll       = "all"
)

var (
	inIPTables = runs(v1alpha1.ProxyModeIPTables)
	inIPVS     = runs(v1alpha1.ProxyModeIPVS)
	inNFTables = runs(v1alpha1.ProxyModeNFTables)
)

// rules are those of kube-proxy's own validation, by field. It checks a mode's section in that mode alone.
var rules = map[string][]rule{
	"mode":                            {{check: checkMode}},
	"ipvs.scheduler":                  {{own: true, check: checkScheduler}},
	"ipvs.excludeCIDRs":               {{reads: inIPVS, check: checkCIDRs}},
	"ipvs.tcpTimeout":                 {{reads: inIPVS, check: checkNotNegative}},
	"ipvs.tcpFinTimeout":              {{reads: inIPVS, check: checkNotNegative}},
	"ipvs.udpTimeout":                 {{reads: inIPVS, check: checkNotNegative}},
	"ipvs.syncPeriod":                 {{reads: inIPVS, check: checkNotNegative}},
	"ipvs.minSyncPeriod":              {{reads: inIPVS, check: checkNotNegative}},
	"iptables.syncPeriod":             {{reads: inIPTables, check: checkNotNegative}},
	"iptables.minSyncPeriod":          {{reads: inIPTables, check: checkNotNegative}},
	"iptables.masqueradeBit":          {{check: checkBetween(0, 31)}},
	"nftables.syncPeriod":             {{reads: inNFTables, check: checkNotNegative}},
	"nftables.minSyncPeriod":          {{reads: inNFTables, check: checkNotNegative}},
	"nftables.masqueradeBit":          {{reads: inNFTables, check: checkBetween(0, 31)}},
	"nodePortAddresses":               {{check: checkNodePortAddresses}},
	"metricsBindAddress":              {{check: checkHostPort}, {own: true, check: checkPortIsFree}},
	"healthzBindAddress":              {{check: checkHostPort}},
	"bindAddress":                     {{check: checkAddress}},
	"clusterCIDR":                     {{reads: detectsByCIDR, check: checkClusterCIDR}},
	"detectLocalMode":                 {{check: checkDetectLocalMode}},
	"oomScoreAdj":                     {{check: checkBetween(-1000, 1000)}},
	"clientConnection.burst":          {{check: checkBetween(0, 1<<31-1)}},
	"configSyncPeriod":                {{check: checkNotNegative}},
	"conntrack.maxPerCore":            {{check: checkBetween(0, 1<<31-1)}},
	"conntrack.min":                   {{check: checkBetween(0, 1<<31-1)}},
	"conntrack.tcpEstablishedTimeout": {{check: checkNotNegative}},
	"conntrack.tcpCloseWaitTimeout":   {{check: checkNotNegative}},
	"conntrack.udpTimeout":            {{check: checkNotNegative}},
	"conntrack.udpStreamTimeout":      {{check: checkNotNegative}},
	"conntrack.tcpBeLiberal":          {{own: true, check: checkKnownYet("conntrack.tcpBeLiberal")}},
}

// detectsByCIDR says whether kube-proxy tells the cluster's own packets by clusterCIDR.
func detectsByCIDR(c draft) bool {
	mode, _ := c.values["detectLocalMode"].(string)
	return mode == "" || mode == "ClusterCIDR"
}

func checkMode(c draft, value any) (why, remedy string) {
	switch mode := v1alpha1.ProxyMode(c.mode); {
	case value == nil || value == "" || mode == v1alpha1.ProxyModeIPTables:
		return "", ""
	case mode == v1alpha1.ProxyModeNFTables && c.version.minor < nftablesAlpha:
		return fmt.Sprintf("%v does not have it, 1.%d is the first that has", c.version, nftablesAlpha), "write iptables until the cluster is upgraded"
	case mode == v1alpha1.ProxyModeNFTables && c.version.minor < nftablesBeta && !c.gate("NFTablesProxyMode"):
		return fmt.Sprintf("%v does not start with it unless featureGates has NFTablesProxyMode: true", c.version),
			"set that in config.conf, or write iptables until the cluster is upgraded"
	case mode == v1alpha1.ProxyModeIPVS && c.version.minor >= ipvsGone:
		return fmt.Sprintf("%v does not have it any more", c.version), "write nftables"
	case mode == v1alpha1.ProxyModeIPVS && c.version.minor >= ipvsGated && !c.gate("KubeProxyIPVS"):
		return fmt.Sprintf("%v does not start with it unless featureGates has KubeProxyIPVS: true, which 1.%d ends", c.version, ipvsGone),
			"write nftables"
	case mode == v1alpha1.ProxyModeNFTables || mode == v1alpha1.ProxyModeIPVS:
		return "", ""
	}
	return noStart, "write iptables, ipvs or nftables"
}

// schedulers are the kernel's, by the names of their modules without ip_vs_.
var schedulers = []string{"rr", "wrr", "lc", "wlc", "fo", "ovf", "lblc", "lblcr", "sh", "dh", "mh", "sed", "nq", "twos"}

func checkScheduler(_ draft, value any) (why, remedy string) {
	if value == nil || value == "" || slices.Contains(schedulers, value.(string)) {
		return "", ""
	}
	return "Linux has no such scheduler, and kube-proxy does not start without its module", "write one of " + strings.Join(schedulers, ", ")
}

func checkCIDRs(_ draft, value any) (why, remedy string) {
	for _, item := range textsOf(value) {
		if !isCIDR(item) {
			return fmt.Sprintf("%s, for %q is no CIDR", noStart, item), "write networks like 10.9.0.0/16"
		}
	}
	return "", ""
}

func checkNodePortAddresses(c draft, value any) (why, remedy string) {
	items := textsOf(value)
	keywords := []string{keywordPrimary, keywordLocalhost, keywordAll}
	for _, item := range items {
		switch {
		case isCIDR(item), slices.Contains(keywords, item) && c.version.minor >= mixedKeywords:
		case item == keywordPrimary && c.version.minor >= primaryKeyword && len(items) == 1:
		case item == keywordPrimary && c.version.minor >= primaryKeyword:
			return fmt.Sprintf("before 1.%d, %q stands alone, and this is %v", mixedKeywords, keywordPrimary, c.version), "write [primary], or networks only"
		case slices.Contains(keywords, item):
			return fmt.Sprintf("%v does not know the keyword %q", c.version, item), "write networks like 192.168.1.0/24"
		default:
			return fmt.Sprintf("%s, for %q is neither a CIDR nor a keyword", noStart, item), "write networks like 192.168.1.0/24"
		}
	}
	return "", ""
}

func checkClusterCIDR(_ draft, value any) (why, remedy string) {
	const like = "write one network, or an IPv4 and an IPv6 one, like 10.244.0.0/16,fd00:10:244::/56"
	if value == nil || value == "" {
		return "", ""
	}
	cidrs := strings.Split(value.(string), ",")
	for _, item := range cidrs {
		if !isCIDR(item) {
			return fmt.Sprintf("%s, for %q is no CIDR", noStart, item), like
		}
	}
	if len(cidrs) > 2 || len(cidrs) == 2 && strings.Contains(cidrs[0], ":") == strings.Contains(cidrs[1], ":") {
		return noStart + ", for it takes one network of each family", like
	}
	return "", ""
}

func checkHostPort(_ draft, value any) (why, remedy string) {
	written, _ := value.(string)
	if written == "" || isAddress(strings.Trim(written, "[]")) { // kube-proxy adds its own port
		return "", ""
	}
	host, port, err := net.SplitHostPort(written)
	number, notNumber := strconv.ParseUint(port, 10, 16)
	if err != nil || !isAddress(host) || notNumber != nil || number == 0 {
		return noStart, "write an IP address and a port from 1 to 65535, like 127.0.0.1:10249"
	}
	return "", ""
}

// checkPortIsFree finds metrics on the port of the health check: kube-proxy would log that it cannot serve one of the two, and go on.
func checkPortIsFree(c draft, value any) (why, remedy string) {
	healthz, _ := c.values["healthzBindAddress"].(string)
	written, _ := value.(string)
	health, taken := "10256", written != ""
	if _, port, err := net.SplitHostPort(healthz); err == nil {
		health = port
	}
	if _, port, err := net.SplitHostPort(written); taken && err == nil && port == health {
		return "kube-proxy serves its health check at port " + health, "write another port, its own is 10249"
	}
	return "", ""
}

func checkAddress(_ draft, value any) (why, remedy string) {
	if written, _ := value.(string); written != "" && !isAddress(written) {
		return noStart, "write an IP address, or 0.0.0.0"
	}
	return "", ""
}

func checkDetectLocalMode(_ draft, value any) (why, remedy string) {
	modes := []string{"ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"}
	if written, _ := value.(string); written != "" && !slices.Contains(modes, written) {
		return noStart, "write one of " + strings.Join(modes, ", ")
	}
	return "", ""
}

func checkNotNegative(_ draft, value any) (why, remedy string) {
	written, _ := value.(string)
	if d, err := time.ParseDuration(written); err == nil && d < 0 {
		return noStart, "write a time that is not negative"
	}
	return "", ""
}

func checkBetween(least, most float64) func(draft, any) (why, remedy string) {
	return func(_ draft, value any) (why, remedy string) {
		if n, isNumber := value.(float64); isNumber && (n < least || n > most) {
			return noStart, fmt.Sprintf("write a number from %.0f to %.0f", least, most)
		}
		return "", ""
	}
}

// checkKnownYet finds a field that the cluster's kube-proxy is too old for.
func checkKnownYet(path string) func(draft, any) (why, remedy string) {
	return func(c draft, _ any) (why, remedy string) {
		if c.writes(path) && c.version.minor < fieldsSince[path] {
			return fmt.Sprintf("%v does not know the field, 1.%d is the first that does", c.version, fieldsSince[path]),
				"leave it out until the cluster is upgraded"
		}
		return "", ""
	}
}

func textsOf(value any) []string {
	items, _ := value.([]any)
	texts := make([]string, 0, len(items))
	for _, item := range items {
		text, _ := item.(string)
		texts = append(texts, text)
	}
	return texts
}

// leadingZeros are what kube-proxy reads over in IPv4 addresses.
var leadingZeros = regexp.MustCompile(`(^|\.)0+([0-9])`)

func sloppy(written string) string {
	if strings.Contains(written, ":") {
		return written
	}
	return leadingZeros.ReplaceAllString(written, "$1$2")
}

func isCIDR(written string) bool {
	_, _, err := net.ParseCIDR(sloppy(written))
	return err == nil
}

func isAddress(written string) bool {
	_, err := netip.ParseAddr(sloppy(written))
	return err == nil && !strings.Contains(written, "%")
}
