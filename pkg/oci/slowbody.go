package oci

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// stallBytes is how many bytes of an answer have to arrive within Config.Stall. A registry
// that sends fewer does not keep a call until its timeout.
const stallBytes = 1 << 10

// slowBody is the body of an answer. It ends the request if too few bytes arrive.
type slowBody struct {
	io.ReadCloser
	guard    *requestGuard
	cancel   context.CancelFunc // of the request
	watch    *time.Timer
	stalled  atomic.Bool
	progress int // bytes since the time limit was extended
}

// send sends a request whose answer has to arrive in time.
func (g *requestGuard) send(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	res, err := g.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	body := &slowBody{ReadCloser: res.Body, guard: g, cancel: cancel}
	body.watch = time.AfterFunc(g.stall, func() {
		body.stalled.Store(true)
		cancel()
	})
	res.Body = body
	return res, nil
}

// Read implements io.Reader. Its error is RequeueAfter, ReasonUnreachable, if too few bytes
// have arrived.
func (b *slowBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.stalled.Load() {
		return 0, waitf(ReasonUnreachable, "registry %q cannot be reached: fewer than %d bytes came in %s", b.guard.registry.host, stallBytes, b.guard.stall)
	}
	if err != nil {
		b.watch.Stop()
		return n, err
	}
	if b.progress += n; b.progress >= stallBytes {
		b.progress = 0
		b.watch.Reset(b.guard.stall)
	}
	return n, nil
}

// Close implements io.Closer.
func (b *slowBody) Close() error {
	b.watch.Stop()
	err := b.ReadCloser.Close()
	b.cancel()
	return err
}
