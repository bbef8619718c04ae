package kubeproxy

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Path is the place of a setting in a KubeProxyConfiguration, its keys joined by dots.
type Path string

// The settings that a spec can declare.
const (
	PathMode               Path = "mode"
	PathScheduler          Path = "ipvs.scheduler"
	PathStrictARP          Path = "ipvs.strictARP"
	PathExcludeCIDRs       Path = "ipvs.excludeCIDRs"
	PathTCPTimeout         Path = "ipvs.tcpTimeout"
	PathTCPFinTimeout      Path = "ipvs.tcpFinTimeout"
	PathUDPTimeout         Path = "ipvs.udpTimeout"
	PathNodePortAddresses  Path = "nodePortAddresses"
	PathTCPBeLiberal       Path = "conntrack.tcpBeLiberal"
	PathMetricsBindAddress Path = "metricsBindAddress"
	PathClusterCIDR        Path = "clusterCIDR"
)

// Paths are all of them, in the order in which they are written and told.
var Paths = []Path{
	PathMode, PathScheduler, PathStrictARP, PathExcludeCIDRs, PathTCPTimeout, PathTCPFinTimeout, PathUDPTimeout,
	PathNodePortAddresses, PathTCPBeLiberal, PathMetricsBindAddress, PathClusterCIDR,
}

// shape is what kind of value a setting has.
type shape int

const (
	aText   shape = iota
	aTime         // "15m" and "900s" are the same there
	aSwitch       // true or false
	aList         // of texts
)

func (p Path) shape() shape {
	switch p {
	case PathTCPTimeout, PathTCPFinTimeout, PathUDPTimeout:
		return aTime
	case PathStrictARP, PathTCPBeLiberal:
		return aSwitch
	case PathExcludeCIDRs, PathNodePortAddresses:
		return aList
	}
	return aText
}

func (p Path) keys() []string { return strings.Split(string(p), ".") }

// text writes a value so that equal settings have equal texts: kube-proxy reads "", null, false, 0s and [] as if they were not there.
func (p Path) text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case bool:
		if !v {
			return ""
		}
	case []any:
		parts := make([]string, 0, len(v))
		for _, part := range v {
			parts = append(parts, fmt.Sprint(part))
		}
		return strings.Join(parts, ",")
	case []string:
		return strings.Join(v, ",")
	}
	text := fmt.Sprint(value)
	if p.shape() != aTime {
		return text
	}
	if d, err := time.ParseDuration(text); err == nil && d == 0 {
		return ""
	} else if err == nil {
		return d.String()
	}
	return text
}

// Settings are the declared settings of a document or of a running process, as texts that can be compared. One that is not set is absent.
type Settings map[Path]string

// SettingsOf reads the settings of the answer of kube-proxy's /configz: what the process really runs with. Up to 1.35 it holds kube-proxy's
// own types, whose fields are spelt otherwise and lie elsewhere in part: what is not found there is not in complete.
func SettingsOf(configz []byte) (found Settings, complete bool, err error) {
	var answer map[string]map[string]any
	if err := json.Unmarshal(configz, &answer); err != nil {
		return nil, false, fmt.Errorf("reading /configz: %w", err)
	}
	values, ok := answer["kubeproxy.config.k8s.io"]
	if !ok {
		return nil, false, fmt.Errorf("reading /configz: it has no kubeproxy.config.k8s.io")
	}
	_, complete = values["metricsBindAddress"]
	return settingsIn(values), complete, nil
}

// Read returns the settings that a document has. The error says why it cannot be read, and what to do.
func Read(document string) (Settings, error) {
	_, values, err := parse(document)
	if err != nil {
		return nil, err
	}
	return settingsIn(values), nil
}

// settingsIn reads the settings of a decoded document.
func settingsIn(values map[string]any) Settings {
	s := Settings{}
	for _, p := range Paths {
		if text := p.text(lookup(values, p.keys())); text != "" {
			s[p] = text
		}
	}
	return s
}
