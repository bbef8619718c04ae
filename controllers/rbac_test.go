package controllers

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// installed applies files of config/rbac to the API server, and removes what they hold when the spec ends.
func installed(ctx SpecContext, files ...string) {
	GinkgoHelper()
	for _, name := range files {
		file, err := os.Open(filepath.Join("..", "config", "rbac", name))
		Expect(err).NotTo(HaveOccurred())
		defer file.Close() //nolint:errcheck // it was only read
		documents := yaml.NewYAMLOrJSONDecoder(file, 4096)
		for {
			object := &unstructured.Unstructured{}
			if documents.Decode(object) != nil {
				break
			}
			Expect(k8s.Create(ctx, object)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, object))).To(Succeed()) })
		}
	}
}

// speakerOn returns a client with the token that a kubelet would give the speaker's pod on a node; of no pod, where that has no name.
func speakerOn(ctx SpecContext, node string) client.Client {
	GinkgoHelper()
	request := &authenticationv1.TokenRequest{}
	if node != "" {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lanyard-speaker-" + node}, Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: "lanyard-speaker", Containers: []corev1.Container{{Name: "speaker", Image: "lanyard:test"}}}}
		Expect(k8s.Create(ctx, pod)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(k8s.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed()) })
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lanyard-speaker"}}
	Expect(k8s.SubResource("token").Create(ctx, account, request)).To(Succeed())
	as := rest.AnonymousClientConfig(restConfig)
	as.BearerToken = request.Status.Token
	c, err := client.New(as, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return c
}

var _ = Describe("A speaker's token", func() {
	reportOf := func(node string) *v1alpha1.NodeNetworking {
		return &v1alpha1.NodeNetworking{ObjectMeta: metav1.ObjectMeta{Name: node}}
	}
	BeforeEach(func(ctx SpecContext) {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lanyard-speaker"}}
		Expect(k8s.Create(ctx, account)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(k8s.Delete(ctx, account)).To(Succeed()) })
		for _, name := range []string{"rack-1", "rack-2"} {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			Expect(k8s.Create(ctx, node)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) {
				Expect(k8s.Delete(ctx, node)).To(Succeed())
				Expect(client.IgnoreNotFound(k8s.Delete(ctx, reportOf(name)))).To(Succeed())
			})
		}
		installed(ctx, "speaker.yaml", "speaker_policy.yaml")
		// A policy is in force some moments after it was made: then an account without a node is refused.
		Eventually(func() error { return speakerOn(ctx, "").Create(ctx, reportOf("rack-1"), client.DryRunAll) }).
			Should(MatchError(ContainSubstring("does not name its node")))
	})

	It("writes the report of the node that it was given to", func(ctx SpecContext) {
		c := speakerOn(ctx, "rack-1")
		report := reportOf("rack-1")
		Expect(c.Create(ctx, report)).To(Succeed())
		report.Status.Interfaces = []v1alpha1.NodeInterface{{Name: "eth0", MAC: "02:00:00:00:00:01", Carrier: v1alpha1.CarrierUp}}
		Expect(c.Status().Update(ctx, report)).To(Succeed())
	})

	It("writes no other node's, and is told why", func(ctx SpecContext) {
		stolen := speakerOn(ctx, "rack-1")
		const why = "a speaker writes the report of its own node: this one runs on rack-1, and would write that of rack-2"
		err := stolen.Create(ctx, reportOf("rack-2"))
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(why)))
		theirs := reportOf("rack-2")
		Expect(k8s.Create(ctx, theirs)).To(Succeed())
		theirs.Status.Interfaces = []v1alpha1.NodeInterface{{Name: "eth0", MAC: "02:00:00:00:00:01", Carrier: v1alpha1.CarrierUp}}
		Expect(stolen.Status().Update(ctx, theirs)).To(MatchError(ContainSubstring(why)))
	})

	It("is of no concern to others: the manager and people", func(ctx SpecContext) {
		Expect(k8s.Create(ctx, reportOf("rack-2"))).To(Succeed())
	})
})
