package kubeproxy

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The minor versions of kube-proxy, all of major version 1, with which a rule begins.
const (
	// newestKnown is the newest whose fields are known here; what later ones are to do comes from their enhancement proposals.
	newestKnown = 37
	// nftablesAlpha has mode nftables behind a feature gate, and conntrack.tcpBeLiberal; nftablesBeta has the gate open.
	nftablesAlpha, nftablesBeta = 29, 31
	// primaryKeyword has nodePortAddresses: [primary], mixedKeywords has three keywords among networks.
	primaryKeyword, mixedKeywords = 31, 37
	// ipvsDeprecated says so in an event, ipvsGated starts in mode ipvs behind a feature gate only, ipvsGone does not (KEP-5495).
	ipvsDeprecated, ipvsGated, ipvsGone = 35, 40, 43
	// nftablesDefault runs nftables where the mode is left open (KEP-5343).
	nftablesDefault = 40
)

// imageTag is a version as an image's tag, with whatever a distributor adds.
var imageTag = regexp.MustCompile(`^v?1\.([0-9]{1,3})([.+_-].*)?$`)

// Version returns the minor version of kube-proxy that an image's tag names ("registry.k8s.io/kube-proxy:v1.36.3" is 36). It is not ok
// when there is no tag, or one that is no version.
func Version(image string) (minor int, ok bool) {
	name, _, _ := strings.Cut(image, "@") // the digest
	name = name[strings.LastIndex(name, "/")+1:]
	_, version, _ := strings.Cut(name, ":")
	match := imageTag.FindStringSubmatch(version)
	if match == nil {
		return 0, false
	}
	minor, err := strconv.Atoi(match[1])
	return minor, err == nil
}

// DefaultMode is the mode that a kube-proxy of the minor version runs where its configuration leaves it open.
func DefaultMode(minor int) string {
	if minor >= nftablesDefault {
		return nftables
	}
	return iptables
}

// ruleset is the kube-proxy whose rules apply.
type ruleset struct {
	minor int
	// image is the one whose version is not known; empty when it is.
	image string
}

func rulesOf(image string) ruleset {
	if minor, ok := Version(image); ok {
		return ruleset{minor: minor}
	}
	return ruleset{minor: newestKnown, image: image}
}

func (v ruleset) String() string {
	if v.image != "" {
		return fmt.Sprintf("kube-proxy (taken for 1.%d, because its image %s does not tell its version)", v.minor, v.image)
	}
	return fmt.Sprintf("kube-proxy 1.%d", v.minor)
}
