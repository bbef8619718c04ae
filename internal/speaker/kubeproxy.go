package speaker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// kubeProxyAddress is where kube-proxy serves its metrics unless told otherwise: on loopback, which the speaker shares.
const kubeProxyAddress = "http://127.0.0.1:10249"

// The times of asking kube-proxy.
const (
	askEvery   = 2 * time.Second
	askTimeout = time.Second
)

// askKubeProxy asks kube-proxy what it runs as. That it does not answer is an answer too.
func askKubeProxy(ctx context.Context, client *http.Client, base string) v1alpha1.NodeKubeProxy {
	mode, err := get(ctx, client, base+"/proxyMode")
	if err != nil {
		return v1alpha1.NodeKubeProxy{Message: fmt.Sprintf("kube-proxy does not answer: %v", err)}
	}
	answer := v1alpha1.NodeKubeProxy{Mode: strings.TrimSpace(mode)}
	metrics, err := get(ctx, client, base+"/metrics")
	if err != nil {
		answer.Message = fmt.Sprintf("kube-proxy does not say when it started: %v", err)
		return answer
	}
	started, err := processStart(metrics)
	if err != nil {
		answer.Message = err.Error()
		return answer
	}
	answer.StartTime = &metav1.Time{Time: started}
	return answer
}

// answerLimit bounds what is read: a kube-proxy with ten thousand Services has some megabytes of metrics.
const answerLimit = 32 << 20

func get(ctx context.Context, client *http.Client, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s", url, response.Status)
	}
	return string(body), nil
}

// processStart finds when the process started, to the second, in its Prometheus metrics.
func processStart(metrics string) (time.Time, error) {
	lines := bufio.NewScanner(strings.NewReader(metrics))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		value, found := strings.CutPrefix(lines.Text(), "process_start_time_seconds ")
		if !found {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return time.Time{}, fmt.Errorf("reading kube-proxy's start time: %w", err)
		}
		return time.Unix(int64(seconds), 0).UTC(), nil
	}
	return time.Time{}, errors.New("kube-proxy's metrics do not say when it started")
}

// watchKubeProxy asks again and again and passes on what has changed, until the context ends.
func watchKubeProxy(ctx context.Context, changed func(v1alpha1.NodeKubeProxy)) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	var last *v1alpha1.NodeKubeProxy
	for {
		answer := askKubeProxy(ctx, client, kubeProxyAddress)
		if last == nil || answer.Mode != last.Mode || answer.Message != last.Message || !answer.StartTime.Equal(last.StartTime) {
			last = &answer
			changed(answer)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
