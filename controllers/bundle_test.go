package controllers

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// A ClusterServiceVersion cannot bind a role that is there already, so the bundle repeats what kube-proxy may.
var _ = Describe("The OLM bundle", func() {
	It("gives a probe what Kubernetes gives kube-proxy", func(ctx SpecContext) {
		text, err := os.ReadFile(filepath.Join("..", "bundle", "manifests", "lanyard.clusterserviceversion.yaml"))
		Expect(err).NotTo(HaveOccurred())
		var csv struct {
			Spec struct {
				Install struct {
					Spec struct {
						ClusterPermissions []struct {
							ServiceAccountName string
							Rules              []rbacv1.PolicyRule
						}
					}
				}
			}
		}
		Expect(yaml.Unmarshal(text, &csv)).To(Succeed())
		var proxier rbacv1.ClusterRole
		Eventually(func() error { return k8s.Get(ctx, client.ObjectKey{Name: "system:node-proxier"}, &proxier) }).
			WithContext(ctx).Should(Succeed())
		Expect(proxier.Rules).NotTo(BeEmpty())
		Expect(csv.Spec.Install.Spec.ClusterPermissions).To(ContainElement(And(
			HaveField("ServiceAccountName", "lanyard-probe"), HaveField("Rules", ConsistOf(proxier.Rules)))))
	})
})
