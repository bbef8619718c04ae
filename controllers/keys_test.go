package controllers

import (
	"bytes"
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/keyring"
)

// speakersOn makes pods of the speaker for nodes, and their reports.
func speakersOn(ctx context.Context, nodes ...string) {
	GinkgoHelper()
	for _, node := range nodes {
		create(ctx,
			&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "speaker-" + node, Labels: speakerLabels()},
				Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "speaker", Image: "lanyard:test"}}},
			},
			&v1alpha1.NodeNetworking{ObjectMeta: metav1.ObjectMeta{Name: node}})
	}
}

// speakersRun lets the DaemonSet say that its pods are ready, once it is there, and waits until nothing is under way.
func speakersRun(ctx context.Context, n int32) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) error {
		var ds appsv1.DaemonSet
		if err := k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1alpha1.SpeakerDaemonSet}, &ds); err != nil {
			return err
		}
		ds.Status.DesiredNumberScheduled, ds.Status.CurrentNumberScheduled, ds.Status.NumberReady = n, n, n
		return k8s.Status().Update(ctx, &ds)
	}).WithContext(ctx).Should(Succeed())
	Eventually(conditionOf("Progressing")).WithContext(ctx).Should(Equal("False Complete: no change is under way"))
}

// storedKeys reads what the Secret holds.
func storedKeys(ctx context.Context) (keyring.Keyring, error) {
	var secret corev1.Secret
	if err := k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1alpha1.MembershipSecret}, &secret); err != nil {
		return keyring.Keyring{}, err
	}
	return keyring.Parse(secret.Data)
}

// takeOver does what speakers do: they report that they have what the Secret holds.
func takeOver(ctx context.Context, nodes ...string) {
	GinkgoHelper()
	held, err := storedKeys(ctx)
	Expect(err).NotTo(HaveOccurred())
	for _, node := range nodes {
		Eventually(func(ctx context.Context) error {
			var report v1alpha1.NodeNetworking
			if err := k8s.Get(ctx, client.ObjectKey{Name: node}, &report); err != nil {
				return err
			}
			report.Status.MembershipKeys.Digest = keyring.Digest(held.Keys())
			return k8s.Status().Update(ctx, &report)
		}).WithContext(ctx).Should(Succeed())
	}
}

