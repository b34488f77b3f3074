package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/kubeconfig"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// These limit what the API server of an imported cluster, which may be under anyone's
// control, can make this process read through one connection.
const (
	importedAnswerBytes = 4 << 20
	importedTotalBytes  = 32 << 20
	importedHeaderBytes = 64 << 10
	importedPages       = 20
)

// ErrTooLarge says that a server sent more than is read from it.
var ErrTooLarge = errors.New("the server sends more than is read from it")

// errPlainHTTP says that a request would have gone out without TLS.
var errPlainHTTP = errors.New("it is asked without TLS (http)")

// ReasonPlainHTTP is the reason of the reconcile.Terminal error of a request that
// would have gone out without TLS.
const ReasonPlainHTTP = "PlainHTTP"

// An ImportPolicy says how API servers of imported clusters may be reached.
type ImportPolicy struct {
	// Addresses says which reserved addresses are dialled; none by default.
	Addresses address.Policy
	// TLSOnly refuses plain http, also after a redirect.
	TLSOnly bool
	// Via, where not nil, carries the requests instead of real connections: an API
	// server in memory, for tests.
	Via http.RoundTripper
}

// ConnectImported prepares a connection to the API server of a kubeconfig that is not
// trusted. It reads at most 4 MiB of each answer, 32 MiB of all answers, and 20 pages
// of each list; the error of more contains ErrTooLarge. It checks addresses when it
// dials them, also those of proxies. It ignores cfg.REST. timeout is for one request.
func ConnectImported(cfg Config, a kubeconfig.Access, p ImportPolicy, timeout time.Duration) (*Client, error) {
	server, err := RESTOf(a)
	if err != nil {
		return nil, err
	}
	secured, err := rest.TLSConfigFor(server)
	if err != nil {
		return nil, err
	}
	transport := p.Transport(secured, server.Proxy)
	server.TLSClientConfig, server.Proxy = rest.TLSClientConfig{}, nil
	server.Transport, server.Timeout = transport, timeout
	cfg.REST, cfg.maxPages = server, importedPages
	return Connect(cfg)
}

// Transport returns an HTTP transport that follows the policy and the limits of
// ConnectImported. If proxy is nil, the proxy of the environment is used. Idle
// connections are closed after a while.
func (p ImportPolicy) Transport(secured *tls.Config, proxy func(*http.Request) (*url.URL, error)) http.RoundTripper {
	if secured == nil {
		secured = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	dialer := &net.Dialer{Timeout: dialTime, ControlContext: func(_ context.Context, _, endpoint string, _ syscall.RawConn) error {
		return p.Addresses.CheckEndpoint(endpoint)
	}}
	t := &importTransport{policy: p, next: &http.Transport{
		Proxy: proxy, DialContext: dialer.DialContext, TLSClientConfig: secured, TLSHandshakeTimeout: dialTime,
		MaxResponseHeaderBytes: importedHeaderBytes, MaxIdleConnsPerHost: 2, IdleConnTimeout: 10 * time.Second,
		ForceAttemptHTTP2: true,
	}}
	if p.Via != nil {
		t.next = p.Via
	}
	t.left.Store(importedTotalBytes)
	return t
}

// importTransport sends the requests of one connection to an imported cluster.
type importTransport struct {
	policy ImportPolicy
	next   http.RoundTripper
	left   atomic.Int64 // bytes of answers that may still be read
}

// RoundTrip sends a request, if the policy permits its address.
func (t *importTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.check(req.URL); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	res, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if res.ContentLength > min(importedAnswerBytes, t.left.Load()) {
		_ = res.Body.Close()
		return nil, ErrTooLarge
	}
	res.Body = &importedAnswer{ReadCloser: res.Body, total: &t.left, left: importedAnswerBytes}
	return res, nil
}

// check returns an error for an address that the policy does not permit.
func (t *importTransport) check(u *url.URL) error {
	if t.policy.TLSOnly && u.Scheme != "https" {
		return reconcile.TerminalError(ReasonPlainHTTP, errPlainHTTP)
	}
	return t.policy.Addresses.CheckHost(u.Hostname())
}

// importedAnswer is the body of an answer, up to its bounds. Its limits apply to what
// is read after decompression.
type importedAnswer struct {
	io.ReadCloser
	total *atomic.Int64
	left  int64
}

// Read reads the next part of the body; ErrTooLarge after the limit.
func (a *importedAnswer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	a.left -= int64(n)
	if total := a.total.Add(-int64(n)); a.left < 0 || total < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}

// checkPages returns an error for too many pages of a list from a server that is not
// trusted.
func (c *Client) checkPages(pages int) error {
	if c.cfg.maxPages > 0 && pages >= c.cfg.maxPages {
		return fmt.Errorf("more than %d pages: %w", c.cfg.maxPages, ErrTooLarge)
	}
	return nil
}
