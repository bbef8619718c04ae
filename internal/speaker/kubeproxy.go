package speaker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// The times of asking kube-proxy.
const (
	askEvery   = 2 * time.Second
	askTimeout = time.Second
)

// kubeProxy is the kube-proxy on the node, as it says itself. Its connection is kept open, which only the process at its other end can do:
// while it lasts that is the same process, and when it was started need not be asked for again. Its metrics, which say it, are large.
type kubeProxy struct {
	client *http.Client
	base   string
	// started is when the process at the other end of the connection was started; nil when that is not known.
	started *metav1.Time
}

func newKubeProxy(base string) *kubeProxy {
	return &kubeProxy{base: base, client: &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}}
}

// ask asks what it runs as. That it does not answer is an answer too.
func (k *kubeProxy) ask(ctx context.Context) v1alpha1.NodeKubeProxy {
	mode, same, err := k.get(ctx, "/proxyMode")
	if !same {
		k.started = nil
	}
	if err != nil {
		return v1alpha1.NodeKubeProxy{Message: fmt.Sprintf(
			"kube-proxy does not answer on %s (%s): it does not run, or its metricsBindAddress is another",
			strings.TrimPrefix(k.base, "http://"), cause(err))}
	}
	answer := v1alpha1.NodeKubeProxy{Mode: strings.TrimSpace(mode), StartTime: k.started}
	if k.started != nil {
		return answer
	}
	metrics, same, err := k.get(ctx, "/metrics")
	switch {
	case err != nil:
		answer.Message = fmt.Sprintf("kube-proxy does not say when it started: %s", cause(err))
		return answer
	case !same: // the mode may be that of the process before
		return v1alpha1.NodeKubeProxy{Message: "kube-proxy closed the connection while it was asked; it is asked again"}
	}
	started, err := processStart(metrics)
	if err != nil {
		answer.Message = err.Error()
		return answer
	}
	k.started = &metav1.Time{Time: started}
	answer.StartTime = k.started
	return answer
}

// cause is what went wrong, without the connection's own port: it would make each report differ from the one before.
func cause(err error) string {
	if requestErr, ok := errors.AsType[*url.Error](err); ok {
		err = requestErr.Err
	}
	if netErr, ok := errors.AsType[*net.OpError](err); ok {
		err = netErr.Err
	}
	return err.Error()
}

// answerLimit bounds what is read: a kube-proxy with ten thousand Services has some megabytes of metrics.
const answerLimit = 32 << 20

// get asks for one document, and says whether the answer came from the process that gave the one before.
func (k *kubeProxy) get(ctx context.Context, path string) (body string, same bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	// Of a request that is sent again, because its connection was found closed, the last connection counts.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { same = c.Reused }})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.base+path, nil)
	if err != nil {
		return "", false, err
	}
	response, err := k.client.Do(request)
	if err != nil {
		return "", false, err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	read, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	if err != nil {
		return "", false, err
	}
	if response.StatusCode != http.StatusOK {
		return "", same, fmt.Errorf("%s answers %s", path, response.Status)
	}
	return string(read), same, nil
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
	proxy := newKubeProxy("http://" + v1alpha1.KubeProxyMetricsAddress)
	defer proxy.client.CloseIdleConnections()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	var last *v1alpha1.NodeKubeProxy
	for {
		answer := proxy.ask(ctx)
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