var _ = Describe("The key of the speakers' gossip", func() {
	secret := func() *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.MembershipSecret}}
	}
	generation := func(ctx context.Context) int64 {
		GinkgoHelper()
		var ds appsv1.DaemonSet
		Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1alpha1.SpeakerDaemonSet}, &ds)).To(Succeed())
		return ds.Generation
	}

	It("gives way to a new one when that is asked for, a step whenever every speaker has the last, and no speaker is started anew", func(ctx SpecContext) {
		speakersOn(ctx, "k1", "k2")
		DeferCleanup(startManager(false))
		cnet := tutorial()
		create(ctx, cnet)
		speakersRun(ctx, 2)
		old, err := storedKeys(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(old.Keys()).To(HaveLen(1))
		speakers := generation(ctx)

		change(ctx, cnet, func(c *v1alpha1.ClusterNetworking) {
			c.Annotations = map[string]string{v1alpha1.RotateMembershipKeyAnnotation: "2026-07-01"}
		})
		Eventually(conditionOf("Progressing")).WithContext(ctx).Should(HavePrefix("True RotatingMembershipKey: a new key waits until every speaker is known to have " +
			"the present one; not yet heard of: k1, k2."))
		takeOver(ctx, "k1", "k2")
		Eventually(storedKeys).WithContext(ctx).Should(And(HaveField("Key", Equal(old.Key)), HaveField("Next", HaveLen(keyring.Size))))
		comes, err := storedKeys(ctx)
		Expect(err).NotTo(HaveOccurred())

		takeOver(ctx, "k2")
		Eventually(conditionOf("Progressing")).WithContext(ctx).Should(HavePrefix("True RotatingMembershipKey: the speakers begin to read the new key (step 1 of 3); " +
			"not yet heard of: k1."))
		Consistently(storedKeys).WithContext(ctx).Should(HaveField("Key", Equal(old.Key)), "k1 does not read the new key yet")
		Expect(conditionOf("SpeakersReady")(ctx)).NotTo(ContainSubstring("key"), "nobody is the worse for it")
		takeOver(ctx, "k1")
		Eventually(storedKeys).WithContext(ctx).Should(And(HaveField("Key", Equal(comes.Next)), HaveField("Previous", Equal(old.Key))))
		takeOver(ctx, "k1", "k2")
		Eventually(storedKeys).WithContext(ctx).Should(And(HaveField("Key", Equal(comes.Next)), HaveField("Next", BeEmpty()), HaveField("Previous", BeEmpty())))
		Eventually(conditionOf("Progressing")).WithContext(ctx).Should(Equal("False Complete: no change is under way"))

		served := secret()
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(served), served)).To(Succeed())
		Expect(served.Annotations).To(HaveKeyWithValue(v1alpha1.RotatedForAnnotation, "2026-07-01"))
		Expect(generation(ctx)).To(Equal(speakers))
		Consistently(storedKeys).WithContext(ctx).Should(HaveField("Key", Equal(comes.Next)), "one request is served once")
	})

	It("comes back when its Secret is deleted, and another one comes: speakers that start hear those that run", func(ctx SpecContext) {
		speakersOn(ctx, "k1")
		DeferCleanup(startManager(false))
		create(ctx, tutorial())
		speakersRun(ctx, 1)
		old, err := storedKeys(ctx)
		Expect(err).NotTo(HaveOccurred())
		speakers := generation(ctx)
		Expect(k8s.Delete(ctx, secret())).To(Succeed())
		Eventually(storedKeys).WithContext(ctx).Should(And(HaveField("Key", Equal(old.Key)), HaveField("Next", HaveLen(keyring.Size))))
		Expect(generation(ctx)).To(Equal(speakers))
	})

	It("is left as it is when it cannot be read, and the rest is kept as asked", func(ctx SpecContext) {
		speakersOn(ctx, "k1")
		DeferCleanup(startManager(false))
		create(ctx, tutorial())
		speakersRun(ctx, 1)
		change(ctx, secret(), func(s *corev1.Secret) { s.Data[v1alpha1.MembershipNextKey] = []byte("short") })
		Eventually(conditionOf("SpeakersReady")).WithContext(ctx).Should(HavePrefix(`False MembershipKeyInvalid: Secret lanyard-membership: entry "next" has 5 bytes, ` +
			`and a key has 32: write the base64 of 32 random bytes under data (head -c 32 /dev/urandom | base64). Speakers that run keep the keys that ` +
			`they have, and no other can start; deleted, the Secret is made anew`))
		left := secret()
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(left), left)).To(Succeed())
		Expect(left.Data).To(HaveKeyWithValue(v1alpha1.MembershipNextKey, []byte("short")))
		speakers := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.SpeakerDaemonSet}}
		Expect(k8s.Delete(ctx, speakers)).To(Succeed())
		Eventually(func(ctx context.Context) error { return k8s.Get(ctx, client.ObjectKeyFromObject(speakers), speakers) }).WithContext(ctx).Should(Succeed())
		speakersRun(ctx, 1)

		change(ctx, secret(), func(s *corev1.Secret) {
			s.Data[v1alpha1.MembershipNextKey] = bytes.Repeat([]byte{5}, keyring.Size)
		})
		Eventually(conditionOf("Progressing")).WithContext(ctx).Should(HavePrefix("True RotatingMembershipKey: the speakers begin to read the new key (step 1 of 3)"))
		takeOver(ctx, "k1")
		Eventually(storedKeys).WithContext(ctx).Should(And(HaveField("Key", Equal(bytes.Repeat([]byte{5}, keyring.Size))), HaveField("Next", BeEmpty())))
	})
})
