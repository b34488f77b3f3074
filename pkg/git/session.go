package git

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"github.com/fleetworkspace/fleet/pkg/plan/address"
)

// maxRefsBytes bounds what a remote may send as its list of references.
const maxRefsBytes = 64 << 20

// A service is the program of git that a conversation is with.
type service string

const (
	serviceUpload  service = "git-upload-pack"  // gives commits
	serviceReceive service = "git-receive-pack" // takes commits
)

// A session is one conversation with a service: first advertised, then at most one
// request.
type session interface {
	// advertised lists the references of the remote whose names keep wants; nil
	// wants all.
	advertised(ctx context.Context, keep func(name []byte) bool) (*packp.AdvRefs, error)
	// uploadPack sends a request; the caller reads the answer and closes it.
	uploadPack(ctx context.Context, req *packp.UploadPackRequest) (io.ReadCloser, error)
	// receivePack sends a whole request of a push; the caller reads the answer and
	// closes it.
	receivePack(ctx context.Context, req []byte) (io.ReadCloser, error)
	close()
}

// newTransport returns the HTTP transport for the remotes of one source.
func newTransport(src Source, cfg Config) (*http.Transport, error) {
	roots, err := tlsConfig(src)
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		Proxy:                  cfg.Proxy,
		DialContext:            dialer(cfg.Addresses).DialContext,
		TLSClientConfig:        roots,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  cfg.Timeout,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConns:           2,
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: 64 << 10,
		OnProxyConnectResponse: proxyAnswer,
	}, nil
}

// dialer connects to the addresses that a policy allows: who writes into a
// repository names further ones.
func dialer(allowed address.Policy) *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, ControlContext: func(_ context.Context, _, endpoint string, _ syscall.RawConn) error {
		return allowed.CheckEndpoint(endpoint)
	}}
}

// connect begins a conversation with git-upload-pack. For SSH this dials; for HTTP it
// asks at most for a token.
func (e *sourceEntry) connect(ctx context.Context) (session, error) {
	return e.connectTo(ctx, serviceUpload)
}

// connectTo is connect for any service.
func (e *sourceEntry) connectTo(ctx context.Context, to service) (session, error) {
	if err := e.addresses.CheckHost(e.ep.host); err != nil {
		return nil, err
	}
	if e.ep.scheme == "ssh" {
		return dialSSH(ctx, e, to)
	}
	return newHTTPSession(ctx, e, to)
}

// decodeRefs reads a list of references and keeps those that keep wants, or all
// if it is nil, so that memory does not grow with a remote's list.
func decodeRefs(r io.Reader, keep func(name []byte) bool) (*packp.AdvRefs, error) {
	limited := &io.LimitedReader{R: r, N: maxRefsBytes}
	refs := packp.NewAdvRefs()
	err := refs.Decode(filterRefs(limited, keep))
	switch {
	case limited.N <= 0:
		return nil, permanentf(ReasonTooLarge, "the list of references is larger than %d MiB", maxRefsBytes>>20)
	case errors.Is(err, packp.ErrEmptyAdvRefs), err == nil && refs.IsEmpty():
		return nil, permanentf(ReasonEmptyRepository, "the repository is empty: it has no commit")
	case err != nil:
		return nil, err
	}
	return refs, nil
}
