package endpoints

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
)

// inClusterName is the name that every API server of the test's cluster has in its certificate. The endpoints' address is 127.0.0.1, which
// those certificates are not valid for, as the API servers' need not be for a load balancer's.
const inClusterName = "localhost"

// quick turns to the next endpoint soon, so that the tests are; patient does not for a busy machine's sake, where the order is at stake.
var (
	quick   = timing{patience: 100 * time.Millisecond, attempt: 5 * time.Second, unacknowledged: time.Second, ping: 100 * time.Millisecond, pong: time.Second}
	patient = timing{patience: 3 * time.Second, attempt: 9 * time.Second, unacknowledged: 9 * time.Second, ping: 100 * time.Millisecond, pong: time.Second}
)

// authority is a cluster's.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{certificate, key}
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// sign makes a server's certificate for an address or a name.
func (a authority) sign(t *testing.T, name string) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if addr, err := netip.ParseAddr(name); err == nil {
		template.IPAddresses = []net.IP{addr.AsSlice()}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
}

// apiServer answers /version with its name, and /watch with a line and then nothing more. It counts the requests that reach it.
type apiServer struct {
	*httptest.Server
	requests atomic.Int32
}

func newAPIServer(t *testing.T, name string, certificate tls.Certificate) *apiServer {
	t.Helper()
	s := &apiServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		fmt.Fprintf(w, "%s by HTTP/%d for %s\n", name, r.ProtoMajor, r.Header.Get("Authorization"))
		if r.URL.Path == "/watch" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func (s *apiServer) endpoint() string { return s.Listener.Addr().String() }

// dead is an endpoint at which nobody listens.
func dead(t *testing.T) string {
	t.Helper()
	l := listen(t)
	_ = l.Close()
	return l.Addr().String()
}

// hanging is an endpoint that accepts connections and never says a word.
func hanging(t *testing.T) string {
	t.Helper()
	l := listen(t)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String() // the kernel accepts
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// cable joins whoever connects to it with a server, until it is cut silently: then nothing passes any more, and nobody is told.
type cable struct {
	net.Listener
	cut chan struct{}
}

func newCable(t *testing.T, to string) cable {
	t.Helper()
	c := cable{Listener: listen(t), cut: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	t.Cleanup(func() { cancel(); _ = c.Close(); ended.Wait() })
	ended.Go(func() {
		for {
			near, err := c.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			context.AfterFunc(ctx, func() { _ = near.Close(); _ = far.Close() })
			ended.Go(func() { c.carry(near, far) })
			ended.Go(func() { c.carry(far, near) })
		}
	})
	return c
}

func (c cable) carry(to io.WriteCloser, from io.Reader) {
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		select {
		case <-c.cut:
			if err != nil {
				return
			}
			continue // swallowed
		default:
		}
		if err != nil {
			_ = to.Close()
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// lines is a log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, args)
	}, funcr.Options{})
}

// with returns the lines that have a text.
func (l *lines) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// client is a program in a cluster.
type client struct {
	http.Client
	url    string
	list   string
	caFile string
	log    lines
}

// newClient has an in-cluster address that nobody answers at unless one is given, and a list of endpoints.
func newClient(t *testing.T, a authority, timing timing, inCluster string, endpoints ...string) *client {
	t.Helper()
	folder := t.TempDir()
	c := &client{list: filepath.Join(folder, Key), caFile: filepath.Join(folder, "ca.crt")}
	if err := os.WriteFile(c.caFile, a.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	if len(endpoints) > 0 {
		c.write(t, endpoints...)
	}
	if inCluster == "" {
		inCluster = dead(t)
	}
	_, port, err := net.SplitHostPort(inCluster)
	if err != nil {
		t.Fatal(err)
	}
	c.url = "https://" + net.JoinHostPort(inClusterName, port)
	config, err := direct(&rest.Config{Host: c.url, BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{CAFile: c.caFile}}, c.list, timing, c.log.logger())
	if err != nil {
		t.Fatal(err)
	}
	wrapped, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	c.Client = *wrapped
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func (c *client) write(t *testing.T, endpoints ...string) {
	t.Helper()
	if err := os.WriteFile(c.list, []byte(strings.Join(endpoints, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// version asks who answers, and takes no longer than ten seconds.
func (c *client) version(t *testing.T) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/version", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// retried is version, asked again while a connection that the server has closed is not known to be closed yet.
func (c *client) retried(t *testing.T) string {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		answer, err := c.version(t)
		if err == nil {
			return answer
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatal(err)
		}
	}
}

// watch opens a watch and returns how it ends, after the time given at most.
func (c *client) watch(t *testing.T, limit time.Duration) (first string, ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(request) //nolint:bodyclose // who waits for the watch's end closes it
	if err != nil {
		t.Fatal(err)
	}
	events := bufio.NewReader(response.Body)
	first, err = events.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := events.ReadString('\n')
		_ = response.Body.Close()
		done <- err
	}()
	return first, done
}

func TestWhoIsReached(t *testing.T) {
	cluster := newAuthority(t)
	good := newAPIServer(t, "good", cluster.sign(t, inClusterName))
	kubelet := newAPIServer(t, "kubelet", cluster.sign(t, "127.0.0.1"))
	stranger := newAPIServer(t, "stranger", newAuthority(t).sign(t, inClusterName))
	const answer = "good by HTTP/2 for Bearer secret\n"
	for name, tc := range map[string]struct {
		inCluster string
		list      []string
	}{
		"without a list, the in-cluster address":                  {inCluster: good.endpoint()},
		"with a list, without kube-proxy":                         {list: []string{good.endpoint()}},
		"the first endpoint is dead":                              {list: []string{dead(t), good.endpoint()}},
		"the first accepts and says nothing":                      {list: []string{hanging(t), good.endpoint()}},
		"the whole list is stale":                                 {list: []string{dead(t), hanging(t)}, inCluster: good.endpoint()},
		"the first has a certificate of another cluster":          {list: []string{stranger.endpoint(), good.endpoint()}},
		"the first has one for its address alone, as kubelets do": {list: []string{kubelet.endpoint(), good.endpoint()}},
		"the first is a name that does not resolve":               {list: []string{"no-such-host.invalid:6443", good.endpoint()}},
		"the list is rubbish":                                     {list: []string{"\x00\xff", "}{:", strings.Repeat("x", 100_000)}, inCluster: good.endpoint()},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, cluster, quick, tc.inCluster, tc.list...)
			start := time.Now()
			got, err := c.version(t)
			if err != nil || got != answer {
				t.Fatalf("got %q, %v; want %q", got, err, answer)
			}
			if took := time.Since(start); took >= quick.attempt {
				t.Errorf("it took %s, as long as one endpoint may: the others were not tried meanwhile", took)
			}
		})
	}
	if kubelet.requests.Load()+stranger.requests.Load() > 0 {
		t.Error("a server that proved nothing got a request, and the token with it")
	}
}

func TestNobodyIsReached(t *testing.T) {
	first, own := dead(t), dead(t)
	c := newClient(t, newAuthority(t), quick, own, first)
	_, err := c.version(t)
	_, port, _ := net.SplitHostPort(own)
	want := fmt.Sprintf("no API server answered at %s (connect: connection refused), localhost:%s (connect: connection refused): "+
		"see whether one runs, and whether this node reaches its address", first, port)
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("the error is %v, want it to end in %q", err, want)
	}
}

// TestAWatchThatBreaks: a watch learns that its API server is gone, however that goes, and what follows reaches another one.
func TestAWatchThatBreaks(t *testing.T) {
	for name, breakOff := range map[string]func(*apiServer, cable){
		"the API server ends and closes its connections": func(s *apiServer, c cable) { _ = c.Close(); s.CloseClientConnections() },
		"the API server's host goes without a word":      func(_ *apiServer, c cable) { close(c.cut) },
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newAuthority(t)
			first, second := newAPIServer(t, "first", cluster.sign(t, inClusterName)), newAPIServer(t, "second", cluster.sign(t, inClusterName))
			cable := newCable(t, first.endpoint())
			c := newClient(t, cluster, patient, "", cable.Addr().String(), second.endpoint())
			event, ended := c.watch(t, 20*time.Second)
			if !strings.HasPrefix(event, "first by HTTP/2") {
				t.Fatalf("the watch begins with %q", event)
			}
			start := time.Now()
			breakOff(first, cable)
			if err := <-ended; err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("the watch ended with %v after %s, want it broken after %s", err, time.Since(start), patient.ping+patient.pong)
			}
			if got := c.retried(t); !strings.HasPrefix(got, "second") {
				t.Errorf("then %q answers, want the second", got)
			}
		})
	}
}

