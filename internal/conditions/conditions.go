package conditions

import (
	"fmt"
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
	// Problems are what is wrong in the spec; while there are any, InForce is the generation whose configuration is acted on.
	Problems []Problem
	InForce  int64
	// KubeProxy is the verdict of the kube-proxy reconciler.
	KubeProxy Verdict
	// DataplaneError says why the speakers' objects could not be written. Empty when they were.
	DataplaneError string
	// Pools is how many pools are in force.
	Pools int
	// Refusals are the Services without an address.
	Refusals []Refusal
	// AddressesError says why assignments could not be written. Empty when they were.
	AddressesError string
	Speakers       Speakers
	// Unannounced are allocated addresses for which no node answers.
	Unannounced []Unannounced
	// Remarks are things that work but are unusual, such as an address on an excluded node.
	Remarks []string
}

// Refusal is a Service that has no address, and why.
type Refusal struct {
	Service, Reason, Message string
}

// Speakers counts the speakers and names those that are missing.
type Speakers struct {
	Desired, Ready int32
	// Missing are the nodes whose speaker is not ready, in order, each with its reason ("k8s-wl-01 (ImagePullBackOff)").
	Missing []string
}

// Unannounced is an allocated address for which no node answers.
type Unannounced struct {
	IP, Message string
	// Explained means that a speaker said why; otherwise the speakers are just about to announce it.
	Explained bool
}

// listed is how many of a kind a message names before it counts the rest.
const listed = 3

// For returns the object's conditions, each with its transition time unset: meta.SetStatusCondition adds it.
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
		var texts []string
		for _, r := range f.Refusals {
			texts = append(texts, fmt.Sprintf("%s (%s): %s", r.Service, r.Reason, r.Message))
		}
		return Verdict{Failing, v1alpha1.ReasonServicesPending, first(texts, "Service")}
	case f.Pools == 0:
		return Verdict{Settled, v1alpha1.ReasonNotManaged, "spec.ipPools is empty: Services of type LoadBalancer get no address"}
	default:
		return Verdict{Settled, v1alpha1.ReasonReady, "every Service that asks for an address has one"}
	}
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

// speakers judges the speakers: they run, and somebody answers for every address.
func speakers(f Facts) Verdict {
	switch {
	case f.DataplaneError != "":
		return Verdict{Failing, v1alpha1.ReasonApplyFailed, f.DataplaneError + "; it is tried again"}
	case len(f.Unannounced) > 0:
		return unannounced(f.Unannounced)
	case f.Speakers.Desired == 0:
		return Verdict{Working, v1alpha1.ReasonSpeakersNotReady, "no node runs a speaker yet: if this lasts, look at spec.speaker.nodeSelector and at " +
			"the events of DaemonSet " + v1alpha1.SpeakerDaemonSet}
	case f.Speakers.Ready < f.Speakers.Desired:
		return Verdict{Working, v1alpha1.ReasonSpeakersNotReady, fmt.Sprintf("%d of %d speakers are ready; not ready: %s",
			f.Speakers.Ready, f.Speakers.Desired, first(f.Speakers.Missing, "node"))}
	default:
		message := fmt.Sprintf("%d of %d speakers are ready", f.Speakers.Ready, f.Speakers.Desired)
		if len(f.Remarks) > 0 {
			message += "; " + first(f.Remarks, "remark")
		}
		return Verdict{Settled, v1alpha1.ReasonReady, message}
	}
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
