package oci

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/fleetworkspace/fleet/pkg/disk"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/proxy"
)

// Reasons of errors, one PascalCase word each; they become the reasons of
// conditions. Unreachable and Damaged are reconcile.RequeueAfter, and so is NotFound of a
// bundle's content, which may be pushed again; all others are reconcile.Terminal.
const (
	ReasonInvalidReference      = "InvalidReference"
	ReasonInvalidCredentials    = "InvalidCredentials"
	ReasonAuthenticationRefused = "AuthenticationRefused"
	ReasonCertificateRefused    = "CertificateRefused"
	ReasonRedirected            = "Redirected"
	ReasonNotFound              = "NotFound"
	ReasonNotRegistry           = "NotRegistry"
	ReasonNotChart              = "NotChart"
	ReasonNotContent            = "NotContent"
	ReasonTooLarge              = "TooLarge"
	ReasonDeletionRefused       = "DeletionRefused"
	ReasonDamaged               = "Damaged"
	ReasonUnreachable           = "Unreachable"
)

// retryAfter is the shortest time until a registry that did not answer is asked
// again.
const retryAfter = 5 * time.Second

func permanentf(reason, format string, args ...any) error {
	return reconcile.TerminalError(reason, fmt.Errorf(format, args...))
}

func waitf(reason, format string, args ...any) error {
	return reconcile.RequeueError(reason, retryAfter, fmt.Errorf(format, args...))
}

