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
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Times of a Conn. Over HTTP/2, a peer that disappears silently is noticed within
// pingAfter + pingTime. Over HTTP/1.1, which has no pings on a busy connection, TCP's
// keepalive takes 45 s.
const (
	pingAfter  = 10 * time.Second // idle time before a TCP keepalive probe
	pingTime   = 5 * time.Second  // to answer that
	answerTime = 20 * time.Second // to begin an answer, and between two pieces of it
	dialTime   = 10 * time.Second
)

// ErrConnClosed says that the line was ended on purpose.
var ErrConnClosed = errors.New("the connection was ended")

// A Conn is the connection between this process and a remote API server. Its network
// connections may be slow, cut, or dead without an error. All clients of one Conn share
// its state:
//
//   - a Conn is down from the first request that gets no answer until one that
//     does; an answer is any that does not say that the server is broken;
//   - while it is down, ordinary requests fail at once, and requests of Patient
//     clients wait. Only those of Probing clients are sent;
//   - no ordinary request waits for longer than 20 s for its answer to begin, or
//     to go on.
//
// A Conn needs a client that probes it: nothing else brings it up again.
type Conn struct {
	transport *http.Transport
	trip      http.RoundTripper // transport, and what the configuration puts around it
	onLost    func()
	limit     time.Duration // answerTime

	mu      sync.Mutex
	conns   map[*wire]bool
	cause   error         // why the Conn is down; nil: it is up
	ended   bool          // by Close
	bad     bool          // the last probe was refused
	changed chan struct{} // closed when waiting may be worth an end
}

// NewConn returns a connection to the API server of a configuration, for a Config with
// the same one. It calls onLost, if not nil, in a new goroutine each time the
// connection goes down. proxy is used if the configuration names none; nil: no proxy.
// Transport wrappers in the configuration see each request that is sent.
func NewConn(cfg *rest.Config, proxy func(*http.Request) (*url.URL, error), onLost func()) (*Conn, error) {
	secured, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	if secured == nil {
		secured = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if cfg.Proxy != nil {
		proxy = cfg.Proxy
	}
	l := &Conn{onLost: onLost, limit: answerTime, conns: map[*wire]bool{}, changed: make(chan struct{})}
	l.transport = &http.Transport{
		Proxy: proxy, DialContext: l.dial, TLSClientConfig: secured, TLSHandshakeTimeout: dialTime,
		MaxIdleConnsPerHost: 25, IdleConnTimeout: 90 * time.Second, DisableCompression: cfg.DisableCompression,
		ForceAttemptHTTP2: len(cfg.NextProtos) == 0,
		HTTP2:             &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTime},
	}
	l.trip = l.transport
	if cfg.WrapTransport != nil {
		l.trip = cfg.WrapTransport(l.transport)
	}
	return l, nil
}

// Down returns why the Conn is down; nil: it is not.
func (cn *Conn) Down() error {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	return cn.cause
}

// Close closes all connections permanently: every later request fails.
func (cn *Conn) Close() {
	cn.mu.Lock()
	cn.cause, cn.ended = ErrConnClosed, true
	open := cn.conns
	cn.conns = map[*wire]bool{}
	cn.notifyWaiters()
	cn.mu.Unlock()
	for c := range open {
		_ = c.Conn.Close()
	}
	cn.transport.CloseIdleConnections()
}

// Open returns the number of open connections.
func (cn *Conn) Open() int {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	return len(cn.conns)
}

// use returns a configuration that sends its requests over the Conn.
func (cn *Conn) use(cfg *rest.Config, m connMode) *rest.Config {
	out := rest.CopyConfig(cfg)
	if !strings.Contains(out.Host, "://") {
		out.Host = "https://" + out.Host // else the scheme follows from TLS options
	}
	out.TLSClientConfig, out.Dial, out.Proxy, out.WrapTransport = rest.TLSClientConfig{}, nil, nil, nil
	out.Transport = roundTripper{conn: cn, mode: m}
	return out
}

// notifyWaiters wakes all waiters. The caller holds l.mu.
func (cn *Conn) notifyWaiters() {
	close(cn.changed)
	cn.changed = make(chan struct{})
}

// markDown records that a request got no answer.
func (cn *Conn) markDown(err error) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	first := cn.cause == nil
	if !cn.ended {
		cn.cause = err
	}
	if first && cn.onLost != nil {
		go cn.onLost()
	}
}

