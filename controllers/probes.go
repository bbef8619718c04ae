package controllers

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// maxProbes is how many probes run at a time: each is a kube-proxy that reads all Services.
const maxProbes = 5

// tailLines is how much of a failed kube-proxy's log is read: more than is shown, for some of it tells nothing.
const tailLines = 50

// probeSetup is what probes need to run.
type probeSetup = kubeproxy.ProbeSetup

// probes makes the pods that find out what only a pod on a node can, and tells what they found. A result is remembered here for as long as
// its probe is wanted, so that the pod can go at once. A manager that starts knows of none: it finds the pods there are, and judges anew.
// It is for one goroutine.
type probes struct {
	client    client.Client
	namespace string
	questions probeQuestions
	now       func() time.Time

	results map[kubeproxy.ProbeKey]kubeproxy.ProbeResult // final ones
	ended   map[kubeproxy.ProbeKey]time.Time             // when they were found
	seen    map[types.UID]probeTimes
}

// probeQuestions are how a probe's pod is asked.
type probeQuestions interface {
	// answer asks a shadow how far it is.
	answer(ctx context.Context, pod *corev1.Pod) kubeproxy.Answer
	// log reads the log of a pod's container; with lines > 0 no more than the last ones.
	log(ctx context.Context, pod *corev1.Pod, container string, lines int64) (string, error)
}

// probeTimes are for how long a pod has been watched before one of its containers started, and since.
type probeTimes struct {
	seen              time.Time // last
	starting, running time.Duration
	// deleted means that we did it: the cache may show the pod for a while.
	deleted bool
}

// maxGap is what counts of the time between two looks. When the manager is slow, for the API server is, so is a probe, and not through any
// fault of its node.
const maxGap = 5 * time.Second

func newProbes(c client.Client, namespace string, q probeQuestions) *probes {
	return &probes{client: c, namespace: namespace, questions: q, now: time.Now,
		results: map[kubeproxy.ProbeKey]kubeproxy.ProbeResult{}, ended: map[kubeproxy.ProbeKey]time.Time{}, seen: map[types.UID]probeTimes{}}
}

// +kubebuilder:rbac:groups="",namespace=lanyard-system,resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=lanyard-system,roleName=lanyard-kube-proxy,resources=pods,verbs=create;delete
// +kubebuilder:rbac:groups="",namespace=lanyard-system,roleName=lanyard-kube-proxy,resources=pods/log,verbs=get

// gather tells what the probes have found, as far as they are: those whose pods are there, and those that are over.
func (p *probes) gather(ctx context.Context) (map[kubeproxy.ProbeKey]kubeproxy.ProbeResult, error) {
	pods, err := p.pods(ctx)
	if err != nil {
		return nil, err
	}
	results := make([]kubeproxy.ProbeResult, len(pods))
	var asked sync.WaitGroup
	for i := range pods {
		key := kubeproxy.ProbeOf(&pods[i]).Key()
		if known, ok := p.results[key]; ok && !p.due(known) {
			results[i] = known
			continue
		}
		sighted := p.sight(&pods[i])
		asked.Go(func() { results[i] = p.judge(ctx, sighted) })
	}
	asked.Wait()
	if err := ctx.Err(); err != nil { // what was asked has failed for this reason alone
		return nil, fmt.Errorf("asking probes: %w", err)
	}
	for _, r := range results {
		if _, known := p.results[r.Key]; r.State != kubeproxy.ProbeRunning && (!known || p.due(p.results[r.Key])) {
			p.results[r.Key], p.ended[r.Key] = r, p.now()
		}
	}
	all := maps.Clone(p.results)
	for _, r := range results {
		if _, known := all[r.Key]; !known { // while it is tried again, the old result stands
			all[r.Key] = r
		}
	}
	return all, nil
}

// triedAgain is how long after a failure a probe is made anew: a person may have mended the node meanwhile.
const triedAgain = 2 * time.Minute

// due says whether a result is to be had anew.
func (p *probes) due(r kubeproxy.ProbeResult) bool {
	return (r.State == kubeproxy.ProbeFailed || len(r.Leftovers) > 0) && p.now().Sub(p.ended[r.Key]) >= triedAgain
}

// pods returns the probes' pods that are not on their way out, and forgets the times of those that are gone.
func (p *probes) pods(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := p.client.List(ctx, &list, client.InNamespace(p.namespace), client.MatchingLabels(kubeproxy.ProbeLabels())); err != nil {
		return nil, fmt.Errorf("listing the probes' pods in namespace %s: %w", p.namespace, err)
	}
	there := map[types.UID]bool{}
	var pods []corev1.Pod
	for _, pod := range list.Items {
		there[pod.UID] = true
		if pod.DeletionTimestamp == nil && !p.seen[pod.UID].deleted {
			pods = append(pods, pod)
		}
	}
	maps.DeleteFunc(p.seen, func(uid types.UID, _ probeTimes) bool { return !there[uid] })
	return pods, nil
}

// sight notes for how long the pod has been as it is.
func (p *probes) sight(pod *corev1.Pod) kubeproxy.ProbePod {
	times, now := p.seen[pod.UID], p.now()
	if !times.seen.IsZero() {
		gap := min(now.Sub(times.seen), maxGap)
		if kubeproxy.Started(pod) {
			times.running += gap
		} else {
			times.starting += gap
		}
	}
	times.seen = now
	p.seen[pod.UID] = times
	return kubeproxy.ProbePod{Pod: pod, Starting: times.starting, Running: times.running}
}