// explain turns what the library reported into an error of this package: a deliberate
// kind, and a text that is the same for the same fault. The text holds neither a
// credential nor text of the registry.
func (s *session) explain(ctx context.Context, err error) error {
	var permanent *reconcile.Terminal
	var wait *reconcile.RequeueAfter
	switch {
	case err == nil:
		return nil
	case errors.As(err, &permanent):
		return permanent
	case errors.As(err, &wait):
		return wait
	case errors.Is(err, errdef.ErrNotFound):
		return s.notFound()
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return s.refusedError(http.StatusUnauthorized)
	}
	if local := disk.Fault(err); local != nil {
		return local
	}
	var response *errcode.ErrorResponse
	if errors.As(err, &response) {
		return s.answered(response)
	}
	var verification *tls.CertificateVerificationError
	if errors.As(err, &verification) {
		return permanentf(ReasonCertificateRefused, "certificate of registry %q is not trusted: %s", s.host,
			strings.TrimPrefix(verification.Err.Error(), "x509: "))
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	var proxy *proxyError
	if errors.As(err, &proxy) {
		return proxy.explain(s.host)
	}
	why := networkFault(ctx, err)
	if op := (*net.OpError)(nil); why != "" && errors.As(err, &op) {
		switch op.Op {
		case "proxyconnect":
			why = fmt.Sprintf("proxy %q cannot be reached: %s", s.proxyName(), why)
		case "socks connect":
			why = fmt.Sprintf("SOCKS proxy %q does not connect: %s", s.proxyName(), socksFault(op, why))
		}
	}
	if why != "" {
		return waitf(ReasonUnreachable, "registry %q cannot be reached: %s", s.host, why)
	}
	return waitf(ReasonDamaged, "registry %q sends for %q something else than it announces", s.host, s.artifact)
}

// proxyName returns host and port of the proxy for the registry, without user
// name and password, or "" if there is none.
func (s *session) proxyName() string {
	return proxy.Host(s.transport.Proxy, &url.URL{Scheme: s.guard.registry.scheme, Host: s.ref.Host()})
}

// socksFault returns what the SOCKS client reports. why is the text for faults
// of the connection to the proxy.
func socksFault(op *net.OpError, why string) string {
	var conn *net.OpError
	if errors.As(op.Err, &conn) || errors.Is(op.Err, io.EOF) || errors.Is(op.Err, io.ErrUnexpectedEOF) {
		return why
	}
	return op.Err.Error()
}

// A proxyError is the answer of a proxy that does not connect.
type proxyError struct {
	proxy  string // host and port
	status int
}

func (e *proxyError) Error() string {
	return fmt.Sprintf("proxy %q does not connect (%d %s)", e.proxy, e.status, http.StatusText(e.status))
}

// explain returns the error of this package for a registry behind the proxy.
func (e *proxyError) explain(registry string) error {
	if e.status == http.StatusProxyAuthRequired {
		return permanentf(ReasonAuthenticationRefused, "proxy %q asks for credentials (407), or refuses those in its URL; the URL of the proxy holds them", e.proxy)
	}
	return waitf(ReasonUnreachable, "registry %q cannot be reached: %w", registry, e)
}

// proxyAnswer makes an error of a proxy's refusal.
func proxyAnswer(_ context.Context, at *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	return &proxyError{at.Host, answer.StatusCode}
}

// networkFault is the stable core of a network error; empty if it is none.
func networkFault(ctx context.Context, err error) string {
	var (
		errno  syscall.Errno
		dns    *net.DNSError
		record tls.RecordHeaderError
		alert  tls.AlertError
		netErr net.Error
		urlErr *url.Error
	)
	switch {
	case ctx.Err() != nil, errors.As(err, &netErr) && netErr.Timeout():
		return "no answer in time"
	case errors.As(err, &dns):
		return "no address is known for this name"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "it does not speak TLS on this port (is basicHTTP meant?)"
	case errors.As(err, &alert):
		return alert.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed early"
	case errors.As(err, &urlErr):
		return "the answer could not be read"
	}
	return ""
}

// answered judges an answer that says no.
func (s *session) answered(r *errcode.ErrorResponse) error {
	own := r.URL != nil && s.guard.isRegistry(r.URL)
	status := fmt.Sprintf("%d %s", r.StatusCode, http.StatusText(r.StatusCode))
	switch {
	case r.StatusCode == http.StatusUnauthorized && (own || s.guard.isRealm(r.URL)),
		r.StatusCode == http.StatusForbidden && (own || s.guard.isRealm(r.URL)):
		return s.refusedError(r.StatusCode)
	case !own:
		return waitf(ReasonUnreachable, "registry %q points to %q, which answers %s", s.host, r.URL.Host, status)
	case !strings.HasPrefix(r.URL.Path, "/v2/"):
		return waitf(ReasonUnreachable, "the token service of registry %q answers %s", s.host, status)
	case r.StatusCode == http.StatusNotFound:
		return s.notFound()
	case r.StatusCode == http.StatusRequestEntityTooLarge:
		return permanentf(ReasonTooLarge, "registry %q does not accept %q: it is too large (%d)", s.host, s.artifact, r.StatusCode)
	case r.Method == http.MethodDelete && (r.StatusCode == http.StatusMethodNotAllowed || errorCode(r) == errcode.ErrorCodeUnsupported):
		return permanentf(ReasonDeletionRefused, "registry %q does not allow to delete %q (%d); remove it there by hand, or enable deletion", s.host, s.artifact, r.StatusCode)
	}
	if c := errorCode(r); c != "" {
		status += ", " + c
	}
	return waitf(ReasonUnreachable, "registry %q cannot serve %q: it answers %s", s.host, s.artifact, status)
}

// errorCode is the error code in an answer, if it is one of the specification.
func errorCode(r *errcode.ErrorResponse) string {
	known := []string{
		errcode.ErrorCodeBlobUnknown, errcode.ErrorCodeBlobUploadInvalid, errcode.ErrorCodeBlobUploadUnknown,
		errcode.ErrorCodeDigestInvalid, errcode.ErrorCodeManifestBlobUnknown, errcode.ErrorCodeManifestInvalid,
		errcode.ErrorCodeManifestUnknown, errcode.ErrorCodeNameInvalid, errcode.ErrorCodeNameUnknown,
		errcode.ErrorCodeSizeInvalid, errcode.ErrorCodeUnauthorized, errcode.ErrorCodeDenied, errcode.ErrorCodeUnsupported,
	}
	for _, e := range r.Errors {
		if slices.Contains(known, e.Code) {
			return e.Code
		}
	}
	return ""
}

func (s *session) refusedError(status int) error {
	if s.anonymous {
		return permanentf(ReasonAuthenticationRefused, "registry %q asks for credentials for %q (%d); none are sent", s.host, s.artifact, status)
	}
	return permanentf(ReasonAuthenticationRefused, "registry %q refuses the credentials for %q (%d)", s.host, s.artifact, status)
}

func (s *session) notFound() error {
	text := fmt.Sprintf("registry %q has no %q", s.host, s.artifact)
	if s.anonymous {
		text += ", or it is private"
	}
	return permanentf(ReasonNotFound, "%s", text)
}
