package conditions

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// Standing is how one of Lanyard's three jobs stands.
type Standing int

// The standings.
const (
	// Settled means that all is as the spec asks.
	Settled Standing = iota
	// Working means that a change is under way and goes on by itself.
	Working
	// Failing means that it does not go on without a person.
	Failing
)

// Verdict is how a job stands, and why.
type Verdict struct {
	Standing Standing
	// Reason is one of the API's reasons.
	Reason string
	// Message is a sentence for the person on call.
	Message string
}

// Deprecation is what works until an upgrade of the cluster: why not longer, and what to do.
type Deprecation struct{ Reason, Message string }

// Problem is something wrong in the spec.
type Problem struct {
	// Field is the path of the field, such as spec.ipPools[0].addresses[1].
	Field string
	// Message says what is wrong with its value, and what to write instead.
	Message string
}

// Facts are what was observed, with nothing left to read.
type Facts struct {
	Generation int64
	State      v1alpha1.ManagementState
	// Problems are what is wrong in the spec.
	Problems []Problem
	// InForce is the generation whose configuration is acted on; 0 when there is none. It is the spec's unless there are problems.
	InForce int64
	// KubeProxy is the verdict of the kube-proxy reconciler.
	KubeProxy Verdict
	// Deprecation is what a coming version of Kubernetes ends of how kube-proxy runs; zero when there is nothing.
	Deprecation Deprecation
	// DataplaneError says why the speakers' objects could not be written. Empty when they were.
	DataplaneError string
	// Pools is how many pools the spec has.
	Pools int
	// Refusals are the Services without an address.
	Refusals []Refusal
	// Clashes are the Services that keep an address which somebody else has too.
	Clashes []Refusal
	// Quarantined are sentences about addresses that are given to nobody, because foreign hosts have them.
	Quarantined []string
	// Overlaps are sentences about addresses of pools that are given to nobody, because of what they are.
	Overlaps []string
	// AddressesError says why assignments could not be written. Empty when they were.
	AddressesError string
	Speakers       Speakers
	// Split are sentences about allocated addresses for which several nodes answer that do not hear each other.
	Split []string
	// Unannounced are allocated addresses for which no node answers.
	Unannounced []Unannounced
	// KeysProblem says what is wrong with the keys of the speakers' gossip, and KeysRotation how far one gives way to another. Empty: nothing.
	KeysProblem, KeysRotation string
	// Remarks are things that work but are unusual, such as an address on an excluded node.
	Remarks []string
}

// Refusal is a Service that does not have what it asks for, or not alone, and why.
type Refusal struct {
	Service, Reason, Message string
	// Passing means that it ends by itself in a moment.
	Passing bool
}

// Speakers counts the speakers and names those that are missing.
type Speakers struct {
	Desired, Ready int32
	// Missing are those that are not ready, in the order to name them.
	Missing []MissingSpeaker
	// Refusal is what the API server says of the pods that it does not let the DaemonSet make. Empty: it refuses none.
	Refusal Unadmitted
}

// Unadmitted is why pods are not admitted.
type Unadmitted struct {
	// Namespace is the speakers'.
	Namespace string
	// Said are the API server's own words; empty when it has said nothing.
	Said string
}

// MissingSpeaker is a speaker that is not ready.
type MissingSpeaker struct {
	// Text names its node with the reason ("k8s-wl-01 (ImagePullBackOff)").
	Text string
	// Stuck means that it does not become ready without a person.
	Stuck bool
}

// Unannounced is an allocated address for which no node answers.
type Unannounced struct {
	IP, Message string
	// Explained means that a speaker said why; otherwise the speakers are just about to announce it.
	Explained bool
}

// listed is how many of a kind a message names before it counts the rest.
const listed = 3

// For returns the object's conditions, all that it has, each with its transition time unset: meta.SetStatusCondition adds it.
func For(f Facts) []metav1.Condition {
	jobs := []job{
		{condition: v1alpha1.ConditionKubeProxyReady, Verdict: f.KubeProxy},
		{condition: v1alpha1.ConditionIPPoolsReady, Verdict: ipPools(f)},
		{condition: v1alpha1.ConditionSpeakersReady, Verdict: speakers(f)},
	}
	all := []metav1.Condition{ready(f, jobs)}
	for _, j := range jobs {
		all = append(all, condition(j.condition, j.Standing == Settled, j.Reason, j.Message))
	}
	all = append(all, progressing(f, jobs), degraded(jobs))
	if d := f.Deprecation; d.Reason != "" { // no job is the worse for it before that upgrade
		all = append(all, condition(v1alpha1.ConditionKubeProxyDeprecated, true, d.Reason, d.Message))
	}
	for i := range all {
		all[i].ObservedGeneration = f.Generation
	}
	return all
}

