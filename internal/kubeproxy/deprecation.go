package kubeproxy

import (
	"fmt"
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// Deprecation is what a coming version of Kubernetes takes away from kube-proxy as it is to run, or changes in it: by when, and what to do.
// It is zero when there is nothing.
type Deprecation struct {
	// Reason is one of the API's reasons.
	Reason  string
	Message string
}

// DeprecationOf finds what an upgrade of the cluster will end. Whoever runs ipvs has declared it, or has it in config.conf, so that there is
// never more than one.
func DeprecationOf(o Outlook) Deprecation {
	rules := rulesOf(o.Image)
	switch {
	case o.Mode == ipvs:
		return Deprecation{v1alpha1.ReasonIPVSDeprecated, ipvsEnds(rules)}
	case o.settings()[PathMode] == "" && rules.minor < nftablesDefault:
		return Deprecation{v1alpha1.ReasonModeLeftOpen, fmt.Sprintf("config.conf leaves the mode open: kube-proxy takes iptables for it now and nftables "+
			"from Kubernetes %s on, on all nodes at that upgrade. Set spec.kubeProxy.mode to iptables to keep it, or to nftables to change it node by "+
			"node before", dated(nftablesDefault))}
	}
	return Deprecation{}
}

// ipvsEnds says when mode ipvs ends, seen from a version of kube-proxy.
func ipvsEnds(rules ruleset) string {
	since, last := "is deprecated since", ipvsGated
	if rules.minor < ipvsDeprecated {
		since = "will be deprecated from"
	}
	if rules.minor >= ipvsGated {
		last = ipvsGone
	}
	return fmt.Sprintf("Mode ipvs %s Kubernetes %s: kube-proxy of %s does not start in it without the feature gate KubeProxyIPVS, and that of %s does "+
		"not have it any more. Set spec.kubeProxy.mode to nftables before the upgrade to 1.%d", since, dated(ipvsDeprecated), dated(ipvsGated),
		dated(ipvsGone), last)
}

// dated is a minor version of Kubernetes, and the month in which it comes out: 1.35 came out in December 2025, and there are three a year.
func dated(minor int) string {
	month := time.Date(2025, time.December+time.Month(4*(minor-35)), 1, 0, 0, 0, 0, time.UTC).Format("January 2006")
	if minor > newestKnown {
		month = "expected in " + month
	}
	return fmt.Sprintf("1.%d (%s)", minor, month)
}
