package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/test/rbac"
)

// kubeconfig is how the workstation reaches the cluster.
func kubeconfig() *rest.Config {
	GinkgoHelper()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	Expect(err).NotTo(HaveOccurred())
	return config
}

// stolenFrom returns a client with the token of the speaker on a node, as somebody reads it who has got hold of the node's disk.
func stolenFrom(ctx context.Context, node string) client.Client {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(k8s.List(ctx, &pods, client.InNamespace("lanyard-system"), client.MatchingLabels{"app.kubernetes.io/component": "speaker"})).To(Succeed())
	at := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return p.Spec.NodeName == node })
	Expect(at).To(BeNumerically(">=", 0), "there is no speaker on "+node)
	token := lab(ctx, "exec", node, "--", "sh", "-c",
		"cat /var/lib/kubelet/pods/"+string(pods.Items[at].UID)+"/volumes/kubernetes.io~projected/kube-api-access-*/token")
	config := rest.AnonymousClientConfig(kubeconfig())
	config.BearerToken = strings.TrimSpace(token)
	c, err := client.New(config, client.Options{Scheme: k8s.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// may returns what a ServiceAccount of ours may do in a namespace, by the API server's own word: what `kubectl auth can-i --list` prints.
func may(ctx context.Context, account, namespace string) []string {
	GinkgoHelper()
	config := kubeconfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:lanyard-system:" + account,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:lanyard-system", "system:authenticated"}}
	as, err := client.New(config, client.Options{Scheme: k8s.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	asked := authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	Expect(as.Create(ctx, &asked)).To(Succeed())
	Expect(asked.Status.Incomplete).To(BeFalse(), asked.Status.EvaluationError)
	var all []string
	for _, r := range asked.Status.ResourceRules {
		rule := rbac.Rule{}
		rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames = r.Verbs, r.APIGroups, r.Resources, r.ResourceNames
		all = append(all, rule.Single()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// securitySpecs see what Lanyard's accounts are worth to somebody who has stolen them.
func securitySpecs() {
	It("lets a speaker's token write its own node's report and no other", func(ctx SpecContext) {
		owner := ready(ctx)
		other := "k8s-wl-01"
		if owner.Node == other {
			other = "k8s-wl-02"
		}
		stolen := stolenFrom(ctx, owner.Node)
		var own, others v1alpha1.NodeNetworking
		Expect(stolen.Get(ctx, client.ObjectKey{Name: owner.Node}, &own)).To(Succeed())
		Expect(stolen.Get(ctx, client.ObjectKey{Name: other}, &others)).To(Succeed())
		Expect(stolen.Status().Update(ctx, &own, client.DryRunAll)).To(Succeed())
		others.Status.Announced = own.Status.Announced
		Expect(stolen.Status().Update(ctx, &others)).To(MatchError(ContainSubstring(
			"a speaker writes the report of its own node: this one runs on " + owner.Node + ", and would write that of " + other)))
		var secrets corev1.SecretList
		Expect(stolen.List(ctx, &secrets, client.InNamespace("lanyard-system"))).To(MatchError(ContainSubstring("forbidden")))
	})

	It("lets each account do what the page says, and nothing else", func(ctx SpecContext) {
		manifests, err := os.ReadFile(filepath.Join(*root, "dist", "install.yaml"))
		Expect(err).NotTo(HaveOccurred())
		rules, err := rbac.Read(manifests)
		Expect(err).NotTo(HaveOccurred())
		for _, account := range []string{"lanyard-manager", "lanyard-speaker"} {
			for _, namespace := range []string{"lanyard-system", "kube-system", "default", "kube-public"} {
				wanted := may(ctx, "nobody-in-particular", namespace) // what everybody may
				for _, r := range rules {
					if r.Account == account && (r.Namespace == "" || r.Namespace == namespace) {
						wanted = append(wanted, r.Single()...)
					}
				}
				slices.Sort(wanted)
				Expect(may(ctx, account, namespace)).To(Equal(slices.Compact(wanted)), account+" in "+namespace)
			}
		}
	})
}
