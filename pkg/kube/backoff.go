package kube

import (
	"bytes"
	"context"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// A Backoff is a series of delays that double up to a limit. Each is taken at random
// from its second half, so that many clients that failed together do not come back
// together. The zero Backoff begins with 1 s and ends with 20 s: a client that waits
// for the end of an outage then notices it within 20 s, and within 7 s in half of the
// cases.
type Backoff struct {
	First, Last time.Duration
	series      wait.Backoff // not begun while its Duration is 0
}

// Default delays.
const (
	backoffFirst = time.Second
	backoffLast  = 20 * time.Second
)

// Next returns the delay after another failure.
func (b *Backoff) Next() time.Duration {
	if b.series.Duration == 0 {
		first, last := orDefault(b.First, backoffFirst), orDefault(b.Last, backoffLast)
		b.series = wait.Backoff{Duration: min(first, last) / 2, Cap: last / 2, Factor: 2, Jitter: 1, Steps: math.MaxInt}
	}
	return b.series.Step()
}

// Reset restarts the series, after a success.
func (b *Backoff) Reset() { b.series = wait.Backoff{} }

// Wait waits for the next delay, or until ctx ends.
func (b *Backoff) Wait(ctx context.Context) error { return Sleep(ctx, b.Next()) }

// Sleep waits for d, or until ctx ends; then it returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Patient returns the same connection for caches. On a Conn, a list or watch waits
// while the Conn is down. It is sent again after an answer that may change later: 401
// or 403, or the answer of a server that is overloaded, broken, or does not serve the
// kind yet. So a cache continues as soon as the Conn is up, without the delays of
// client-go, which grow to a minute.
func (c *Client) Patient() *Client { return c.with(patient) }

// Probing returns the same connection for requests that find out whether a Conn is up.
func (c *Client) Probing() *Client { return c.with(probing) }

// with returns the same connection in another mode of its Conn.
func (c *Client) with(m connMode) *Client {
	if c.cfg.Line == nil {
		return c
	}
	cfg := c.cfg
	cfg.REST = cfg.Line.use(cfg.REST, m)
	return &Client{cfg: cfg, scheme: c.scheme, loop: c.loop}
}

// retry sends a request until its answer is final, or its context ends.
func (cn *Conn) retry(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	var delays Backoff
	for {
		changes, err := cn.waitUntilUp(ctx)
		if err != nil {
			return nil, err
		}
		resp, err := cn.send(req, patient)
		if ctx.Err() != nil {
			if err == nil {
				_ = resp.Body.Close()
			}
			return nil, ctx.Err()
		}
		delay := delays.Next()
		if err == nil {
			if isFinal(resp) {
				return resp, nil
			}
			delay = max(delay, retryAfter(resp))
			_ = resp.Body.Close()
		} else {
			changes = nil // an event that the Conn is up must not shorten this delay
		}
		t := time.NewTimer(delay)
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-changes:
		}
		t.Stop()
	}
}

// waitUntilUp waits until the Conn is up, and returns a channel that is closed when its
// state changes next.
func (cn *Conn) waitUntilUp(ctx context.Context) (<-chan struct{}, error) {
	for {
		cn.mu.Lock()
		cause, changes, ended := cn.cause, cn.changed, cn.ended
		cn.mu.Unlock()
		switch {
		case ended:
			return nil, &awayError{cause: ErrConnClosed}
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case cause == nil:
			return changes, nil
		}
		select {
		case <-ctx.Done():
		case <-changes:
		}
	}
}

// isFinal reports whether a list or watch would get the same answer again.
func isFinal(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable:
		return false
	case http.StatusGatewayTimeout:
		return isTooLargeVersion(resp)
	}
	return true
}

// isTooLargeVersion reports whether the server answers that it does not know the
// requested resourceVersion yet: it was restored, and the cache has to start again. The
// body of the answer can still be read completely.
func isTooLargeVersion(resp *http.Response) bool {
	return bytes.Contains(peekBody(resp), []byte("ResourceVersionTooLarge"))
}

// peekBody returns the first 64 KiB of the body of an answer. The body can still be
// read completely.
func peekBody(resp *http.Response) []byte {
	const enough = 64 << 10
	text, err := io.ReadAll(io.LimitReader(resp.Body, enough))
	resp.Body = &reread{Reader: io.MultiReader(bytes.NewReader(text), resp.Body), Closer: resp.Body}
	if err != nil {
		return nil
	}
	return text
}

type reread struct {
	io.Reader
	io.Closer
}

// retryAfter returns the delay that the server asks for.
func retryAfter(resp *http.Response) time.Duration {
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, backoffLast)
}

// isWatch reports whether a request is a watch.
func isWatch(req *http.Request) bool {
	on, err := strconv.ParseBool(req.URL.Query().Get("watch"))
	return err == nil && on
}