// TestWhoAnsweredIsAskedFirst: a dead endpoint costs its time once, not with each connection.
func TestWhoAnsweredIsAskedFirst(t *testing.T) {
	cluster := newAuthority(t)
	good := newAPIServer(t, "good", cluster.sign(t, inClusterName))
	asked := listen(t)
	defer func() { _ = asked.Close() }()
	var times atomic.Int32
	go func() {
		for {
			conn, err := asked.Accept()
			if err != nil {
				return
			}
			times.Add(1)
			_ = conn.Close()
		}
	}()
	c := newClient(t, cluster, patient, "", asked.Addr().String(), good.endpoint())
	for range 3 {
		c.retried(t)
		good.CloseClientConnections()
	}
	if got := times.Load(); got != 1 {
		t.Errorf("the dead endpoint was asked %d times, want once", got)
	}
	if got := c.log.with("reached the API server"); len(got) != 1 {
		t.Errorf("the log says %q, want one line for the one endpoint", got)
	}
}

// TestAListThatChanges: what is written into the mounted file counts from the next connection on.
func TestAListThatChanges(t *testing.T) {
	cluster := newAuthority(t)
	own, listed := newAPIServer(t, "own", cluster.sign(t, inClusterName)), newAPIServer(t, "listed", cluster.sign(t, inClusterName))
	c := newClient(t, cluster, patient, own.endpoint())
	var got []string
	for _, list := range [][]string{nil, {listed.endpoint()}, {"rubbish", dead(t)}, {"rubbish"}} {
		if list != nil {
			c.write(t, list...)
		}
		got = append(got, strings.Fields(c.retried(t))[0])
		own.CloseClientConnections()
		listed.CloseClientConnections()
	}
	if diff := cmp.Diff([]string{"own", "listed", "own", "own"}, got); diff != "" {
		t.Errorf("who answered (-want +got):\n%s", diff)
	}
	if said := c.log.with("rubbish"); len(said) != 1 {
		t.Errorf("of the line that is skipped the log speaks %d times, want once: %q", len(said), said)
	}
}

// TestTheAuthoritiesFileIsReadAgain: a program that runs when the cluster's certificate authority is replaced goes on.
func TestTheAuthoritiesFileIsReadAgain(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	s := newAPIServer(t, "new", after.sign(t, inClusterName))
	c := newClient(t, before, quick, "", s.endpoint())
	if _, err := c.version(t); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Fatalf("with the old authority the error is %v", err)
	}
	if err := os.WriteFile(c.caFile, after.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.version(t); err != nil {
		t.Errorf("with the new authority: %v", err)
	}
}

func TestDirectChangesNothingWithoutAFile(t *testing.T) {
	config := &rest.Config{Host: "http://elsewhere"}
	if got, err := Direct(config, "", logr.Discard()); err != nil || got != config {
		t.Errorf("got %v, %v, want the same configuration", got, err)
	}
	if _, err := Direct(config, "/some/file", logr.Discard()); err == nil {
		t.Error("a host without TLS was accepted: the token would be sent in the clear")
	}
}