// job is one of Lanyard's jobs, and the condition that speaks of it.
type job struct {
	condition string
	Verdict
}

func condition(kind string, isTrue bool, reason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if isTrue {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// ipPools judges the pools: they are valid, and whoever asks has an address.
func ipPools(f Facts) Verdict {
	switch {
	case len(f.Problems) > 0:
		return Verdict{Failing, v1alpha1.ReasonInvalidConfiguration, problems(f)}
	case f.AddressesError != "":
		return Verdict{Failing, v1alpha1.ReasonApplyFailed, f.AddressesError + "; it is tried again"}
	case len(f.Refusals) > 0:
		return Verdict{pending(f.Refusals), v1alpha1.ReasonServicesPending, refusals(f.Refusals) + clashes(f)}
	case f.Pools == 0:
		return Verdict{Settled, v1alpha1.ReasonNotManaged, "spec.ipPools is empty: Services of type LoadBalancer get no address" + clashes(f)}
	default:
		return Verdict{Settled, v1alpha1.ReasonReady, "every Service that asks for an address has one" + clashes(f)}
	}
}

// pending says whether Services without an address get one by themselves.
func pending(all []Refusal) Standing {
	if slices.ContainsFunc(all, func(r Refusal) bool { return !r.Passing }) {
		return Failing
	}
	return Working
}

func refusals(all []Refusal) string {
	var texts []string
	for _, r := range all {
		texts = append(texts, fmt.Sprintf("%s (%s): %s", r.Service, r.Reason, r.Message))
	}
	return first(texts, "Service")
}

// clashes are a remark, as what is quarantined is: whoever lists somebody's address among its externalIPs, or takes one on the LAN, must not
// turn the summary red.
func clashes(f Facts) string {
	var remark string
	if len(f.Clashes) > 0 {
		remark = "; " + refusals(f.Clashes)
	}
	if len(f.Quarantined) > 0 {
		remark += "; not given out: " + first(f.Quarantined, "address")
	}
	if len(f.Overlaps) > 0 {
		remark += "; " + first(f.Overlaps, "overlap")
	}
	return remark
}

func problems(f Facts) string {
	var texts []string
	for _, p := range f.Problems {
		texts = append(texts, p.Field+": "+p.Message)
	}
	inForce := "no configuration is in force yet"
	if f.InForce > 0 {
		inForce = fmt.Sprintf("the last good configuration (generation %d) stays in force", f.InForce)
	}
	return first(texts, "problem") + "; " + inForce
}

// speakers judges the speakers: they run, and exactly one answers for each address.
func speakers(f Facts) Verdict {
	if f.DataplaneError != "" {
		return Verdict{Failing, v1alpha1.ReasonApplyFailed, f.DataplaneError + "; it is tried again"}
	}
	var open []Verdict
	if len(f.Split) > 0 {
		open = append(open, Verdict{Failing, v1alpha1.ReasonSpeakersSplit, first(f.Split, "address")})
	}
	if f.KeysProblem != "" {
		open = append(open, Verdict{Failing, v1alpha1.ReasonMembershipKeyInvalid, keysProblem(f.KeysProblem)})
	}
	if f.Speakers.Desired == 0 || f.Speakers.Ready < f.Speakers.Desired {
		open = append(open, missing(f.Speakers))
	}
	if len(f.Unannounced) > 0 {
		open = append(open, unannounced(f.Unannounced))
	}
	if len(open) > 0 {
		return gravest(open)
	}
	message := fmt.Sprintf("%d of %d speakers are ready", f.Speakers.Ready, f.Speakers.Desired)
	if len(f.Remarks) > 0 {
		message += "; " + first(f.Remarks, "remark")
	}
	return Verdict{Settled, v1alpha1.ReasonReady, message}
}

// keysProblem says what a bad key does, and how it is mended.
func keysProblem(problem string) string {
	return fmt.Sprintf("Secret %s: %s. Speakers that run keep the keys that they have, and no other can start; deleted, the Secret is made anew",
		v1alpha1.MembershipSecret, problem)
}

// gravest joins verdicts: the one that needs a person most, the first of equals, gives reason and standing, all of them the message.
func gravest(all []Verdict) Verdict {
	slices.SortStableFunc(all, func(a, b Verdict) int { return cmp.Compare(b.Standing, a.Standing) })
	joined := all[0]
	for _, v := range all[1:] {
		joined.Message += ". " + v.Message
	}
	return joined
}

// missing judges speakers that are not ready: most are just starting.
func missing(s Speakers) Verdict {
	v := Verdict{Standing: Working, Reason: v1alpha1.ReasonSpeakersNotReady}
	if s.Desired == 0 {
		v.Message = "no node runs a speaker yet: if this lasts, look at spec.speaker.nodeSelector and at the events of DaemonSet " + v1alpha1.SpeakerDaemonSet
		return v
	}
	var texts []string
	for _, m := range s.Missing {
		texts = append(texts, m.Text)
		if m.Stuck {
			v.Standing = Failing
		}
	}
	v.Message = fmt.Sprintf("%d of %d speakers are ready; not ready: %s", s.Ready, s.Desired, first(texts, "node"))
	if s.Refusal.Said != "" {
		v.Standing = Failing
		v.Message += ". " + s.Refusal.explain()
	}
	return v
}

// explain says why pods are not admitted, and what to do.
func (u Unadmitted) explain() string {
	said := strings.Join(strings.Fields(u.Said), " ")
	if _, why, found := strings.Cut(said, " is forbidden: "); found { // a pod's name says nothing, and is another each time
		said = why
	}
	remedy := "find the admission policy, and let it admit pods of ServiceAccount " + v1alpha1.SpeakerDaemonSet + " there"
	switch {
	case strings.Contains(said, "PodSecurity"):
		remedy = fmt.Sprintf("run `kubectl label namespace %s %s=privileged --overwrite`", u.Namespace, v1alpha1.PodSecurityLabel)
	case strings.Contains(said, "quota"):
		remedy = "raise the ResourceQuota there"
	}
	return fmt.Sprintf("The API server refuses the speakers' pods in namespace %s (%s); %s", u.Namespace, said, remedy)
}

// unannounced judges addresses that nobody answers for: a person is needed where a speaker can say why.
func unannounced(all []Unannounced) Verdict {
	v := Verdict{Standing: Working, Reason: v1alpha1.ReasonAddressesNotAnnounced}
	var texts []string
	for _, u := range all {
		texts = append(texts, u.IP+": "+u.Message)
		if u.Explained {
			v.Standing = Failing
		}
	}
	v.Message = first(texts, "address")
	return v
}

// ready sums up: the first job that is not settled gives the reason, all of them the message.
func ready(f Facts, jobs []job) metav1.Condition {
	var open []job
	for _, j := range jobs {
		if j.Standing != Settled {
			open = append(open, j)
		}
	}
	if len(open) == 0 {
		if f.State == v1alpha1.Paused {
			return condition(v1alpha1.ConditionReady, true, v1alpha1.ReasonPaused, pausedMessage)
		}
		return condition(v1alpha1.ConditionReady, true, v1alpha1.ReasonReady, "all is as the spec asks")
	}
	var texts []string
	for _, j := range open {
		texts = append(texts, j.condition+": "+j.Message)
	}
	return condition(v1alpha1.ConditionReady, false, open[0].Reason, strings.Join(texts, ". "))
}

const pausedMessage = "spec.managementState is Paused: nothing is written, announced addresses go on; set it to Managed to go on"

func progressing(f Facts, jobs []job) metav1.Condition {
	if f.State == v1alpha1.Paused {
		return condition(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonPaused, pausedMessage)
	}
	for _, j := range jobs {
		if j.Standing == Working {
			return condition(v1alpha1.ConditionProgressing, true, j.Reason, j.Message)
		}
	}
	if f.KeysRotation != "" { // no job is the worse for it
		return condition(v1alpha1.ConditionProgressing, true, v1alpha1.ReasonRotatingMembershipKey, f.KeysRotation)
	}
	return condition(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonComplete, "no change is under way")
}

func degraded(jobs []job) metav1.Condition {
	for _, j := range jobs {
		if j.Standing == Failing {
			return condition(v1alpha1.ConditionDegraded, true, j.Reason, j.Message)
		}
	}
	return condition(v1alpha1.ConditionDegraded, false, v1alpha1.ReasonAsExpected, "nothing needs a person")
}

// first joins the first few texts and counts the rest.
func first(texts []string, noun string) string {
	if len(texts) <= listed {
		return strings.Join(texts, "; ")
	}
	return fmt.Sprintf("%s; and %d more of this kind (%s)", strings.Join(texts[:listed], "; "), len(texts)-listed, noun)
}
