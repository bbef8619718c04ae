package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

func clusterNetworking(ctx context.Context) (*v1alpha1.ClusterNetworking, error) {
	var cnet v1alpha1.ClusterNetworking
	return &cnet, k8s.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterNetworkingName}, &cnet)
}

// condition returns a condition as "Status Reason: Message", once the status speaks of the spec as it is.
func condition(kind string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		cnet, err := clusterNetworking(ctx)
		if err != nil {
			return "", err
		}
		c := meta.FindStatusCondition(cnet.Status.Conditions, kind)
		if c == nil || c.ObservedGeneration != cnet.Generation {
			return "not observed yet", nil
		}
		return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), nil
	}
}

// addressOf returns the addresses that a Service of the tutorial shows.
func addressOf(name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var svc corev1.Service
		if err := k8s.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, &svc); err != nil {
			return "", err
		}
		return shown(&svc), nil
	}
}

func shown(svc *corev1.Service) string {
	var all []string
	for _, i := range svc.Status.LoadBalancer.Ingress {
		all = append(all, i.IP)
	}
	return strings.Join(all, " ")
}

// ownerOf returns what the status says of an allocated address.
func ownerOf(address string) func(context.Context) (v1alpha1.AllocatedIP, error) {
	return func(ctx context.Context) (v1alpha1.AllocatedIP, error) {
		cnet, err := clusterNetworking(ctx)
		if err != nil {
			return v1alpha1.AllocatedIP{}, err
		}
		for _, ip := range cnet.Status.AllocatedIPs {
			if ip.IP == address {
				return ip, nil
			}
		}
		return v1alpha1.AllocatedIP{}, nil
	}
}

// agree waits until exactly one host answers for an address, the one that the status names, and returns it. Speakers that have just met may
// both answer until they have heard of each other, and a speaker reports every 5 s at most: an owner read from the status alone may be the
// last one.
func agree(ctx context.Context, address string) v1alpha1.AllocatedIP {
	GinkgoHelper()
	return agreeOn(ctx, "eth0", address)
}

func agreeOn(ctx context.Context, iface, address string) v1alpha1.AllocatedIP {
	GinkgoHelper()
	var owner v1alpha1.AllocatedIP
	Eventually(func(g Gomega, ctx context.Context) {
		var err error
		owner, err = ownerOf(address)(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(answeringOn(ctx, iface, address)).To(Equal([]string{owner.MAC}))
	}).WithContext(ctx).Should(Succeed())
	return owner
}

// proxyConfigMap returns kube-proxy's ConfigMap.
func proxyConfigMap(ctx context.Context) (*corev1.ConfigMap, error) {
	var cm corev1.ConfigMap
	return &cm, k8s.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "kube-proxy"}, &cm)
}

// addressesSeen records every address that a Service shows from now on. The returned function ends it and gives them in order of
// appearance, "" for none.
func addressesSeen(ctx context.Context, name string) (stop func() []string) {
	GinkgoHelper()
	watch, err := k8s.Watch(ctx, &corev1.ServiceList{}, client.InNamespace("default"), client.MatchingFields{"metadata.name": name})
	Expect(err).NotTo(HaveOccurred())
	var seen []string
	var reading sync.WaitGroup
	reading.Go(func() {
		for event := range watch.ResultChan() {
			if svc, ok := event.Object.(*corev1.Service); ok && (len(seen) == 0 || seen[len(seen)-1] != shown(svc)) {
				seen = append(seen, shown(svc))
			}
		}
	})
	return func() []string {
		watch.Stop()
		reading.Wait()
		return seen
	}
}

// outage asks for a page over new connections, one after the other, and measures the longest time from one answer to the next.
type outage struct {
	cancel  context.CancelFunc
	asking  sync.WaitGroup
	last    time.Time
	longest time.Duration
	answers int
}

// attempt is how long one connection may take: well above what a LAN needs, well below what is measured.
const attempt = 100 * time.Millisecond

func measureOutage(ctx context.Context, address string) *outage {
	ctx, cancel := context.WithCancel(ctx)
	o := &outage{cancel: cancel, last: time.Now()}
	web := &http.Client{Timeout: attempt, Transport: &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{}).DialContext}}
	o.asking.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, nil)
			if err != nil {
				return
			}
			response, err := web.Do(request)
			if err != nil {
				continue
			}
			_ = response.Body.Close() // it was read only
			o.longest = max(o.longest, time.Since(o.last))
			o.last = time.Now()
			o.answers++
		}
	})
	return o
}

// stop ends the asking, and returns the longest time without an answer and how many there were.
func (o *outage) stop() (longest time.Duration, answers int) {
	o.cancel()
	o.asking.Wait()
	return max(o.longest, time.Since(o.last)), o.answers
}