// onAnswer records the status of an answer.
func (cn *Conn) onAnswer(status int, m connMode) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.ended {
		return
	}
	changes := false
	if m == probing {
		good := status < http.StatusMultipleChoices
		changes = good && cn.bad
		cn.bad = !good
	}
	if status < http.StatusInternalServerError {
		changes = changes || cn.cause != nil
		cn.cause = nil
	}
	if changes {
		cn.notifyWaiters()
	}
}

// A connMode is how requests deal with a line that is down.
type connMode int

const (
	ordinary connMode = iota // they fail at once
	probing                  // they are sent anyway
	patient                  // they wait
)

// roundTripper sends the requests of one client over a line.
type roundTripper struct {
	conn *Conn
	mode connMode
}

// RoundTrip sends a request.
func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	down := r.conn.Down()
	switch {
	case r.mode == patient:
		return r.conn.retry(req)
	case down != nil && (r.mode == ordinary || errors.Is(down, ErrConnClosed)):
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, &awayError{cause: down}
	}
	return r.conn.send(req, r.mode)
}

// send sends a request once, and records the result.
func (cn *Conn) send(req *http.Request, m connMode) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	timeout := time.AfterFunc(cn.limit, func() { cancel(errSilent) })
	resp, err := cn.trip.RoundTrip(req.WithContext(ctx))
	timeout.Stop()
	if err != nil {
		if context.Cause(ctx) == errSilent { //nolint:errorlint // this very value
			err = &awayError{cause: errSilent}
		}
		cancel(nil)
		// A caller who gave up says nothing about the line, unless it was the
		// limit of a probe that was reached.
		if caller := req.Context().Err(); caller == nil || m == probing && errors.Is(caller, context.DeadlineExceeded) {
			cn.markDown(err)
		}
		return nil, err
	}
	cn.onAnswer(resp.StatusCode, m)
	if m == probing {
		resp.Header.Del("Retry-After") // else client-go tries again and again, and the probe never sees why
	}
	body := &answer{ReadCloser: resp.Body, ctx: ctx, cancel: cancel, watch: isWatch(req)}
	if m != patient {
		body.limit = cn.limit
	}
	resp.Body = body
	return resp, nil
}

// errSilent says that an answer did not begin or go on in time.
var errSilent = fmt.Errorf("no answer within %s", answerTime)

// An awayError says that the API server could not be asked.
type awayError struct{ cause error }

func (e *awayError) Error() string { return e.cause.Error() }
func (e *awayError) Unwrap() error { return e.cause }

// Timeout and Temporary make awayError a net.Error that client-go retries.
func (e *awayError) Timeout() bool { return e.cause == errSilent } //nolint:errorlint // this very value
// Temporary returns true: the server may come back.
func (e *awayError) Temporary() bool { return true }

// An answer is the body of a response. It must keep arriving, except for requests of
// Patient clients.
type answer struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	limit  time.Duration // for the next piece; 0: none
	watch  bool          // to the reader a close by the Conn looks like a close by the server
}

// Read reads the next part of the body.
func (a *answer) Read(p []byte) (int, error) {
	if a.limit > 0 {
		timeout := time.AfterFunc(a.limit, func() { a.cancel(errSilent) })
		defer timeout.Stop()
	}
	n, err := a.ReadCloser.Read(p)
	switch {
	case err == nil || err == io.EOF:
	case a.watch && a.ctx.Err() == nil:
		err = io.EOF
	case context.Cause(a.ctx) == errSilent: //nolint:errorlint // this very value
		err = &awayError{cause: errSilent}
	}
	return n, err
}

// Close closes the answer.
func (a *answer) Close() error {
	err := a.ReadCloser.Close()
	a.cancel(nil)
	return err
}

// dial opens a connection that Conn.Close closes.
func (cn *Conn) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 10 * time.Second, Count: 3}}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: conn, line: cn}
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.ended {
		_ = conn.Close()
		return nil, ErrConnClosed
	}
	cn.conns[w] = true
	return w, nil
}

// wire is a connection of a line.
type wire struct {
	net.Conn
	line *Conn
}

// Close ends the connection.
func (w *wire) Close() error {
	w.line.mu.Lock()
	delete(w.line.conns, w)
	w.line.mu.Unlock()
	return w.Conn.Close()
}
