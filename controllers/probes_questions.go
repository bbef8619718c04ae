package controllers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

const (
	// shadowTimeout is how long a shadow may take to answer. It is on the pod network, and asked again a second later.
	shadowTimeout = 3 * time.Second
	// logTimeout is for reading a log of kubeproxy.LogLimit by way of the API server and kubelet.
	logTimeout = 15 * time.Second
	// maxMetrics is how much is read of a shadow's metrics, in bytes; they are about a hundredth of it.
	maxMetrics = 16 << 20
)

// podQuestions asks pods on the pod network, and kubelets for their logs by way of the API server.
type podQuestions struct {
	pods corev1client.PodsGetter
	http *http.Client
	// at says where a pod's kube-proxy serves.
	at func(*corev1.Pod) (netip.AddrPort, bool)
}

func newPodQuestions(pods corev1client.PodsGetter) podQuestions {
	// A proxy server of the environment is not for the pod network, and the next probe at an address is another process.
	transport := &http.Transport{DisableKeepAlives: true}
	return podQuestions{pods: pods, at: kubeproxy.ShadowAddress, http: &http.Client{Timeout: shadowTimeout, Transport: transport}}
}

func (q podQuestions) answer(ctx context.Context, pod *corev1.Pod) kubeproxy.Answer {
	at, ok := q.at(pod)
	if !ok {
		return kubeproxy.Answer{Problem: "it has no address yet"}
	}
	var a kubeproxy.Answer
	err := q.get(ctx, at, "/proxyMode", func(body io.Reader) error {
		mode, err := io.ReadAll(io.LimitReader(body, 64))
		a.Mode = strings.TrimSpace(string(mode))
		return err
	})
	if err == nil {
		err = q.get(ctx, at, "/metrics", func(body io.Reader) (err error) {
			a.Syncs, err = kubeproxy.ReadSyncs(io.LimitReader(body, maxMetrics))
			return err
		})
	}
	if err != nil {
		a.Problem = err.Error()
	}
	return a
}

// get asks a shadow. Its error names no address: that is another one on each node.
func (q podQuestions) get(ctx context.Context, at netip.AddrPort, path string, read func(io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.String()+path, nil)
	if err != nil {
		return err
	}
	response, err := q.http.Do(request)
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, cause(err))
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, response.Status)
	}
	if err := read(response.Body); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// cause returns the innermost error, without the addresses that those around it name.
func cause(err error) error {
	for {
		wrapped, ok := err.(interface{ Unwrap() error })
		if !ok || wrapped.Unwrap() == nil {
			return err
		}
		err = wrapped.Unwrap()
	}
}

func (q podQuestions) log(ctx context.Context, pod *corev1.Pod, container string, lines int64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	limit := int64(kubeproxy.LogLimit)
	options := &corev1.PodLogOptions{Container: container, LimitBytes: &limit}
	if lines > 0 {
		options.TailLines = &lines
	}
	stream, err := q.pods.Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the log of container %s: %w", container, err)
	}
	defer stream.Close() //nolint:errcheck // it was only read
	log, err := io.ReadAll(io.LimitReader(stream, limit))
	if err != nil {
		return "", fmt.Errorf("reading the log of container %s: %w", container, err)
	}
	return string(log), nil
}
