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

// Next returns the delay after one more failure.
func (b *Backoff) Next() time.Duration {
	if b.series.Duration == 0 {
		first, last := orElse(b.First, backoffFirst), orElse(b.Last, backoffLast)
		b.series = wait.Backoff{Duration: min(first, last) / 2, Cap: last / 2, Factor: 2, Jitter: 1, Steps: math.MaxInt}
	}
	return b.series.Step()
}

// Reset restarts the series, after a success.
func (b *Backoff) Reset() { b.series = wait.Backoff{} }

// Wait waits for the next delay, or until ctx ends.
func (b *Backoff) Wait(ctx context.Context) error { return Sleep(ctx, b.Next()) }

// Sleep waits for d, or until ctx ends, and returns then why.
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

// Patient returns the same connection for caches. Where it goes over a Conn, a request
// to list or watch waits while the Conn is down. It is sent again after an answer that
// may change later: refused rights and credentials, a server that is overloaded,
// broken, or does not serve the kind yet. So a cache resumes where it was as soon as
// the Conn is up, without client-go's own delays, which grow to a minute.
func (c *Client) Patient() *Client { return c.with(patient) }

// Probing returns the same connection for requests that find out whether a Conn is up.
func (c *Client) Probing() *Client { return c.with(probing) }

func (c *Client) with(m connMode) *Client {
	if c.cfg.Line == nil {
		return c
	}
	cfg := c.cfg
	cfg.REST = cfg.Line.attach(cfg.REST, m)
	return &Client{cfg: cfg, scheme: c.scheme, loop: c.loop}
}

// retry sends a request until it has an answer that is worth passing on, or its
// context ends.
func (l *Conn) retry(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	var delays Backoff
	for {
		changes, err := l.untilUp(ctx)
		if err != nil {
			return nil, err
		}
		resp, err := l.send(req, patient)
		if ctx.Err() != nil {
			if err == nil {
				_ = resp.Body.Close()
			}
			return nil, ctx.Err()
		}
		delay := delays.Next()
		if err == nil {
			if final(resp) {
				return resp, nil
			}
			delay = max(delay, retryAfter(resp))
			_ = resp.Body.Close()
		} else {
			changes = nil // what brings the line up again must not make us hurry
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

// untilUp waits until the connection is up, and returns a channel that is closed when
// its state changes next.
func (l *Conn) untilUp(ctx context.Context) (<-chan struct{}, error) {
	for {
		l.mu.Lock()
		cause, changes, ended := l.cause, l.changed, l.ended
		l.mu.Unlock()
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

// final reports whether an answer to a list or watch will be the same next time.
func final(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable:
		return false
	case http.StatusGatewayTimeout:
		return fromTheFuture(resp)
	}
	return true
}

// fromTheFuture reports whether the server says that it does not know the asked version
// yet: it was restored, and the cache has to start again. The answer can be read again
// from its beginning afterwards.
func fromTheFuture(resp *http.Response) bool {
	return bytes.Contains(beginningOf(resp), []byte("ResourceVersionTooLarge"))
}

// beginningOf reads the first 64 KiB of an answer. The answer can be read afterwards as
// if nothing had been read.
func beginningOf(resp *http.Response) []byte {
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

// retryAfter is for how long the server asks to be left alone.
func retryAfter(resp *http.Response) time.Duration {
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, backoffLast)
}

// watches reports whether a request is a watch.
func watches(req *http.Request) bool {
	on, err := strconv.ParseBool(req.URL.Query().Get("watch"))
	return err == nil && on
}
