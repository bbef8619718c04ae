package conditions

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

func is(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: 3}
}

// healthy are the facts of a cluster in which all is well.
func healthy() Facts {
	return Facts{
		Generation: 3,
		State:      v1alpha1.Managed,
		InForce:    3,
		KubeProxy:  Verdict{Settled, v1alpha1.ReasonReady, "kube-proxy runs in mode nftables on 3 of 3 nodes"},
		Pools:      1,
		Speakers:   Speakers{Desired: 3, Ready: 3},
	}
}

func TestFor(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	kubeProxyReady := is("KubeProxyReady", yes, "Ready", "kube-proxy runs in mode nftables on 3 of 3 nodes")
	poolsReady := is("IPPoolsReady", yes, "Ready", "every Service that asks for an address has one")
	speakersReady := is("SpeakersReady", yes, "Ready", "3 of 3 speakers are ready")
	noChange := is("Progressing", no, "Complete", "no change is under way")
	fine := is("Degraded", no, "AsExpected", "nothing needs a person")
	refused := func(why string) []metav1.Condition {
		message := "0 of 3 speakers are ready" + why
		return []metav1.Condition{is("Ready", no, "SpeakersNotReady", "SpeakersReady: "+message), kubeProxyReady, poolsReady,
			is("SpeakersReady", no, "SpeakersNotReady", message), noChange, is("Degraded", yes, "SpeakersNotReady", message)}
	}

	for name, tc := range map[string]struct {
		facts func(*Facts)
		want  []metav1.Condition
	}{
		"all is well": {
			facts: func(*Facts) {},
			want: []metav1.Condition{is("Ready", yes, "Ready", "all is as the spec asks"),
				kubeProxyReady, poolsReady, speakersReady, noChange, fine},
		},
		"paused and well stays ready, and says that it is paused": {
			facts: func(f *Facts) { f.State = v1alpha1.Paused },
			want: []metav1.Condition{is("Ready", yes, "Paused", pausedMessage),
				kubeProxyReady, poolsReady, speakersReady, is("Progressing", no, "Paused", pausedMessage), fine},
		},
		"what an upgrade will end has a condition of its own, and all is well until then": {
			facts: func(f *Facts) {
				f.Deprecation = Deprecation{"IPVSDeprecated", "Mode ipvs is deprecated"}
			},
			want: []metav1.Condition{is("Ready", yes, "Ready", "all is as the spec asks"),
				kubeProxyReady, poolsReady, speakersReady, noChange, fine, is("KubeProxyDeprecated", yes, "IPVSDeprecated", "Mode ipvs is deprecated")},
		},
		"a reversed range names the field, and what stays in force": {
			facts: func(f *Facts) {
				f.InForce = 2
				f.Problems = []Problem{{Field: "spec.ipPools[0].addresses[0]", Message: `"10.0.0.9-10.0.0.1" ends before it begins: write 10.0.0.1-10.0.0.9`}}
			},
			want: []metav1.Condition{
				is("Ready", no, "InvalidConfiguration", `IPPoolsReady: spec.ipPools[0].addresses[0]: "10.0.0.9-10.0.0.1" ends before it begins: `+
					`write 10.0.0.1-10.0.0.9; the last good configuration (generation 2) stays in force`),
				kubeProxyReady,
				is("IPPoolsReady", no, "InvalidConfiguration", `spec.ipPools[0].addresses[0]: "10.0.0.9-10.0.0.1" ends before it begins: `+
					`write 10.0.0.1-10.0.0.9; the last good configuration (generation 2) stays in force`),
				speakersReady, noChange,
				is("Degraded", yes, "InvalidConfiguration", `spec.ipPools[0].addresses[0]: "10.0.0.9-10.0.0.1" ends before it begins: `+
					`write 10.0.0.1-10.0.0.9; the last good configuration (generation 2) stays in force`),
			},
		},
		"pending Services are named up to three, the others counted": {
			facts: func(f *Facts) {
				for _, s := range []string{"a/1", "a/2", "a/3", "a/4", "a/5"} {
					f.Refusals = append(f.Refusals, Refusal{Service: s, Reason: "PoolExhausted", Message: "full"})
				}
			},
			want: []metav1.Condition{
				is("Ready", no, "ServicesPending", "IPPoolsReady: a/1 (PoolExhausted): full; a/2 (PoolExhausted): full; a/3 (PoolExhausted): full; and 2 more of this kind (Service)"),
				kubeProxyReady,
				is("IPPoolsReady", no, "ServicesPending", "a/1 (PoolExhausted): full; a/2 (PoolExhausted): full; a/3 (PoolExhausted): full; and 2 more of this kind (Service)"),
				speakersReady, noChange,
				is("Degraded", yes, "ServicesPending", "a/1 (PoolExhausted): full; a/2 (PoolExhausted): full; a/3 (PoolExhausted): full; and 2 more of this kind (Service)"),
			},
		},
		"a Service that waits for the LAN to be asked is progress, and what foreign hosts have is a remark": {
			facts: func(f *Facts) {
				f.Refusals = []Refusal{{Service: "a/1", Reason: "AddressUnverified", Message: "wait", Passing: true}}
				f.Quarantined = []string{"10.0.0.1, which the host 02:00:00:00:00:09 has"}
			},
			want: []metav1.Condition{
				is("Ready", no, "ServicesPending", "IPPoolsReady: a/1 (AddressUnverified): wait; not given out: 10.0.0.1, which the host 02:00:00:00:00:09 has"),
				kubeProxyReady,
				is("IPPoolsReady", no, "ServicesPending", "a/1 (AddressUnverified): wait; not given out: 10.0.0.1, which the host 02:00:00:00:00:09 has"),
				speakersReady,
				is("Progressing", yes, "ServicesPending", "a/1 (AddressUnverified): wait; not given out: 10.0.0.1, which the host 02:00:00:00:00:09 has"),
				fine,
			},
		},
		"a kube-proxy roll under way is progress, not damage": {
			facts: func(f *Facts) {
				f.KubeProxy = Verdict{Working, v1alpha1.ReasonRollingOut, "1 of 3 nodes run mode nftables; waiting for k8s-wl-01"}
			},
			want: []metav1.Condition{
				is("Ready", no, "RollingOut", "KubeProxyReady: 1 of 3 nodes run mode nftables; waiting for k8s-wl-01"),
				is("KubeProxyReady", no, "RollingOut", "1 of 3 nodes run mode nftables; waiting for k8s-wl-01"),
				poolsReady, speakersReady,
				is("Progressing", yes, "RollingOut", "1 of 3 nodes run mode nftables; waiting for k8s-wl-01"), fine,
			},
		},
		"speakers that Pod Security refuses need a person, who reads which label to set": {
			facts: func(f *Facts) {
				f.Speakers = Speakers{Desired: 3, Missing: []MissingSpeaker{{Text: "3 without a pod"}}, Refusal: Unadmitted{Namespace: "lanyard-system",
					Said: `Error creating: pods "lanyard-speaker-x7" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`}}
			},
			want: refused("; not ready: 3 without a pod. The API server refuses the speakers' pods in namespace lanyard-system (violates PodSecurity " +
				`"baseline:latest": host namespaces (hostNetwork=true)); run ` + "`kubectl label namespace lanyard-system " +
				"pod-security.kubernetes.io/enforce=privileged --overwrite`"),
		},
		"speakers that a quota refuses": {
			facts: func(f *Facts) {
				f.Speakers = Speakers{Desired: 3, Refusal: Unadmitted{Namespace: "lanyard-system", Said: `pods "a" is forbidden: exceeded quota: all`}}
			},
			want: refused("; not ready: . The API server refuses the speakers' pods in namespace lanyard-system (exceeded quota: all); raise the " +
				"ResourceQuota there"),
		},
		"speakers that something else refuses": {
			facts: func(f *Facts) {
				f.Speakers = Speakers{Desired: 3, Refusal: Unadmitted{Namespace: "lanyard-system", Said: "admission webhook \"x\" denied the request:\n no"}}
			},
			want: refused("; not ready: . The API server refuses the speakers' pods in namespace lanyard-system (admission webhook \"x\" denied the " +
				"request: no); find the admission policy, and let it admit pods of ServiceAccount lanyard-speaker there"),
		},
		"a speaker that is missing is named": {
			facts: func(f *Facts) {
				f.Speakers = Speakers{Desired: 3, Ready: 2, Missing: []MissingSpeaker{{Text: "k8s-wl-01 (starting)"}}}
			},
			want: []metav1.Condition{
				is("Ready", no, "SpeakersNotReady", "SpeakersReady: 2 of 3 speakers are ready; not ready: k8s-wl-01 (starting)"),
				kubeProxyReady, poolsReady,
				is("SpeakersReady", no, "SpeakersNotReady", "2 of 3 speakers are ready; not ready: k8s-wl-01 (starting)"),
				is("Progressing", yes, "SpeakersNotReady", "2 of 3 speakers are ready; not ready: k8s-wl-01 (starting)"), fine,
			},
		},
		"a speaker whose image cannot be pulled needs a person, and an address that waits for it does not hide that": {
			facts: func(f *Facts) {
				f.Speakers = Speakers{Desired: 3, Ready: 2, Missing: []MissingSpeaker{{Text: "k8s-wl-01 (ImagePullBackOff)", Stuck: true}}}
				f.Unannounced = []Unannounced{{IP: "10.0.0.1", Message: "not yet"}}
			},
			want: []metav1.Condition{
				is("Ready", no, "SpeakersNotReady", "SpeakersReady: 2 of 3 speakers are ready; not ready: k8s-wl-01 (ImagePullBackOff). 10.0.0.1: not yet"),
				kubeProxyReady, poolsReady,
				is("SpeakersReady", no, "SpeakersNotReady", "2 of 3 speakers are ready; not ready: k8s-wl-01 (ImagePullBackOff). 10.0.0.1: not yet"),
				noChange,
				is("Degraded", yes, "SpeakersNotReady", "2 of 3 speakers are ready; not ready: k8s-wl-01 (ImagePullBackOff). 10.0.0.1: not yet"),
			},
		},
		"an address that nobody can answer for goes before a speaker that starts": {
			facts: func(f *Facts) {
				f.Speakers = Speakers{Desired: 3, Ready: 2, Missing: []MissingSpeaker{{Text: "k8s-wl-01 (starting)"}}}
				f.Unannounced = []Unannounced{{IP: "10.9.9.9", Message: "no subnet", Explained: true}}
			},
			want: []metav1.Condition{
				is("Ready", no, "AddressesNotAnnounced", "SpeakersReady: 10.9.9.9: no subnet. 2 of 3 speakers are ready; not ready: k8s-wl-01 (starting)"),
				kubeProxyReady, poolsReady,
				is("SpeakersReady", no, "AddressesNotAnnounced", "10.9.9.9: no subnet. 2 of 3 speakers are ready; not ready: k8s-wl-01 (starting)"),
				noChange,
				is("Degraded", yes, "AddressesNotAnnounced", "10.9.9.9: no subnet. 2 of 3 speakers are ready; not ready: k8s-wl-01 (starting)"),
			},
		},
		"nodes that do not hear each other and answer for one address, although every speaker is ready": {
			facts: func(f *Facts) { f.Split = []string{"10.0.0.1: w1 and w2 answer for it at once"} },
			want: []metav1.Condition{
				is("Ready", no, "SpeakersSplit", "SpeakersReady: 10.0.0.1: w1 and w2 answer for it at once"),
				kubeProxyReady, poolsReady,
				is("SpeakersReady", no, "SpeakersSplit", "10.0.0.1: w1 and w2 answer for it at once"), noChange,
				is("Degraded", yes, "SpeakersSplit", "10.0.0.1: w1 and w2 answer for it at once"),
			},
		},
		"a key of the gossip that cannot be read needs a person before a speaker starts": {
			facts: func(f *Facts) { f.KeysProblem = `entry "next" has 5 bytes: write 32` },
			want: []metav1.Condition{
				is("Ready", no, "MembershipKeyInvalid", `SpeakersReady: Secret lanyard-membership: entry "next" has 5 bytes: write 32. Speakers that run keep `+
					"the keys that they have, and no other can start; deleted, the Secret is made anew"),
				kubeProxyReady, poolsReady,
				is("SpeakersReady", no, "MembershipKeyInvalid", `Secret lanyard-membership: entry "next" has 5 bytes: write 32. Speakers that run keep `+
					"the keys that they have, and no other can start; deleted, the Secret is made anew"),
				noChange,
				is("Degraded", yes, "MembershipKeyInvalid", `Secret lanyard-membership: entry "next" has 5 bytes: write 32. Speakers that run keep `+
					"the keys that they have, and no other can start; deleted, the Secret is made anew"),
			},
		},
		"a key that gives way to another is progress, and nothing is the worse for it": {
			facts: func(f *Facts) { f.KeysRotation = "step 1 of 3" },
			want: []metav1.Condition{is("Ready", yes, "Ready", "all is as the spec asks"), kubeProxyReady, poolsReady, speakersReady,
				is("Progressing", yes, "RotatingMembershipKey", "step 1 of 3"), fine},
		},
		"a Service whose address somebody else has too is remarked on, beside those that wait": {
			facts: func(f *Facts) {
				f.Refusals = []Refusal{{Service: "a/1", Reason: "PoolExhausted", Message: "full"}}
				f.Clashes = []Refusal{{Service: "a/2", Reason: "AddressContested", Message: "claimed by node w1 too"}}
			},
			want: []metav1.Condition{
				is("Ready", no, "ServicesPending", "IPPoolsReady: a/1 (PoolExhausted): full; a/2 (AddressContested): claimed by node w1 too"),
				kubeProxyReady,
				is("IPPoolsReady", no, "ServicesPending", "a/1 (PoolExhausted): full; a/2 (AddressContested): claimed by node w1 too"),
				speakersReady, noChange,
				is("Degraded", yes, "ServicesPending", "a/1 (PoolExhausted): full; a/2 (AddressContested): claimed by node w1 too"),
			},
		},
		"an address that nobody answers for": {
			facts: func(f *Facts) {
				f.Unannounced = []Unannounced{{IP: "10.9.9.9", Message: "no node has an interface in its subnet", Explained: true}}
			},
			want: []metav1.Condition{
				is("Ready", no, "AddressesNotAnnounced", "SpeakersReady: 10.9.9.9: no node has an interface in its subnet"),
				kubeProxyReady, poolsReady,
				is("SpeakersReady", no, "AddressesNotAnnounced", "10.9.9.9: no node has an interface in its subnet"), noChange,
				is("Degraded", yes, "AddressesNotAnnounced", "10.9.9.9: no node has an interface in its subnet"),
			},
		},
		"an unusual announcer is remarked on while all is ready": {
			facts: func(f *Facts) {
				f.Remarks = []string{"192.168.1.200: every node is excluded; k8s-cp-01 announces all the same"}
			},
			want: []metav1.Condition{is("Ready", yes, "Ready", "all is as the spec asks"), kubeProxyReady, poolsReady,
				is("SpeakersReady", yes, "Ready", "3 of 3 speakers are ready; 192.168.1.200: every node is excluded; k8s-cp-01 announces all the same"),
				noChange, fine},
		},
		"two failing jobs are both in the summary": {
			facts: func(f *Facts) {
				f.DataplaneError, f.AddressesError = "applying DaemonSet: forbidden", "patching Service a/1: timeout"
			},
			want: []metav1.Condition{
				is("Ready", no, "ApplyFailed", "IPPoolsReady: patching Service a/1: timeout; it is tried again. SpeakersReady: applying DaemonSet: forbidden; it is tried again"),
				kubeProxyReady,
				is("IPPoolsReady", no, "ApplyFailed", "patching Service a/1: timeout; it is tried again"),
				is("SpeakersReady", no, "ApplyFailed", "applying DaemonSet: forbidden; it is tried again"),
				noChange,
				is("Degraded", yes, "ApplyFailed", "patching Service a/1: timeout; it is tried again"),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			facts := healthy()
			tc.facts(&facts)
			if diff := cmp.Diff(tc.want, For(facts)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}
