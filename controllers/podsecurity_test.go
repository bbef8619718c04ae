package controllers

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// What Kubernetes' DaemonSet controller would do, the spec does: it makes a pod of the DaemonSet's template, and an Event of the refusal.
var _ = Describe("A namespace that Pod Security holds to the baseline", func() {
	hold := func(ctx context.Context, level string) {
		change(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, func(ns *corev1.Namespace) {
			delete(ns.Labels, v1alpha1.PodSecurityLabel)
			if level != "" {
				ns.Labels[v1alpha1.PodSecurityLabel] = level
			}
		})
	}
	speakers := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.SpeakerDaemonSet}}
	podSecurity := func(ctx context.Context) (string, error) {
		err := k8s.Get(ctx, client.ObjectKeyFromObject(speakers), speakers)
		return speakers.Annotations[v1alpha1.PodSecurityAnnotation], err
	}

	It("ends with a condition that names the label and the command, and the label's change has the pods tried at once", func(ctx SpecContext) {
		hold(ctx, "baseline")
		DeferCleanup(hold, "")
		DeferCleanup(startManager(false))
		create(ctx, tutorial())
		Eventually(podSecurity).WithContext(ctx).Should(Equal("baseline"))

		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "speaker", Labels: speakers.Spec.Template.Labels},
			Spec: speakers.Spec.Template.Spec}
		refusal := k8s.Create(ctx, pod)
		Expect(apierrors.IsForbidden(refusal)).To(BeTrue(), "the API server should refuse a speaker's pod: %v", refusal)
		create(ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: "refused"},
			InvolvedObject: corev1.ObjectReference{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: namespace, Name: speakers.Name, UID: speakers.UID},
			Type:           corev1.EventTypeWarning, Reason: "FailedCreate", Message: "Error creating: " + refusal.Error(), LastTimestamp: metav1.Now(),
		})
		speakers.Status.DesiredNumberScheduled = 2
		Expect(k8s.Status().Update(ctx, speakers)).To(Succeed())
		Eventually(conditionOf("SpeakersReady")).WithContext(ctx).Should(And(
			HavePrefix("False SpeakersNotReady: 0 of 2 speakers are ready; not ready: 2 without a pod"),
			ContainSubstring(`The API server refuses the speakers' pods in namespace lanyard-system (violates PodSecurity "baseline:latest": `),
			HaveSuffix("; run `kubectl label namespace lanyard-system pod-security.kubernetes.io/enforce=privileged --overwrite`"),
		))
		Eventually(conditionOf("Degraded")).WithContext(ctx).Should(HavePrefix("True SpeakersNotReady: "))

		hold(ctx, "privileged")
		Eventually(podSecurity).WithContext(ctx).Should(Equal("privileged"))
	})
})
