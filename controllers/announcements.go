package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// announcers are the nodes that were known last to answer, by address; nil until they are known for the first time.
type announcers map[string]string

// news is an address that another node answers for than before.
type news struct {
	services []string
	reason   string
	message  string
}

// arrivals returns which addresses another node answers for than before, and who answers now. An address that nobody answers for at the
// moment belongs to the node before. What a manager finds when it starts is no news.
func arrivals(before announcers, all []v1alpha1.AllocatedIP) (fresh []news, now announcers) {
	now = make(announcers, len(all))
	for _, ip := range all {
		was := before[ip.IP]
		switch {
		case ip.Node == "":
			now[ip.IP] = was
			continue
		case before == nil || was == ip.Node:
		case was == "":
			fresh = append(fresh, news{ip.Services, v1alpha1.ReasonAddressAnnounced, fmt.Sprintf("%s is announced by %s on %s", ip.IP, ip.Node, ip.Interface)})
		default:
			fresh = append(fresh, news{ip.Services, v1alpha1.ReasonAddressMoved, fmt.Sprintf("%s moved from %s to %s, on %s%s", ip.IP, was, ip.Node,
				ip.Interface, because(ip.LastMove))})
		}
		now[ip.IP] = ip.Node
	}
	return fresh, now
}

// because completes a sentence about a move.
func because(m *v1alpha1.AddressMove) string {
	if m == nil || m.From == "" {
		return ""
	}
	why := ": " + strings.ReplaceAll(moveReasons[m.Reason], "NODE", m.From)
	if m.FailoverMilliseconds > 0 {
		why += fmt.Sprintf("; nobody answered for %d ms at most", m.FailoverMilliseconds)
	}
	return why
}

// moveReasons are the reasons of moves as a person would give them.
var moveReasons = map[v1alpha1.MoveReason]string{
	v1alpha1.MoveNodeSilent:         "the speaker of NODE is not heard any more",
	v1alpha1.MoveNoInterface:        "NODE has no interface with carrier in its subnet any more",
	v1alpha1.MoveNetworkUnavailable: "NODE has the condition NetworkUnavailable",
	v1alpha1.MoveNotSelected:        "no advertisement's nodeSelector selects NODE any more",
	v1alpha1.MoveNoEndpoint:         "NODE has no ready endpoint any more, which externalTrafficPolicy Local needs",
	v1alpha1.MoveUnlisted:           "NODE is no node of the cluster any more",
	v1alpha1.MoveExcluded:           "NODE carries the label " + v1alpha1.ExcludeLabel,
	v1alpha1.MoveKubeProxyRestart:   "kube-proxy of NODE is restarted",
	v1alpha1.MoveSpeakerStopped:     "the speaker of NODE was ended",
	v1alpha1.MoveGivenUp:            "NODE has let go",
}

// announce says in Events of the Services which node answers now. A Service that is gone needs none.
func (r *StatusReconciler) announce(ctx context.Context, all []v1alpha1.AllocatedIP) error {
	fresh, now := arrivals(r.announcers, all)
	var errs []error
	for _, n := range fresh {
		for _, name := range n.services {
			namespace, name, _ := strings.Cut(name, "/")
			svc, err := getOrNil(ctx, r.client, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Service{})
			if err != nil {
				errs = append(errs, err)
			} else if svc != nil {
				r.recorder.Eventf(svc, corev1.EventTypeNormal, n.reason, "Announce", "%s", n.message)
			}
		}
	}
	r.announcers = now
	return errors.Join(errs...)
}
