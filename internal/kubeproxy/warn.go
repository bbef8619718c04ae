package kubeproxy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// CalicoDataplane is by what Calico's Felix programs a node, if there is a Calico.
type CalicoDataplane string

// The dataplanes.
const (
	NoCalico       CalicoDataplane = ""
	CalicoIPTables CalicoDataplane = "iptables"
	CalicoNFTables CalicoDataplane = "nftables"
	// CalicoAuto follows the mode of kube-proxy.
	CalicoAuto CalicoDataplane = "auto"
	// CalicoUnknown is a Calico whose dataplane could not be told.
	CalicoUnknown CalicoDataplane = "unknown"
)

// Outlook is what warnings are judged from.
type Outlook struct {
	// Declared are the settings that the spec declares, Document is config.conf, Image is the image of kube-proxy's DaemonSet.
	Declared Fields
	Document string
	Image    string
	// Mode is the mode that kube-proxy is to run, and Running are those that nodes run now.
	Mode    string
	Running []string
	// Announcing says whether an L2 advertisement exists.
	Announcing bool
	// Uses are what nodes use of mode iptables.
	Uses   []v1alpha1.KubeProxyUse
	Calico CalicoDataplane
}

// settings are those of the document with what is declared.
func (o Outlook) settings() Settings {
	settings, err := Read(o.Document)
	if err != nil {
		settings = Settings{} // a document that cannot be read has a condition of its own
	}
	for _, f := range o.Declared {
		settings[f.Path] = f.text()
	}
	return settings
}

// Warnings are what could go wrong with kube-proxy's mode, now or in the change that is ahead, and what to do: one sentence each, sorted. What
// an upgrade of the cluster ends is a Deprecation.
func Warnings(o Outlook) []string {
	settings := o.settings()
	rules := rulesOf(o.Image)
	var all []string
	for _, warning := range []string{
		o.versionUnknown(rules), o.modeLeftOpen(rules, settings), o.localhostNodePorts(rules, settings),
		o.invalidPackets(settings), o.connectionsBreak(settings), o.answersEverywhere(settings), o.calicoDiffers(), o.ipvsIdle(),
	} {
		if warning != "" {
			all = append(all, warning)
		}
	}
	slices.Sort(all)
	return all
}

// leaves says whether a node runs the mode and is to run another.
func (o Outlook) leaves(mode string) bool { return o.Mode != mode && slices.Contains(o.Running, mode) }

func (o Outlook) versionUnknown(rules ruleset) string {
	if rules.image == "" {
		return ""
	}
	return fmt.Sprintf("The image %s of DaemonSet %s/%s does not tell kube-proxy's version: the rules of 1.%d are applied, so give the image a "+
		"tag like v1.%d.0 if the cluster's is another", rules.image, Namespace, Name, newestKnown, newestKnown)
}

// modeLeftOpen is of clusters where an open mode means nftables already; where it will, that is a Deprecation.
func (o Outlook) modeLeftOpen(rules ruleset, settings Settings) string {
	if settings[PathMode] != "" || rules.minor < nftablesDefault {
		return ""
	}
	return fmt.Sprintf("config.conf leaves the mode open, and kube-proxy from 1.%d on takes nftables for it: set spec.kubeProxy.mode, "+
		"so that the mode changes only when you say so", nftablesDefault)
}

func (o Outlook) localhostNodePorts(rules ruleset, settings Settings) string {
	if !o.leaves(iptables) || !slices.Contains(o.Uses, v1alpha1.UseLocalhostNodePorts) {
		return ""
	}
	remedy := "point who uses them to the node's address first"
	if o.Mode == nftables && rules.minor >= mixedKeywords {
		remedy += ", or set nodePortAddresses to [primary, localhost] with the feature gate KubeProxyNFTablesLocalhostNodePorts, which serves TCP"
		if slices.Contains(strings.Split(settings[PathNodePortAddresses], ","), keywordLocalhost) {
			remedy = "see that featureGates in config.conf has KubeProxyNFTablesLocalhostNodePorts: true, which serves TCP, and point who uses UDP to " +
				"the node's address first"
		}
	}
	return fmt.Sprintf("NodePorts were reached at 127.0.0.1, which mode %s does not serve: %s", o.Mode, remedy)
}

func (o Outlook) invalidPackets(settings Settings) string {
	if !o.leaves(iptables) || !slices.Contains(o.Uses, v1alpha1.UseInvalidPacketsDropped) || settings[PathTCPBeLiberal] == "true" {
		return ""
	}
	return fmt.Sprintf("Mode iptables dropped packets that connection tracking calls invalid, and mode %s does not: their connections may be reset, "+
		"so set spec.kubeProxy.conntrack.tcpBeLiberal to true with the change", o.Mode)
}

func (o Outlook) connectionsBreak(settings Settings) string {
	switch {
	case o.leaves(ipvs):
		return fmt.Sprintf("Leaving mode ipvs ends the TCP connections to Services through each node when its kube-proxy restarts, the long ones "+
			"too: change to %s when a reconnect is cheap, and set spec.kubeProxy.rollout.state to Paused until then", o.Mode)
	case o.Mode == ipvs && settings[PathTCPTimeout] == "" && (slices.Contains(o.Running, iptables) || slices.Contains(o.Running, nftables)):
		return "Mode ipvs forgets idle TCP connections after 15 minutes, where connection tracking keeps them for 24 hours: set " +
			"spec.kubeProxy.ipvs.tcpTimeout to what pools of idle connections need"
	}
	return ""
}

func (o Outlook) answersEverywhere(settings Settings) string {
	if o.Mode != ipvs || !o.Announcing || settings[PathStrictARP] == "true" {
		return ""
	}
	return "ipvs.strictARP is off while addresses are announced: each node answers ARP for every one of them, so remove " +
		"spec.kubeProxy.ipvs.strictARP, and Lanyard turns it on"
}

func (o Outlook) calicoDiffers() string {
	const how = "with the operator set spec.calicoNetwork.linuxDataplane of Installation default, with manifests nftablesMode of FelixConfiguration " +
		"default"
	switch {
	case o.Mode == nftables && o.Calico == CalicoIPTables:
		return "Calico runs its iptables dataplane, and kube-proxy's mode is nftables: Felix may fail, so change Calico to nftables too, " + how
	case o.Mode == nftables && o.Calico == CalicoUnknown:
		return "Calico has to run its nftables dataplane with kube-proxy's mode nftables, and which one it runs could not be told: see that it does, " + how
	case o.Mode != nftables && o.Calico == CalicoNFTables:
		return fmt.Sprintf("Calico runs its nftables dataplane, and kube-proxy's mode is %s: change both to the same, %s", o.Mode, how)
	}
	return ""
}

// ipvsIdle finds settings of ipvs that are declared for another mode.
func (o Outlook) ipvsIdle() string {
	i := slices.IndexFunc(o.Declared, func(f Field) bool { return len(f.Path.keys()) == 2 && f.Path.keys()[0] == ipvs })
	if o.Mode == ipvs || i < 0 {
		return ""
	}
	return fmt.Sprintf("spec.kubeProxy.%s has no effect in mode %s: it is written, and read as soon as the mode is ipvs", o.Declared[i].Path, o.Mode)
}