// judge asks a pod and says what its probe has found.
func (p *probes) judge(ctx context.Context, sighted kubeproxy.ProbePod) kubeproxy.ProbeResult {
	pod := sighted.Pod
	if kubeproxy.ProbeOf(pod).Kind == kubeproxy.ProbeSurvey {
		logs := map[string]string{}
		var unread error
		for _, container := range kubeproxy.Ended(pod) {
			if logs[container], unread = p.questions.log(ctx, pod, container, 0); unread != nil {
				break
			}
		}
		return kubeproxy.JudgeSurvey(sighted, logs, unread)
	}
	result := kubeproxy.JudgeShadow(sighted, p.questions.answer(ctx, pod))
	if result.State == kubeproxy.ProbeFailed && result.LogTail == "" && kubeproxy.Started(pod) {
		log, err := p.questions.log(ctx, pod, pod.Spec.Containers[0].Name, tailLines)
		if err != nil {
			log = err.Error() // the verdict stands without it
		}
		result = result.Tailed(log)
	}
	return result
}

// ensure makes the pods of the probes that are wanted and have no result yet, a few at a time in the order given, and removes every other,
// whoever made it. A probe stays wanted for as long as its result matters: what is not wanted is forgotten, and asked anew when it is
// wanted again.
func (p *probes) ensure(ctx context.Context, wanted []kubeproxy.Probe, setup probeSetup) error {
	open := map[kubeproxy.ProbeKey]bool{}
	results := map[kubeproxy.ProbeKey]kubeproxy.ProbeResult{}
	candidates := map[string]bool{}
	for _, w := range wanted {
		if r, ok := p.results[w.Key()]; ok {
			results[w.Key()] = r
			if !p.due(r) {
				continue
			}
		}
		open[w.Key()] = true
		if w.Kind == kubeproxy.ProbeShadow {
			candidates[kubeproxy.ShadowConfigMapName(w.Hash)] = true
		}
	}
	p.results = results
	maps.DeleteFunc(p.ended, func(key kubeproxy.ProbeKey, _ time.Time) bool { _, wanted := results[key]; return !wanted })
	running, err := p.sweepPods(ctx, open)
	if err != nil {
		return err
	}
	configMaps, err := p.sweepConfigMaps(ctx, candidates)
	if err != nil {
		return err
	}
	for _, w := range wanted {
		if !open[w.Key()] || running[w.Key()] {
			continue
		}
		if len(running) >= maxProbes {
			return nil
		}
		refused, err := p.start(ctx, w, setup, configMaps)
		if err != nil {
			return err
		}
		if refused != nil {
			p.results[w.Key()], p.ended[w.Key()] = *refused, p.now()
			continue
		}
		running[w.Key()] = true
	}
	return nil
}

// sweepPods deletes the pods of all probes but the open ones, and returns those that run.
func (p *probes) sweepPods(ctx context.Context, open map[kubeproxy.ProbeKey]bool) (map[kubeproxy.ProbeKey]bool, error) {
	pods, err := p.pods(ctx)
	if err != nil {
		return nil, err
	}
	running := map[kubeproxy.ProbeKey]bool{}
	for i := range pods {
		pod := &pods[i]
		if key := kubeproxy.ProbeOf(pod).Key(); open[key] {
			running[key] = true
			continue
		}
		if err := p.client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return nil, fmt.Errorf("deleting the probe's pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		p.seen[pod.UID] = probeTimes{deleted: true}
	}
	return running, nil
}

// sweepConfigMaps deletes the ConfigMaps of all candidates but these, and returns those that are there.
func (p *probes) sweepConfigMaps(ctx context.Context, candidates map[string]bool) (map[string]*corev1.ConfigMap, error) {
	var list corev1.ConfigMapList
	if err := p.client.List(ctx, &list, client.InNamespace(p.namespace), client.MatchingLabels(kubeproxy.ProbeLabels())); err != nil {
		return nil, fmt.Errorf("listing the probes' ConfigMaps in namespace %s: %w", p.namespace, err)
	}
	there := map[string]*corev1.ConfigMap{}
	for i := range list.Items {
		cm := &list.Items[i]
		if candidates[cm.Name] {
			there[cm.Name] = cm
			continue
		}
		if err := p.client.Delete(ctx, cm); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("deleting the probes' ConfigMap %s/%s: %w", cm.Namespace, cm.Name, err)
		}
	}
	return there, nil
}

// start makes a probe's objects, the ConfigMap first: the pod cannot start without it. What the API server refuses is a result.
func (p *probes) start(ctx context.Context, probe kubeproxy.Probe, setup probeSetup, configMaps map[string]*corev1.ConfigMap) (
	refused *kubeproxy.ProbeResult, err error,
) {
	setup.Namespace = p.namespace
	objects := []client.Object{setup.Pod(probe)}
	if probe.Kind == kubeproxy.ProbeShadow {
		cm, err := setup.ShadowConfigMap(probe)
		if err != nil {
			result := kubeproxy.Unusable(probe, err)
			return &result, nil
		}
		switch old := configMaps[cm.Name]; {
		case old == nil:
			objects = []client.Object{cm, objects[0]}
			configMaps[cm.Name] = cm
		case !equality.Semantic.DeepEqual(old.Data, cm.Data): // another way to the API server; it is made anew in the next pass
			return nil, client.IgnoreNotFound(p.client.Delete(ctx, old))
		}
	}
	for _, o := range objects {
		// One of its name that is there already is the same one, made before a restart, or one that is on its way out.
		err := p.client.Create(ctx, o, client.FieldOwner(v1alpha1.FieldManager))
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			result := kubeproxy.Refused(probe, p.namespace, err)
			return &result, nil
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("making %T %s/%s for a probe: %w", o, o.GetNamespace(), o.GetName(), err)
		}
	}
	return nil, nil
}
