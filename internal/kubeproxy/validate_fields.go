package kubeproxy

import (
	"math"
	"time"
)

// kind is the type in which kube-proxy reads a field. It does not start when a value is of another.
type kind int

const (
	kindSection kind = iota
	kindText
	kindBoolean
	kindInteger    // of 32 bits
	kindUnsigned   // of 32 bits
	kindNumber     // a fraction may follow
	kindDuration   // as "1h30m"; null is none
	kindNoDuration // duration, or null
	kindList       // of texts
	kindGates      // booleans by name
	kindOther      // is not looked into
)

// knownFields are the fields of KubeProxyConfiguration v1alpha1 as of newestKnown.
var knownFields = map[string]kind{
	"apiVersion": kindText, "kind": kindText, "featureGates": kindGates,
	"clientConnection": kindSection, "clientConnection.kubeconfig": kindText, "clientConnection.acceptContentTypes": kindText,
	"clientConnection.contentType": kindText, "clientConnection.qps": kindNumber, "clientConnection.burst": kindInteger,
	"logging": kindSection, "logging.format": kindText, "logging.flushFrequency": kindOther, "logging.verbosity": kindUnsigned,
	"logging.vmodule": kindOther,
	"logging.options": kindSection, "logging.options.text": kindSection, "logging.options.text.splitStream": kindBoolean,
	"logging.options.text.infoBufferSize": kindOther, "logging.options.json": kindSection, "logging.options.json.splitStream": kindBoolean,
	"logging.options.json.infoBufferSize": kindOther,
	"hostnameOverride":                    kindText, "bindAddress": kindText, "healthzBindAddress": kindText, "metricsBindAddress": kindText,
	"bindAddressHardFail": kindBoolean, "enableProfiling": kindBoolean, "showHiddenMetricsForVersion": kindText,
	"mode": kindText, "iptables": kindSection, "iptables.masqueradeBit": kindInteger, "iptables.masqueradeAll": kindBoolean,
	"iptables.localhostNodePorts": kindBoolean, "iptables.syncPeriod": kindDuration, "iptables.minSyncPeriod": kindDuration,
	"ipvs": kindSection, "ipvs.syncPeriod": kindDuration, "ipvs.minSyncPeriod": kindDuration, "ipvs.scheduler": kindText, "ipvs.excludeCIDRs": kindList,
	"ipvs.strictARP": kindBoolean, "ipvs.tcpTimeout": kindDuration, "ipvs.tcpFinTimeout": kindDuration, "ipvs.udpTimeout": kindDuration,
	"nftables": kindSection, "nftables.masqueradeBit": kindInteger, "nftables.masqueradeAll": kindBoolean, "nftables.syncPeriod": kindDuration,
	"nftables.minSyncPeriod": kindDuration,
	"winkernel":              kindSection, "winkernel.networkName": kindText, "winkernel.sourceVip": kindText, "winkernel.enableDSR": kindBoolean,
	"winkernel.rootHnsEndpointName": kindText, "winkernel.forwardHealthCheckVip": kindBoolean,
	"detectLocalMode": kindText, "detectLocal": kindSection, "detectLocal.bridgeInterface": kindText, "detectLocal.interfaceNamePrefix": kindText,
	"clusterCIDR": kindText, "nodePortAddresses": kindList, "oomScoreAdj": kindInteger,
	"conntrack": kindSection, "conntrack.maxPerCore": kindInteger, "conntrack.min": kindInteger, "conntrack.tcpEstablishedTimeout": kindNoDuration,
	"conntrack.tcpCloseWaitTimeout": kindNoDuration, "conntrack.tcpBeLiberal": kindBoolean, "conntrack.udpTimeout": kindDuration,
	"conntrack.udpStreamTimeout": kindDuration,
	"configSyncPeriod":           kindDuration, "portRange": kindText, "windowsRunAsService": kindBoolean,
}

// fieldsSince are the fields that came with a minor version of late.
var fieldsSince = map[string]int{
	"nftables": nftablesAlpha, "conntrack.tcpBeLiberal": nftablesAlpha, "conntrack.udpTimeout": nftablesAlpha,
	"conntrack.udpStreamTimeout": nftablesAlpha, "windowsRunAsService": 31,
}

// mistyped says what a value should be; empty when it is.
func (k kind) mistyped(value any) string {
	if value == nil && k != kindDuration {
		return ""
	}
	switch k {
	case kindSection, kindGates:
		return unless(isMapping(value, k), map[kind]string{kindSection: "a section of fields", kindGates: "true or false by feature"}[k])
	case kindText:
		_, ok := value.(string)
		return unless(ok, "a text: put it in quotes")
	case kindBoolean:
		_, ok := value.(bool)
		return unless(ok, "true or false, without quotes")
	case kindInteger:
		return unless(isNumber(value, math.MinInt32, math.MaxInt32), "a whole number")
	case kindUnsigned:
		return unless(isNumber(value, 0, math.MaxUint32), "a whole number that is not negative")
	case kindNumber:
		_, ok := value.(float64)
		return unless(ok, "a number")
	case kindDuration, kindNoDuration:
		written, ok := value.(string)
		_, err := time.ParseDuration(written)
		return unless(ok && err == nil, "a time with its unit, like 30s or 15m")
	case kindList:
		return unless(isList(value), "a list of texts")
	}
	return ""
}

func unless(ok bool, should string) string {
	if ok {
		return ""
	}
	return should
}

func isMapping(value any, k kind) bool {
	mapping, ok := value.(map[string]any)
	for _, v := range mapping {
		if _, isBool := v.(bool); k == kindGates && !isBool && v != nil {
			return false
		}
	}
	return ok
}

func isNumber(value any, least, most float64) bool {
	n, ok := value.(float64)
	return ok && n == math.Trunc(n) && n >= least && n <= most
}

func isList(value any) bool {
	items, ok := value.([]any)
	for _, item := range items {
		if _, isText := item.(string); !isText && item != nil {
			return false
		}
	}
	return ok
}
