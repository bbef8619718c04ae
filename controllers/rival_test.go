package controllers

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("Another controller", func() {
	It("that keeps emptying a Service's status is not fought for ever", func(ctx SpecContext) {
		DeferCleanup(startManager(false))
		svc := loadBalancer("lb-contested")
		create(ctx, svc, tutorial())
		stop := make(chan struct{})
		stopped := make(chan struct{})
		go func() {
			defer GinkgoRecover()
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
				var now corev1.Service
				if err := k8s.Get(context.Background(), client.ObjectKeyFromObject(svc), &now); err != nil || len(now.Status.LoadBalancer.Ingress) == 0 {
					continue
				}
				now.Status.LoadBalancer.Ingress = nil
				_ = k8s.Status().Update(context.Background(), &now, client.FieldOwner("klipper")) // whoever outran it is outrun again
			}
		}()
		DeferCleanup(func() { close(stop); <-stopped })
		Eventually(conditionOf("IPPoolsReady")).WithContext(ctx).Should(HavePrefix("False ServicesPending: default/lb-contested (StatusContested): "+
			"its address is taken out of its status again and again by somebody who leaves no trace"), "who removes a field owns none")
		Consistently(addressOf("lb-contested")).WithContext(ctx).Should(BeEmpty())
	})
})
