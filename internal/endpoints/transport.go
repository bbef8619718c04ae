package endpoints

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

// timing is how long a connection waits for whom.
type timing struct {
	// patience is how long an endpoint may take until the next is tried too.
	patience time.Duration
	// attempt is how long an endpoint may take at most, with TLS.
	attempt time.Duration
	// unacknowledged is how long what was sent may go without the peer's kernel acknowledging it, probes of an idle connection among it:
	// a host that is dead or cut off is noticed within that time and a second.
	unacknowledged time.Duration
	// ping is after how long without a frame HTTP/2 asks whether the server still works, and pong how long the answer may take. It finds
	// servers that hang on living hosts. pong is long: a busy server must not be burdened with new connections.
	ping, pong time.Duration
}

var defaultTiming = timing{
	patience: time.Second, attempt: 10 * time.Second, unacknowledged: 3 * time.Second, ping: 5 * time.Second, pong: 10 * time.Second,
}

// keepAlive lets the kernel probe a connection that is idle for a second each second.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second}

// Direct returns a copy of config, an in-cluster one, whose connections go to the endpoints that the file lists, and to config's own host
// last. The file is read each time that a connection is made; it may be missing, stale or nonsense. Without a file's name it is config itself.
//
// URL and name stay config's: a certificate counts if it is of the cluster's authority and valid for the in-cluster host, wherever the
// connection goes. Every API server has that name in its certificate, for every pod calls it so. That it were valid for the address called
// would prove less: the same authority signs kubelets' certificates, each with its node's address, and whoever could write the list could
// send our token to one. So the list needs no trust.
func Direct(config *rest.Config, file string, log logr.Logger) (*rest.Config, error) {
	return direct(config, file, defaultTiming, log)
}

func direct(config *rest.Config, file string, t timing, log logr.Logger) (*rest.Config, error) {
	if file == "" {
		return config, nil
	}
	inCluster, err := urlEndpoint(config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's address: %w", err)
	}
	d := &dialer{file: file, inCluster: inCluster, tls: rest.CopyConfig(config), timing: t, log: log}
	changed := rest.CopyConfig(config)
	// client-go takes a transport only without settings of TLS, which the transport has.
	changed.TLSClientConfig = rest.TLSClientConfig{}
	changed.Transport = &http.Transport{
		DialTLSContext:      d.dial,
		DisableCompression:  config.DisableCompression,
		ForceAttemptHTTP2:   true, // which a dialer of one's own turns off otherwise
		HTTP2:               &http.HTTP2Config{SendPingTimeout: t.ping, PingTimeout: t.pong},
		IdleConnTimeout:     90 * time.Second,
		MaxIdleConnsPerHost: 25,
	}
	return changed, nil
}

// dialer connects to the API server that answers.
type dialer struct {
	file      string
	inCluster Endpoint
	// tls is the configuration with the cluster's certificate authority.
	tls    *rest.Config
	timing timing
	log    logr.Logger

	mu sync.Mutex
	// answered is the endpoint of the latest connection.
	answered Endpoint
	// remarked is what was last said of the file.
	remarked string
}

// dial is http.Transport's DialTLSContext. The address that it is given is the in-cluster one.
func (d *dialer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	config, err := d.tlsConfig()
	if err != nil {
		return nil, err
	}
	list := d.read()
	d.mu.Lock()
	order := Order(list, d.answered, d.inCluster)
	d.mu.Unlock()
	conn, by, err := race(ctx, order, d.timing.patience, func(ctx context.Context, e Endpoint) (net.Conn, error) {
		return d.connect(ctx, e, config)
	})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if by != d.answered {
		d.log.Info("reached the API server", "endpoint", by.String())
	}
	d.answered = by
	return conn, nil
}

// tlsConfig is made anew for each connection: the certificate authority's file changes when it is rotated.
func (d *dialer) tlsConfig() (*tls.Config, error) {
	config, err := rest.TLSConfigFor(rest.CopyConfig(d.tls))
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's certificate authority: %w", err)
	}
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config.ServerName = cmp.Or(config.ServerName, d.inCluster.Host)
	config.NextProtos = []string{"h2", "http/1.1"}
	return config, nil
}

// connect reaches one endpoint, and sees that it is an API server of this cluster.
func (d *dialer) connect(ctx context.Context, e Endpoint, config *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timing.attempt)
	defer cancel()
	raw, err := (&net.Dialer{KeepAliveConfig: keepAlive, Control: giveUpAfter(d.timing.unacknowledged)}).DialContext(ctx, "tcp", e.String())
	if err != nil {
		return nil, err // race says where
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // it may be closed already
		return nil, err
	}
	return conn, nil
}

// maxFile is more than a list of maxEndpoints DNS names can have, in bytes.
const maxFile = 64 << 10

// read returns what the file lists, and says once what is wrong with it. A file that is missing is as good as an empty one.
func (d *dialer) read() []Endpoint {
	text, err := readFile(d.file)
	list, remarks := Parse(text)
	if err != nil {
		remarks = append(remarks, fmt.Sprintf("it cannot be read: %v", err))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if said := strings.Join(remarks, "; "); said != d.remarked {
		d.remarked = said
		if said != "" {
			d.log.Info("the list of API servers is not as the manager writes it; the rest of it is used", "file", d.file, "remarks", said)
		}
	}
	return list
}

func readFile(name string) (string, error) {
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile))
	return string(text), errors.Join(err, file.Close())
}
