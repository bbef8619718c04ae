package speaker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/kubeproxy"
)

// The times of asking kube-proxy.
const (
	askEvery   = 2 * time.Second
	askTimeout = time.Second
	// countEvery is how often a process that has written its rules is asked for its metrics, which are large; in its first probation it is
	// asked as often as for its mode, for a roll goes on by what it shows then.
	countEvery = 30 * time.Second
	probation  = 30 * time.Second
)

// kubeProxy is the kube-proxy on the node, as it says itself. Its connection is kept open, which only the process at its other end can do:
// while it lasts that is the same process, and what cannot change in a process need not be asked for again.
type kubeProxy struct {
	client *http.Client
	now    func() time.Time
	// at is the address where it answered last; empty when it never did.
	at string
	// process is the one at the other end of the connection; nil when nothing is known of it.
	process *process
}

// process is what is known of a kube-proxy process.
type process struct {
	metrics proxyMetrics
	// met is when its metrics were asked for first, counted when they were last.
	met, counted time.Time
	// failing are the IP families whose rules it has tried to write since it wrote them last, and could not.
	failing map[string]bool
	// settings are what it runs with; nil while it has not said.
	settings map[string]string
}

func newKubeProxy(now func() time.Time) *kubeProxy {
	return &kubeProxy{now: now, client: &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1, IdleConnTimeout: time.Minute}}}
}

// errReplaced says that an answer came from another process than the one before.
var errReplaced = errors.New("kube-proxy closed the connection while it was asked; it is asked again")

// ask asks what it runs as, at the address where it should answer. Until it is restarted it may still answer where it did before, and
// where it does by default. That it does not answer is an answer too.
func (k *kubeProxy) ask(ctx context.Context, address string) v1alpha1.NodeKubeProxy {
	mode, err := k.find(ctx, address)
	if err != nil {
		return v1alpha1.NodeKubeProxy{Message: fmt.Sprintf(
			"kube-proxy does not answer on %s (%s): it does not run, or its metricsBindAddress is another", address, cause(err))}
	}
	err = errors.Join(k.count(ctx), k.configure(ctx))
	if errors.Is(err, errReplaced) { // the mode may be that of the process before
		k.process = nil
		return v1alpha1.NodeKubeProxy{Message: errReplaced.Error()}
	}
	return k.answer(mode, err)
}

// find asks for the mode at each address where the process may answer, and stays with the first that does.
func (k *kubeProxy) find(ctx context.Context, address string) (mode string, err error) {
	var tried []string
	for _, at := range []string{address, k.at, v1alpha1.KubeProxyMetricsAddress} {
		if at == "" || slices.Contains(tried, at) {
			continue
		}
		tried = append(tried, at)
		answer, same, askErr := k.get(ctx, at, "/proxyMode")
		if at == k.at && !same {
			k.process = nil
		}
		if askErr == nil {
			if at != k.at {
				k.at, k.process = at, nil
			}
			return strings.TrimSpace(answer), nil
		}
		if err == nil {
			err = askErr
		}
	}
	k.process = nil
	return "", err
}

// count asks for the metrics when they are not known, when rules are still to be written, and else now and then.
func (k *kubeProxy) count(ctx context.Context) error {
	known := k.process != nil
	if known && !k.process.due(k.now()) {
		return nil
	}
	var metrics proxyMetrics
	same, err := k.read(ctx, k.at, "/metrics", func(body io.Reader) (err error) {
		metrics, err = readMetrics(body)
		return err
	})
	switch {
	case !same:
		return errReplaced
	case err != nil && known: // what it counted before still holds
		k.process.counted = k.now()
		return nil
	case err != nil:
		return fmt.Errorf("kube-proxy does not say when it started: %s", cause(err))
	case !known:
		k.process = &process{met: k.now()}
	}
	k.process.failing = metrics.failing(k.process.metrics, k.process.failing)
	k.process.metrics, k.process.counted = metrics, k.now()
	return nil
}

// due says whether to ask for the metrics again.
func (p *process) due(now time.Time) bool {
	return p.rules() != v1alpha1.RulesWritten || now.Sub(p.met) < probation || now.Sub(p.counted) >= countEvery
}

// rules says how the rules stand.
func (p *process) rules() v1alpha1.RulesState {
	if state := p.metrics.rules(); state != v1alpha1.RulesWritten || len(p.failing) == 0 {
		return state
	}
	return v1alpha1.RulesFailing
}

// configure asks a process that is known what it runs with, until it has said.
func (k *kubeProxy) configure(ctx context.Context) error {
	if k.process == nil || k.process.settings != nil {
		return nil
	}
	configz, same, err := k.get(ctx, k.at, "/configz")
	if !same {
		return errReplaced
	}
	if err != nil {
		return fmt.Errorf("kube-proxy does not say its settings: %s", cause(err))
	}
	k.process.settings, err = settingsOf([]byte(configz))
	return err
}

// settingsOf returns the settings of the answer of /configz. Up to 1.35 they are not all there: then they are not known, which differs from
// being at their zero value.
func settingsOf(configz []byte) (map[string]string, error) {
	found, complete, err := kubeproxy.SettingsOf(configz)
	if err != nil {
		return nil, fmt.Errorf("kube-proxy does not say its settings: %w", err)
	}
	settings := map[string]string{}
	if complete {
		for path, value := range found {
			settings[string(path)] = value
		}
	}
	return settings, nil
}

// answer is what the process said, and what it could not say.
func (k *kubeProxy) answer(mode string, trouble error) v1alpha1.NodeKubeProxy {
	a := v1alpha1.NodeKubeProxy{Mode: mode}
	if trouble != nil {
		a.Message = trouble.Error()
	}
	if p := k.process; p != nil {
		a.StartTime = &metav1.Time{Time: p.metrics.started}
		a.Rules, a.SyncFailures, a.Uses = p.rules(), p.metrics.failed(), p.metrics.uses()
		if len(p.settings) > 0 {
			a.Settings = p.settings
		}
	}
	return a
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

// answerLimit bounds what is read, in bytes.
const answerLimit = 32 << 20

// get asks for one document, and says whether the answer came from the process that gave the one before.
func (k *kubeProxy) get(ctx context.Context, at, path string) (document string, same bool, err error) {
	same, err = k.read(ctx, at, path, func(body io.Reader) error {
		all, err := io.ReadAll(body)
		document = string(all)
		return err
	})
	return document, same, err
}

// read is get for a document that is taken in while it comes.
func (k *kubeProxy) read(ctx context.Context, at, path string, take func(io.Reader) error) (same bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	// Of a request that is sent again, because its connection was found closed, the last connection counts.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { same = c.Reused }})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+path, nil)
	if err != nil {
		return false, err
	}
	response, err := k.client.Do(request)
	if err != nil {
		return same, err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	body := io.LimitReader(response.Body, answerLimit)
	if response.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, body) // what is left unread would cost the connection
		return same, fmt.Errorf("%s answers %s", path, response.Status)
	}
	if err := take(body); err != nil {
		_, _ = io.Copy(io.Discard, body)
		return same, err
	}
	return same, nil
}
